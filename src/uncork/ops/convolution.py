"""Convolution-1, GroupConvolution-1: a kernel slides over 1 to 3 spatial axes and is multiplied
with what it covers.

    output[n, o, p..] = sum over c, k.. of
        filters[o, c, k..] * data[n, c, p * stride - pad_begin + k * dilation]

Cells outside the data are 0. GroupConvolution has `filters [G, O, C, k..]` and `data [N, G * C,
..]`: channel block g of the data meets filters[g] and gives channel block g of the output, so
Convolution is the case of one group.

Pages: operation-specs/convolution/convolution-1, group-convolution-1; the arithmetic of windows and
padding, and what is decided about it, stands in `_spatial.py`. The pages' "+ b" in the formula has
no input: a bias is an Add after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.ops._common.spatial import Slide, Sliding, all_at_least, block_ranges, windows
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, Attribute, Input, integers
from uncork.types import Array, Dimension, PartialShape, TensorSpec


def correlate(data: Array, filters: Array, slides: list[Slide], outside: float = 0) -> Array:
    """The convolution of `data [N, G * C, ..]` with `filters [G, O, C, k..]`, by the formula of the
    module; `outside` is the value of the cells beyond the data.
    """
    groups, outputs, channels = filters.shape[:3]
    images, counts, axes = len(data), tuple(s.count for s in slides), len(slides)
    weights = filters.reshape(groups, outputs, math.prod(filters.shape[2:]))
    # [N, G, C, p.., k..]
    covered = windows(data.reshape(images, groups, channels, *data.shape[2:]), slides, outside)
    # [G, C, k.., N, p..]
    terms = np.moveaxis(covered, (0, *range(3, 3 + axes)), range(-1 - axes, 0))
    output = np.empty((groups, outputs, images, *counts), data.dtype)
    a_row = groups * weights.shape[2] * math.prod(counts[1:])
    for some_images in block_ranges(images, a_row * counts[0]):
        for some_rows in block_ranges(counts[0], a_row):
            part: tuple[Any, ...] = (..., some_images, some_rows, *(slice(None),) * (axes - 1))
            target = output[part]
            columns = terms[part].reshape(groups, weights.shape[2], math.prod(target.shape[2:]))
            target[...] = (weights @ columns).reshape(target.shape)
    return np.moveaxis(output, 2, 0).reshape(images, groups * outputs, *counts)


@register("Convolution", 1)
class Convolution1(Sliding):
    """`data [N, C, ..]`, `filters [O, C, k..]` to `[N, O, ..]`."""

    multiplies = True
    filters = Input(ARITHMETIC, "T")
    dilations = Attribute(integers, check=all_at_least(1))
    #: Dimensions of the filters before the spatial ones.
    lead = 2

    def infer(self, data: TensorSpec, filters: TensorSpec) -> PartialShape:
        inputs = self.with_rank("data", data.shape, 2)
        weights = self.with_rank("filters", filters.shape, self.lead)
        groups, outputs, channels = (
            weights[0] if self.lead == 3 else Dimension(1, 1),
            weights[self.lead - 2],
            weights[self.lead - 1],
        )
        self.require_channels(inputs, groups * channels, filters)
        return PartialShape(
            [
                inputs[0],
                groups * outputs,
                *self.window_counts(inputs.dims[2:], weights.dims[self.lead :]),
            ]
        )

    def reference(self, data: Array, filters: Array) -> Array:
        grouped = filters if self.lead == 3 else filters[np.newaxis]
        return correlate(data, grouped, self.slides(data, grouped.shape[3:]))


@register("GroupConvolution", 1)
class GroupConvolution1(Convolution1):
    """`data [N, G * C, ..]`, `filters [G, O, C, k..]` to `[N, G * O, ..]`."""

    lead = 3
