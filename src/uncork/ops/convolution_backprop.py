"""ConvolutionBackpropData-1, GroupConvolutionBackpropData-1: the transposed convolution, which
spreads where Convolution gathers.

    output[n, o, q..] = sum over c, p.., k.. with q = p * stride + k * dilation - pad_begin of
        data[n, c, p..] * filters[c, o, k..]

Along one axis, with e = (kernel - 1) * dilation + 1 and S = stride * (size - 1) + e cells that the
kernel reaches,

    without output_shape   S - pad_begin - pad_end + output_padding cells; no padding unless
                           auto_pad is explicit
    with output_shape      just those; total = S + output_padding - output_shape is taken away,
                           total // 2 at the start and the rest at the end, the other way round
                           for same_upper

GroupConvolutionBackpropData has `filters [G, C, O, k..]`; the other is the case of one group.
Pages: operation-specs/convolution/convolution-backprop-data-1, group-convolution-backprop-data-1.
Decided:

- an output_shape beyond S + output_padding takes nothing away: the cells that no kernel reaches are
  zeros at the end. The page does not say what its formula's negative padding means; TensorFlow's
  and ONNX's models, where such shapes come from, mean this;
- with output_shape the file's pads are ignored for every auto_pad, as the page says (OpenVINO uses
  them with `explicit`, and takes nothing away at the start with `valid`);
- data without cells along a spatial axis is refused: S has no meaning then.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.ops._common.shapes import check_array_fits
from uncork.ops._common.spatial import Sliding, all_at_least, block_ranges, extent
from uncork.ops._common.vectors import sizes, vector
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, INTEGER, Attribute, Input, integers
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


@register("ConvolutionBackpropData", 1)
class ConvolutionBackpropData1(Sliding):
    """`data [N, C, ..]`, `filters [C, O, k..]`, the sizes of the output's spatial axes to `[N, O,
    ..]`.
    """

    multiplies = True
    filters = Input(ARITHMETIC, "T")
    output_shape = Input(INTEGER, optional=True)
    dilations = Attribute(integers, check=all_at_least(1))
    output_padding: Attribute[tuple[int, ...]] = Attribute(
        integers, default=(), check=all_at_least(0)
    )
    #: Dimensions of the filters before the spatial ones.
    lead = 2

    def fixed_pads(self, axis: int) -> tuple[int, int]:
        return super().fixed_pads(axis) if self.auto_pad == "explicit" else (0, 0)

    def infer(
        self, data: TensorSpec, filters: TensorSpec, output_shape: TensorSpec | None
    ) -> PartialShape:
        inputs = self.with_rank("data", data.shape, 2)
        weights = self.with_rank("filters", filters.shape, self.lead)
        groups = weights[0] if self.lead == 3 else Dimension(1, 1)
        channels, outputs = weights[self.lead - 2], weights[self.lead - 1]
        self.require_channels(inputs, groups * channels, filters)
        sizes = [
            self._size(axis, d, k)
            for axis, (d, k) in enumerate(
                zip(inputs.dims[2:], weights.dims[self.lead :], strict=True)
            )
        ]
        if output_shape is not None:
            sizes = self._given_sizes(output_shape)
        return PartialShape([inputs[0], groups * outputs, *sizes])

    def _size(self, axis: int, size: Dimension, kernel: Dimension) -> Dimension:
        """The size of an output axis without output_shape."""
        self.require(size.covers(1), "input 'data': spatial axis {} is empty", axis)
        self.require(kernel.covers(1), "the kernel is empty along spatial axis {}", axis)
        begin, end = self.fixed_pads(axis)
        reached = (
            (size - 1) * self.strides[axis]
            + self.stretched(axis, kernel)
            + self.output_padding[axis]
        )
        self.require(
            reached.covers(begin + end),
            "padding of {} cells is more than the {} that the kernel reaches along spatial axis {}",
            begin + end,
            reached,
            axis,
        )
        return reached - (begin + end)

    def _given_sizes(self, output_shape: TensorSpec) -> list[Dimension]:
        numbers = vector(self, "output_shape", output_shape)
        if numbers is None:
            return [DYNAMIC] * self.axes
        self.require(
            len(numbers) == self.axes,
            "input 'output_shape': expected {} numbers, got {}",
            self.axes,
            len(numbers),
        )
        for axis, number in enumerate(numbers):
            self.require(
                number is None or number >= 0,
                "input 'output_shape': output_shape[{}] is {}, expected a size",
                axis,
                number,
            )
        return [Dimension.of(n) for n in sizes(self, "output_shape", output_shape)]

    def reference(self, data: Array, filters: Array, output_shape: Array | None) -> Array:
        weights = filters if self.lead == 3 else filters[np.newaxis]
        groups, channels, outputs = weights.shape[:3]
        kernel, sizes = weights.shape[3:], data.shape[2:]
        reached = [
            stride * (size - 1) + extent(k, d)
            for stride, size, k, d in zip(self.strides, sizes, kernel, self.dilations, strict=True)
        ]
        begins, results = self.cut(reached, output_shape)
        room = [max(r, b + n) for r, b, n in zip(reached, begins, results, strict=True)]
        check_array_fits((len(data), groups, outputs, *room), data)
        canvas = np.zeros((groups, outputs, len(data), *room), data.dtype)
        spreading = weights.reshape(groups, channels, outputs * math.prod(kernel)).transpose(
            0, 2, 1
        )
        for images in block_ranges(
            len(data), groups * outputs * math.prod(kernel) * math.prod(sizes)
        ):
            some = data[images]
            by_group = np.moveaxis(some.reshape(len(some), groups, channels, *sizes), 0, 2)
            pixels = by_group.reshape(groups, channels, len(some) * math.prod(sizes))
            # What each pixel adds through each cell of the kernel: [G, O, k.., N, p..]
            spread = (spreading @ pixels).reshape(groups, outputs, *kernel, len(some), *sizes)
            for cell in np.ndindex(*kernel):
                starts = [k * d for k, d in zip(cell, self.dilations, strict=True)]
                places = [
                    slice(b, b + (n - 1) * s + 1, s)
                    for b, n, s in zip(starts, sizes, self.strides, strict=True)
                ]
                target: tuple[Any, ...] = (..., images, *places)
                canvas[target] += spread[(slice(None),) * 2 + cell]
        kept: tuple[Any, ...] = (
            ...,
            *(slice(b, b + n) for b, n in zip(begins, results, strict=True)),
        )
        output: Array = np.moveaxis(canvas[kept], 2, 0)
        return output.reshape(len(data), groups * outputs, *results)

    def cut(self, reached: list[int], output_shape: Array | None) -> tuple[list[int], list[int]]:
        """Where the output starts within the cells that the kernel reaches, and its sizes."""
        if output_shape is None:
            pads = [self.fixed_pads(axis) for axis in range(self.axes)]
            return [b for b, _ in pads], [
                r + self.output_padding[axis] - b - e
                for axis, (r, (b, e)) in enumerate(zip(reached, pads, strict=True))
            ]
        results = [int(n) for n in output_shape]
        totals = [
            max(0, r + self.output_padding[axis] - n)
            for axis, (r, n) in enumerate(zip(reached, results, strict=True))
        ]
        return [t - t // 2 if self.auto_pad == "same_upper" else t // 2 for t in totals], results


@register("GroupConvolutionBackpropData", 1)
class GroupConvolutionBackpropData1(ConvolutionBackpropData1):
    """`data [N, G * C, ..]`, `filters [G, C, O, k..]` to `[N, G * O, ..]`."""

    lead = 3
