"""What element-wise operations share: `Unary` and `Binary` to derive from, and results of whole
numbers.

An operation of one of these families states its types where they differ and its formula.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import OfReals, Operation
from uncork.ops._ports import ARITHMETIC, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


class Unary(OfReals):
    """One input of any shape, one output of the same shape and, unless said otherwise, type."""

    elementwise = True

    def infer(self, data: TensorSpec) -> PartialShape:
        return data.shape


class Binary(Broadcasting):
    """Two inputs of one type which stretch to a common shape by `auto_broadcast`."""

    a = Input(ARITHMETIC, "T")
    b = Input(ARITHMETIC, "T")
    output = Output("T")
    elementwise = True
    #: The formula, of two arrays that stretch to a common shape.
    function: ClassVar[Callable[..., Array]]

    def infer(self, a: TensorSpec, b: TensorSpec) -> PartialShape:
        return self.common_shape([a.shape, b.shape], ["a", "b"])

    def reference(self, a: Array, b: Array) -> Array:
        return self.function(a, self.placed(b, a.ndim))


class RealFunction(Unary):
    """A function of real numbers, computed in the input's own type; of integers, in f64 and rounded
    to the nearest integer.

    The pages ask for that rounding where they speak of integers (Sqrt, Tanh). Where the function
    has no integer value (the logarithm of 0, the square root of -1) the call is refused: an integer
    type has no NaN to say so.
    """

    data = Input(ARITHMETIC, "T")
    #: Integers from here on lose digits in f64. Only functions that such a loss makes meaningless
    #: set it.
    integer_limit: ClassVar[int | None] = None
    #: The formula, of an array of real numbers.
    function: ClassVar[Callable[..., Array]]

    def reference(self, data: Array) -> Array:
        if data.dtype.kind == "f":
            return self.function(data)
        if self.integer_limit is not None:
            lost = (data >= self.integer_limit) | ((data < 0) & (data <= -self.integer_limit))
            refuse_first(
                self, "data", data, lost, f"an integer below {self.integer_limit:,} in magnitude"
            )
        exact = np.asarray(self.function(data.astype(np.float64)))
        limits = np.iinfo(data.dtype)
        # The upper limit of a 64-bit type is no f64: its neighbour above is, and must not be
        # reached.
        inside = (exact > float(limits.min) - 0.5) & (exact < float(limits.max) + 0.5)
        refuse_first(
            self,
            "data",
            data,
            ~inside,
            f"a value whose {self.type_name} is a number of that integer type",
        )
        return np.floor(exact + 0.5).astype(data.dtype)


def refuse_zero(operation: Operation, b: Array, size: int) -> None:
    """Refuse integer division by zero: an integer type has neither infinity nor NaN as answer."""
    if b.dtype.kind != "f" and size:
        refuse_first(operation, "b", b, b == 0, "a divisor other than 0 (integers)")


def by_element(function: Callable[[float], float], x: Array) -> Array:
    """A function of Python's math module for each element, computed in f64 and given back in the
    array's type.
    """
    values = [function(v) for v in np.asarray(x, np.float64).ravel().tolist()]
    return np.array(values, np.float64).reshape(x.shape).astype(x.dtype)


def erf(x: Array) -> Array:
    """The error function, which NumPy lacks: its Taylor series about the nearest of many points t
    where it is known.

        erf(t + d) = erf(t) + erf'(t) * d * (1 - t d + (2 t^2 - 1) d^2 / 3
                     - (2 t^3 - 3 t) d^3 / 6 + (4 t^4 - 12 t^2 + 3) d^4 / 30 - ..)

    The points are so near that the terms left out are below the last digit of f64.
    """
    points, values, slopes = _erf_table(x.dtype)
    magnitude = np.fmin(np.abs(x), _ERF_END)
    nearest = np.rint(magnitude * _ERF_POINTS).astype(np.intp)
    t = points[nearest]
    d = magnitude - t
    squared = t * t
    series = d * ((4 * squared - 12) * squared + 3) / 30 - t * (2 * squared - 3) / 6
    series = 1 + d * (d * ((2 * squared - 1) / 3 + d * series) - t)
    result = np.copysign(values[nearest] + slopes[nearest] * d * series, x)
    return np.asarray(np.where(np.isnan(x), x, result))


#: From here on erf is 1 in f64, and points for each unit before.
_ERF_END, _ERF_POINTS = 6, 512


@functools.cache
def _erf_table(dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """The table that `erf` uses: the points, erf there, and its slope."""
    points = np.arange(_ERF_END * _ERF_POINTS + 1) / _ERF_POINTS
    values = np.array([math.erf(point) for point in points.tolist()])
    slopes = 2 / math.sqrt(math.pi) * np.exp(-points * points)
    return points.astype(dtype), values.astype(dtype), slopes.astype(dtype)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow: of -x where x is negative."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def softplus(x: Array) -> Array:
    """ln(1 + e^x), without overflow."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def nearest_root(n: int) -> int:
    """The integer nearest to the square root of n."""
    root = math.isqrt(n)
    # The root lies above r + 1/2 exactly when n > r^2 + r; n = (r + 1/2)^2 has no solution in
    # integers.
    return root + (n - root * root > root)
