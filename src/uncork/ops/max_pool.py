"""MaxPool-1, -8, -14: the largest cell under a window that slides over 1 to 3 spatial axes.

    output[n, c, p..] = max over k.. of data[n, c, p * stride - pad_begin + k * dilation]

Cells outside the data never win (the pages fill them with -inf). From MaxPool-8 on a second output
says where the winner lies: its place in the flattened data, counted from `axis`, that is modulo the
product of the dimensions from `axis` on. Pages: operation-specs/pooling/max-pool-1, -8 (adds
dilations and the second output), -14 (adds ceil_torch), pooling_shape_rules; what they leave open
about windows is decided in `_spatial.py`. Decided here:

- of equal cells the first in row-major order wins; a NaN wins over every number;
- a window without a cell of the data gives -inf (integers: their lowest value) and the index 0;
- an index is cut to index_element_type's bits.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.spatial import all_at_least, reduced, windows
from uncork.ops._operation import register
from uncork.ops._ports import Attribute, Output, index_type, integer, integers, one_of
from uncork.ops.avg_pool import Pooling
from uncork.types import Array, PartialShape, TensorSpec


def lowest(data: Array) -> float | int:
    """The lowest value of an array's type, which loses against every other one."""
    return -math.inf if data.dtype.kind == "f" else int(np.iinfo(data.dtype).min)


@register("MaxPool", 1)
class MaxPool1(Pooling):
    rounding_type = Attribute(one_of("floor", "ceil"), default="floor")

    def infer(self, data: TensorSpec) -> PartialShape:
        return self.pooled_shape(data)

    def reference(self, data: Array) -> Array:
        return reduced(data, self.slides(data, self.kernel), lowest(data), np.maximum)


@register("MaxPool", 8)
class MaxPool8(Pooling):
    indices = Output()
    dilations: Attribute[tuple[int, ...]] = Attribute(integers, default=(), check=all_at_least(1))
    rounding_type = Attribute(one_of("floor", "ceil"), default="floor")
    index_element_type = index_type()
    axis = Attribute(integer, default=0)

    def infer(self, data: TensorSpec) -> tuple[PartialShape, TensorSpec]:
        shape = self.pooled_shape(data)
        normalised_axis(self, self.axis, self.axes + 2)
        return shape, TensorSpec(self.index_element_type, shape)

    def reference(self, data: Array) -> tuple[Array, Array]:
        slides = self.slides(data, self.kernel)
        sizes = data.shape[2:]
        largest = reduced(data, slides, lowest(data), np.maximum)
        covered = windows(data, slides, lowest(data))
        # Numbered from the end, and 0 outside: of the cells that win the first has the highest
        # number.
        numbered = windows(np.arange(math.prod(sizes), 0, -1).reshape(sizes), slides, 0)
        number = np.zeros(largest.shape, np.int64)
        for cell in np.ndindex(*self.kernel):
            value, own = (
                cells[(slice(None),) * (cells.ndim - self.axes) + cell]
                for cells in (covered, numbered)
            )
            np.maximum(number, ((value == largest) | (value != value)) * own, out=number)
        channels = np.arange(math.prod(data.shape[:2])).reshape(data.shape[:2] + (1,) * self.axes)
        index = channels * math.prod(sizes) + np.where(number > 0, math.prod(sizes) - number, 0)
        return largest, index % max(
            1, math.prod(data.shape[normalised_axis(self, self.axis, data.ndim) :])
        )


@register("MaxPool", 14)
class MaxPool14(MaxPool8):
    rounding_type = Attribute(one_of("floor", "ceil", "ceil_torch"), default="floor")
