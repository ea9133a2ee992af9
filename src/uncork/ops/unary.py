"""Functions of one number: Abs, Negative, Sign, Floor, Ceiling, Round, Exp, Log, Sqrt, Erf, ErfInv
and the (hyperbolic) circle functions.

Pages: operation-specs/arithmetic/<name>, activation/exp-1. How integers go through functions of
real numbers: see `RealFunction`. Integers wrap: Abs and Negative of the lowest one give itself,
Negative of an unsigned one 2**bits - x. Floor, Ceiling and Round leave integers as they are.
Undefined real values (the root of -1) are NaN, as IEEE 754 has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from uncork.ops._common.elementwise import RealFunction, Unary, by_element, erf, nearest_root
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, Attribute, Input, one_of
from uncork.ops._size_arithmetic import certainly_at_least, computed, whole
from uncork.symbolic import Size
from uncork.types import Array, Element, ElementType


class _Number(Unary):
    data = Input(ARITHMETIC, "T")


@register("Abs", 1)
class Abs(_Number):
    """|x|"""

    reference = np.absolute

    def of_sizes(self, source: ElementType, x: Size) -> Element:
        return computed(source, x, x) if certainly_at_least(x, 0) else None


@register("Negative", 1)
class Negative(_Number):
    """-x"""

    reference = np.negative

    def of_sizes(self, source: ElementType, x: Size) -> Element:
        return computed(source, -x, x)


@register("Sign", 1)
class Sign(_Number):
    """-1, 0 or 1; NaN of NaN"""

    reference = np.sign


class _Rounding(_Number):
    #: What becomes of real numbers.
    rounded: ClassVar[Callable[..., Array]]

    def reference(self, data: Array) -> Array:
        return self.rounded(data) if data.dtype.kind == "f" else data


@register("Floor", 1)
class Floor(_Rounding):
    """The largest whole number that is not above x"""

    rounded = np.floor

    def of_sizes(self, source: ElementType, x: Size) -> Element:
        return whole(source, x)


@register("Ceiling", 1)
class Ceiling(_Rounding):
    """The smallest whole number that is not below x"""

    rounded = np.ceil

    def of_sizes(self, source: ElementType, x: Size) -> Element:
        return whole(source, x, upwards=True)


@register("Round", 5)
class Round(_Rounding):
    """The nearest whole number; halves go to the even one, or away from zero"""

    mode = Attribute(one_of("half_to_even", "half_away_from_zero"), default="half_to_even")

    def rounded(self, x: Array) -> Array:
        if self.mode == "half_to_even":
            return np.rint(x)
        # Adding 0.5 would round 0.49999997 up: look at the rest instead, which is exact.
        whole = np.trunc(x)
        return np.asarray(
            np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)
        )


@register("Exp", 1)
class Exp(Unary):
    """e^x; real numbers only, as the page says"""

    reference = np.exp


@register("Log", 1)
class Log(RealFunction):
    """The natural logarithm"""

    function = np.log


@register("Sqrt", 1)
class Sqrt(RealFunction):
    """The square root; of integers the nearest integer, exact for 64 bits too"""

    def reference(self, data: Array) -> Array:
        if data.dtype.itemsize < 8 or data.dtype.kind == "f" or (data < 0).any():
            return super().reference(data)
        nearest = [nearest_root(n) for n in data.ravel().tolist()]
        return np.array(nearest, data.dtype).reshape(data.shape)

    function = np.sqrt


@register("Erf", 1)
class Erf(RealFunction):
    """2 / sqrt(pi) * the integral of e^(-t^2) from 0 to x (the page's 1 / pi is a slip: erf reaches
    1)
    """

    function = staticmethod(erf)


def _inverse_erf(y: float) -> float:
    """The inverse of erf at y, by Newton's method: on erf(x) = |y| below 1/2; above, where erf has
    no digits left, on the logarithm of its complement.
    """
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    small = abs(y) < 0.5
    complement = 1 - abs(y)  # exact for |y| >= 1/2
    x = abs(y) * math.sqrt(math.pi) / 2 if small else math.sqrt(-math.log(complement))
    for _ in range(8):
        density = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        if small:
            x -= (math.erf(x) - abs(y)) / density
        else:
            x += math.log(math.erfc(x) / complement) * math.erfc(x) / density
    return math.copysign(x, y)


@register("ErfInv", 17)
class ErfInv(Unary):
    """The y with erf(y) = x: infinite at -1 and 1, NaN outside"""

    def reference(self, data: Array) -> Array:
        return by_element(_inverse_erf, data)


class _Periodic(RealFunction):
    #: A rounded angle beyond this is off by a good part of the circle.
    integer_limit = 2**53


@register("Sin", 1)
class Sin(_Periodic):
    """sin x"""

    function = np.sin


@register("Cos", 1)
class Cos(_Periodic):
    """cos x"""

    function = np.cos


@register("Tan", 1)
class Tan(_Periodic):
    """tan x"""

    function = np.tan


@register("Asin", 1)
class Asin(RealFunction):
    """The x in [-pi/2, pi/2] with that sine"""

    function = np.arcsin


@register("Acos", 1)
class Acos(RealFunction):
    """The x in [0, pi] with that cosine"""

    function = np.arccos


@register("Atan", 1)
class Atan(RealFunction):
    """The x in [-pi/2, pi/2] with that tangent"""

    function = np.arctan


@register("Sinh", 1)
class Sinh(RealFunction):
    """(e^x - e^-x) / 2"""

    function = np.sinh


@register("Cosh", 1)
class Cosh(RealFunction):
    """(e^x + e^-x) / 2"""

    function = np.cosh


@register("Tanh", 1)
class Tanh(RealFunction):
    """sinh x / cosh x"""

    function = np.tanh


@register("Asinh", 4)
class Asinh(RealFunction):
    """The inverse of sinh; the page says version 3, the files opset4"""

    function = np.arcsinh


@register("Acosh", 4)
class Acosh(RealFunction):
    """The inverse of cosh, at least 0"""

    function = np.arccosh


@register("Atanh", 4)
class Atanh(RealFunction):
    """The inverse of tanh"""

    function = np.arctanh
