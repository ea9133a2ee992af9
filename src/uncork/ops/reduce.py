"""Reductions along axes: ReduceSum, ReduceMean, ReduceProd, ReduceMax, ReduceMin, ReduceL1,
ReduceL2, ReduceLogicalAnd, ReduceLogicalOr.

    output[i..] = f over all j.. of data[i.., j..]        the j.. run along `axes`

Pages: operation-specs/reduction/<name>. No axes at all is the identity, for ReduceL1 and ReduceL2
too, as the pages say. Decided where they are silent:

- over no elements: sum 0, product 1, norms 0, and 1, or 0; the maximum is the lowest value of the
  type (-infinity) and the minimum the highest; the mean is NaN, of integers it is refused;
- integer sums and products wrap modulo 2**bits; an integer mean is that of the exact sum, cut
  towards zero; an integer L2 norm is that of the exact sum of squares, rounded to the nearest
  integer as Sqrt is;
- an axis named twice is refused; the order in which floats are added is NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from uncork.ops._common.elementwise import nearest_root
from uncork.ops._common.indices import normalised_axes
from uncork.ops._common.shapes import require_rank
from uncork.ops._elements import Elements
from uncork.ops._operation import OfNumbers, register
from uncork.ops._ports import BOOLEAN, INTEGER, Attribute, Input, boolean
from uncork.ops._size_arithmetic import computed
from uncork.symbolic import Size, maximum, minimum
from uncork.types import Array, Dimension, Element, ElementType, PartialShape, TensorSpec


class _Reduction(OfNumbers):
    axes = Input(INTEGER)
    keep_dims = Attribute(boolean, default=False)
    #: What joins two elements, where nothing else is to be done.
    function: ClassVar[np.ufunc] = np.add

    def infer(self, data: TensorSpec, axes: TensorSpec) -> PartialShape:
        require_rank(self, "axes", axes, 0, 1)
        if data.rank is None:
            return PartialShape()
        if axes.value is not None:
            along = normalised_axes(self, axes.value, data.rank)
            kept = [Dimension(1, 1)] if self.keep_dims else []
            return PartialShape(
                [d for i, dim in enumerate(data.shape) for d in (kept if i in along else [dim])]
            )
        count = axes.shape.size
        self.require(
            count.low <= data.rank,
            "input 'axes': {} axes, but data has only rank {}",
            count,
            data.rank,
        )
        if self.keep_dims:
            return PartialShape([dim.union(1) for dim in data.shape])
        if count.static_size is None:
            return PartialShape()
        # Whatever the axes are, the dimension at a place of the output is one of the next `count`
        # of the input.
        result = [data.shape[i] for i in range(data.rank - count.static_size)]
        for i in range(len(result)):
            for later in data.shape[i + 1 : i + 1 + count.static_size]:
                result[i] = result[i].union(later)
        return PartialShape(result)

    def reference(self, data: Array, axes: Array) -> Array:
        along = normalised_axes(self, axes, data.ndim)
        return self.reduced(data, along) if along else data

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        return np.asarray(self.function.reduce(data, along, data.dtype, keepdims=self.keep_dims))

    def carry(
        self,
        bound: Sequence[TensorSpec | None],
        parts: Sequence[Elements | None],
        output: TensorSpec,
    ) -> Elements | None:
        """The elements of the output as expressions; each needs all elements that it is made of to
        be known.
        """
        data, axes = parts[0], bound[1]
        if (
            data is None
            or axes is None
            or axes.value is None
            or not output.element_type.is_integer
            or data.size == 0
        ):
            return None
        along = normalised_axes(self, axes.value, data.ndim)
        groups = np.moveaxis(data, along, range(data.ndim - len(along), data.ndim)).reshape(
            int(output.shape.size), -1
        )
        result = np.full(len(groups), None, object)
        for i, group in enumerate(groups.tolist()):
            if not any(element is None for element in group):
                result[i] = self.of_group(output.element_type, list(map(Size.of, group)))
        return result.reshape(output.shape.static)

    def of_group(self, output: ElementType, group: Sequence[Size]) -> Element:
        """The element of the output that a group of elements gives, some of which are expressions;
        None when it is not known.
        """
        return None


@register("ReduceSum", 1)
class ReduceSum(_Reduction):
    """The sum"""

    def of_group(self, output: ElementType, group: Sequence[Size]) -> Element:
        return computed(output, sum(group, Size.of(0)))


@register("ReduceProd", 1)
class ReduceProd(_Reduction):
    """The product"""

    function = np.multiply

    def of_group(self, output: ElementType, group: Sequence[Size]) -> Element:
        return computed(output, math.prod(group, start=Size.of(1)))


@register("ReduceMean", 1)
class ReduceMean(_Reduction):
    """The sum over the number of elements"""

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        count = math.prod(data.shape[i] for i in along)
        if data.dtype.kind == "f":
            return np.asarray(
                np.sum(data, along, data.dtype, keepdims=self.keep_dims) / data.dtype.type(count)
            )
        total = np.asarray(np.sum(_unbounded(data), along, keepdims=self.keep_dims))
        if count == 0 and total.size:
            self.refuse(
                "input 'data': expected at least one element to average (integers), got shape {}",
                list(data.shape),
            )
        means = [(abs(t) // count) * (1 if t >= 0 else -1) for t in total.ravel().tolist()]
        return np.array(means, data.dtype).reshape(total.shape)


@register("ReduceMax", 1)
class ReduceMax(_Reduction):
    """The largest element"""

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        return np.asarray(np.max(data, along, keepdims=self.keep_dims, initial=_limits(data)[0]))

    def of_group(self, output: ElementType, group: Sequence[Size]) -> Element:
        return computed(output, maximum(group))


@register("ReduceMin", 1)
class ReduceMin(_Reduction):
    """The smallest element"""

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        return np.asarray(np.min(data, along, keepdims=self.keep_dims, initial=_limits(data)[1]))

    def of_group(self, output: ElementType, group: Sequence[Size]) -> Element:
        return computed(output, minimum(group))


@register("ReduceL1", 4)
class ReduceL1(_Reduction):
    """The sum of the absolute values"""

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        return super().reduced(np.abs(data), along)


@register("ReduceL2", 4)
class ReduceL2(_Reduction):
    """The square root of the sum of the squares"""

    def reduced(self, data: Array, along: tuple[int, ...]) -> Array:
        if data.dtype.kind == "f":
            return np.asarray(
                np.sqrt(np.sum(data * data, along, data.dtype, keepdims=self.keep_dims))
            )
        exact = _unbounded(data)
        total = np.asarray(np.sum(exact * exact, along, keepdims=self.keep_dims))
        bits = 8 * data.dtype.itemsize
        wrapped = [nearest_root(t) % 2**bits for t in total.ravel().tolist()]
        return np.array(wrapped, f"u{data.dtype.itemsize}").reshape(total.shape).astype(data.dtype)


class _Logical(_Reduction):
    data = Input(BOOLEAN, "T")


@register("ReduceLogicalAnd", 1)
class ReduceLogicalAnd(_Logical):
    """Whether all elements are true"""

    function = np.logical_and


@register("ReduceLogicalOr", 1)
class ReduceLogicalOr(_Logical):
    """Whether any element is true"""

    function = np.logical_or


def _unbounded(data: Array) -> Array:
    """Integers as Python's own, whose sums and squares do not overflow."""
    return data.astype(object)


def _limits(data: Array) -> tuple[float, float]:
    """The lowest and the highest value of an array's type."""
    if data.dtype.kind == "f":
        return -math.inf, math.inf
    limits = np.iinfo(data.dtype)
    return limits.min, limits.max
