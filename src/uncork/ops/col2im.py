"""Col2Im-15: an image from its patches, added where they overlap (torch.nn.Fold).

    output[n, c, y, x] = the sum of data[n, (c * K_h + kh) * K_w + kw, i * L_w + j]
        over all patches (i, j) and places (kh, kw) with
        y = i * stride_h + kh * dilation_h - pad_h,  x = j * stride_w + kw * dilation_w - pad_w

Page: operation-specs/movement/col2im-15. The number of patches must be what the page's formula
gives, L_h * L_w, so a kernel that spans more than the padded image is refused. Files and newer
pages write `strides` and `dilations`; an old page's `stride` and `dilation` are read too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from uncork.ops._common.shapes import check_array_fits, divided
from uncork.ops._common.spatial import all_at_least, extent
from uncork.ops._common.vectors import all_known, length, sizes, vector
from uncork.ops._operation import OfNumbers, Operation, register
from uncork.ops._ports import I32_I64, Attribute, Input, integers
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


@register("Col2Im", 15)
class Col2Im15(OfNumbers):
    """`data [N, C * K_h * K_w, L]` or without N, `output_size [2]`, `kernel_size [2]`."""

    output_size = Input(I32_I64)
    kernel_size = Input(I32_I64)
    strides = Attribute(integers, default=(1, 1), check=all_at_least(1))
    dilations = Attribute(integers, default=(1, 1), check=all_at_least(1))
    pads_begin = Attribute(integers, default=(0, 0), check=all_at_least(0))
    pads_end = Attribute(integers, default=(0, 0), check=all_at_least(0))

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Operation:
        old = {"stride": "strides", "dilation": "dilations"}
        return super().from_text({old.get(name, name): text for name, text in texts.items()})

    def check_attributes(self) -> None:
        for name in self.attributes:
            values = getattr(self, name)
            self.require(
                len(values) == 2,
                "attribute '{}': expected 2 numbers, for rows and columns, got {}",
                name,
                list(values),
            )

    def infer(
        self, data: TensorSpec, output_size: TensorSpec, kernel_size: TensorSpec
    ) -> PartialShape:
        image = self.pair("output_size", output_size, 0)
        kernel = self.pair("kernel_size", kernel_size, 1)
        self.require(
            data.rank in (None, 2, 3),
            "input 'data': expected [N, C * kernel, L] or [C * kernel, L], got shape {}",
            data.shape,
        )
        if data.rank is None:
            return PartialShape()
        columns, patches = data.shape[-2:]
        channels = DYNAMIC
        known = all_known(kernel)
        if known is not None:
            cells = known[0] * known[1]
            channels = divided(
                self,
                columns,
                cells,
                "input 'data': expected a multiple of {} = {} x {} rows, got {}",
                cells,
                *known,
                data.shape,
            )
        sides = [Dimension.of(n) for n in sizes(self, "output_size", output_size) or image]
        if known is not None:
            expected = [self.count(axis, sides[axis], known[axis]) for axis in range(2)]
            self.require(
                patches.agrees(expected[0] * expected[1]),
                "input 'data': expected {} x {} patches for output_size {} and kernel_size {}, "
                "got shape {}",
                *expected,
                [side.size for side in sides],
                known,
                data.shape,
            )
        return PartialShape([*data.shape[:-2], channels, *sides])

    def pair(self, name: str, spec: TensorSpec, least: int) -> list[int | None]:
        """The two numbers of an input, None for each unknown one."""
        numbers = vector(self, name, spec)
        self.require(
            length(spec).agrees(2), "input '{}': expected 2 numbers, got shape {}", name, spec.shape
        )
        numbers = [None, None] if numbers is None else numbers
        self.require(
            all(n is None or n >= least for n in numbers),
            "input '{}': expected numbers of at least {}, got {}",
            name,
            least,
            numbers,
        )
        return numbers

    def count(self, axis: int, side: Dimension, kernel: int) -> Dimension:
        """How many patches there are from top to bottom (axis 0) or from left to right (axis 1)."""
        padded = side + (self.pads_begin[axis] + self.pads_end[axis])
        span = extent(kernel, self.dilations[axis])
        self.require(
            padded.covers(span),
            "the kernel spans {} cells along spatial axis {}, the padded image has {}",
            span,
            axis,
            padded,
        )
        return (padded - span) // self.strides[axis] + 1

    def reference(self, data: Array, output_size: Array, kernel_size: Array) -> Array:
        image, kernel = output_size.tolist(), kernel_size.tolist()
        rows, columns = (
            int(self.count(axis, Dimension.of(image[axis]), kernel[axis])) for axis in range(2)
        )
        batch = data.shape[:-2]
        channels = data.shape[-2] // (kernel[0] * kernel[1])
        patches = data.reshape(*batch, channels, *kernel, rows, columns)
        shape = (
            *batch,
            channels,
            *(s + b + e for s, b, e in zip(image, self.pads_begin, self.pads_end, strict=True)),
        )
        check_array_fits(shape, data)
        padded = np.zeros(shape, data.dtype)
        for kh, kw in np.ndindex(*kernel):
            y, x = kh * self.dilations[0], kw * self.dilations[1]
            target = padded[..., y : y + (rows - 1) * self.strides[0] + 1 : self.strides[0], :]
            target[..., x : x + (columns - 1) * self.strides[1] + 1 : self.strides[1]] += patches[
                ..., kh, kw, :, :
            ]
        top, left = self.pads_begin
        return np.ascontiguousarray(padded[..., top : top + image[0], left : left + image[1]])
