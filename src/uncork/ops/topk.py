"""TopK-1, -3, -11: the k largest or smallest elements of every row along an axis, and where they
stand.

Pages: operation-specs/sort/top-k-1, -3, -11. Decided where they are silent, for all versions and
whether or not `stable` is set:

- of equal elements the one with the lowest index is taken, and comes, first;
- `sort = none` gives the order of `sort = value`;
- a NaN counts as larger than everything, as in NumPy's and PyTorch's sorting;
- k may be 0 (an empty result); more than the axis has, or less than 0, is refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.vectors import scalar, size
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    ARITHMETIC,
    INTEGER,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
    integer,
    one_of,
)
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


@register("TopK", 3)
class TopK3(Operation):
    """`data` of rank 1 or more, `k []` of any integer type."""

    data = Input(ARITHMETIC, "T")
    k = Input(INTEGER)
    values = Output()
    indices = Output()
    axis = Attribute(integer)
    mode = Attribute(one_of("min", "max"))
    sort = Attribute(one_of("value", "index", "none"))
    index_element_type = index_type(ElementType.i32)

    def infer(self, data: TensorSpec, k: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        number = scalar(self, "k", k)
        shape = PartialShape()
        if data.rank is not None:
            axis = normalised_axis(self, self.axis, data.rank)
            limit = data.shape[axis]
            wanted = size(self, "k", k)
            count = Dimension(0, limit.high)
            if wanted is not None:
                possible = (number is None or number >= 0) and limit.covers(wanted)
                self.require(
                    possible,
                    "input 'k' is {}, expected 0 to {}, the size of axis {}",
                    wanted,
                    limit,
                    axis,
                    input="k",
                    value=wanted,
                    low=0,
                )
                count = Dimension.of(wanted)
            shape = data.shape.with_dimension(axis, count)
        return TensorSpec(data.element_type, shape), TensorSpec(self.index_element_type, shape)

    def reference(self, data: Array, k: Array) -> tuple[Array, Array]:
        if self.mode == "min":
            order = np.argsort(data, self.axis, kind="stable")
        else:
            # Sorted from behind and turned round, equal elements keep their order.
            order = (
                data.shape[self.axis]
                - 1
                - np.flip(np.argsort(np.flip(data, self.axis), self.axis, kind="stable"), self.axis)
            )
        best = np.take(order, np.arange(int(k.reshape(-1)[0])), self.axis)
        if self.sort == "index":
            best = np.sort(best, self.axis)
        return np.take_along_axis(data, best, self.axis), best


@register("TopK", 1)
class TopK1(TopK3):
    """TopK of opset 1, whose page names no element types; those of version 3 hold."""


@register("TopK", 11)
class TopK11(TopK3):
    """With `stable`, which this implementation always is."""

    stable = Attribute(boolean, default=False)
