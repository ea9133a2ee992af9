"""ExtractImagePatches-3: the patches that a kernel would see, each laid out along the channels.

    output[n, (kh * K_w + kw) * C + c, i, j]
        = padded[n, c, i * stride_h + kh * rate_h, j * stride_w + kw * rate_w]

Page: operation-specs/movement/extract-image-patches-3. Padding is zeros, and as much as `_spatial`
says of same_upper and same_lower; with `valid` an image that is smaller than a patch gives none.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.shapes import image_dims
from uncork.ops._common.spatial import Slide, all_at_least, extent, windows
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, STRING, Attribute, Input, Output, integers, one_of
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


@register("ExtractImagePatches", 3)
class ExtractImagePatches3(Operation):
    """`data [N, C, H, W]`."""

    data = Input(ANY - STRING - {ElementType.f8e8m0}, "T")  # f8e8m0 has no 0
    output = Output("T")
    sizes = Attribute(integers, check=all_at_least(1))
    strides = Attribute(integers, check=all_at_least(1))
    rates = Attribute(integers, check=all_at_least(1))
    auto_pad = Attribute(one_of("same_upper", "same_lower", "valid"))

    def check_attributes(self) -> None:
        for name in ("sizes", "strides", "rates"):
            values = getattr(self, name)
            self.require(
                len(values) == 2,
                "attribute '{}': expected 2 numbers, for rows and columns, got {}",
                name,
                list(values),
            )

    def infer(self, data: TensorSpec) -> PartialShape:
        images, channels, *sides = image_dims(self, "data", data)
        return PartialShape(
            [images, channels * (self.sizes[0] * self.sizes[1]), *map(self.counts, range(2), sides)]
        )

    def counts(self, axis: int, size: Dimension) -> Dimension:
        """The number of patches along an axis, as a dimension of the output."""
        if size.is_open:
            cells = extent(self.sizes[axis], self.rates[axis])
            # One more than fit behind the first; a size that not even that fits in has none.
            return (
                size.ceil_div(self.strides[axis])
                if self.auto_pad != "valid"
                else (size + self.strides[axis] - cells) // self.strides[axis]
            )
        return Dimension(
            self.count(axis, size.low), None if size.high is None else self.count(axis, size.high)
        )

    def count(self, axis: int, size: int) -> int:
        """The number of patches from top to bottom (axis 0) or from left to right (axis 1)."""
        if self.auto_pad != "valid":
            return -(-size // self.strides[axis])
        return max(0, (size - extent(self.sizes[axis], self.rates[axis])) // self.strides[axis] + 1)

    def slide(self, axis: int, size: int) -> Slide:
        kernel, stride, rate, count = (
            self.sizes[axis],
            self.strides[axis],
            self.rates[axis],
            self.count(axis, size),
        )
        total = (
            max(0, (count - 1) * stride + extent(kernel, rate) - size)
            if self.auto_pad != "valid"
            else 0
        )
        begin = total // 2 if self.auto_pad == "same_upper" else total - total // 2
        return Slide(size, kernel, stride, rate, begin, total - begin, count)

    def reference(self, data: Array) -> Array:
        slides = [self.slide(axis, size) for axis, size in enumerate(data.shape[2:])]
        patches = windows(data, slides, 0)  # [N, C, rows, columns, K_h, K_w]
        shape = (
            data.shape[0],
            data.shape[1] * self.sizes[0] * self.sizes[1],
            slides[0].count,
            slides[1].count,
        )
        return np.ascontiguousarray(patches.transpose(0, 4, 5, 1, 2, 3).reshape(shape))
