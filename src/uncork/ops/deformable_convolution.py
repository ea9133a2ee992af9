"""DeformableConvolution-1, -8: a 2-D convolution that reads each cell of its kernel from a place of
its own.

    output[n, o, p] = sum over c, k of filters[o, c, k] * mask[n, d, k, p] * data[n, c]
        at p * stride - pad_begin + k * dilation + offsets[n, d, k, (y, x), p]

The place is read bilinearly. `group` splits the channels of data and of output as in
GroupConvolution; `deformable_group` splits the channels of data into as many blocks, each with its
own offsets and mask (d is the block of c). The mask is 1 when absent.

With bilinear_interpolation_pad the place counts while it is less than one cell outside, and cells
outside are 0. Without it (and in version 1) a place counts while 0 <= y < H and 0 <= x < W; beyond
the last cell's centre it is moved back to it. Pages:
operation-specs/convolution/deformable-convolution-1, -8. Decided:

- without bilinear_interpolation_pad the page moves a place "within one pixel outside" to the inner
  boundary; OpenVINO, where the attribute comes from, does so at the far ends only and reads 0
  before the first cell. So do we;
- a place that is no number reads 0;
- integers have whole offsets: nothing lies between cells.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.sampling import bilinear, pixels
from uncork.ops._common.spatial import Sliding, all_at_least
from uncork.ops._operation import register
from uncork.ops._ports import (
    ARITHMETIC,
    Attribute,
    Input,
    at_least,
    boolean,
    integer,
    integers,
)
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("DeformableConvolution", 1)
class DeformableConvolution1(Sliding):
    """`data [N, C, H, W]`, `offsets [N, D * kH * kW * 2, ..]`, `filters [O, C / group, kH, kW]` to
    `[N, O, ..]`.
    """

    multiplies = True
    offsets = Input(ARITHMETIC, "T")
    filters = Input(ARITHMETIC, "T")
    planar = True
    dilations = Attribute(integers, check=all_at_least(1))
    group = Attribute(integer, default=1, check=at_least(1))
    deformable_group = Attribute(integer, default=1, check=at_least(1))
    bilinear_interpolation_pad = False

    def infer(
        self,
        data: TensorSpec,
        offsets: TensorSpec,
        filters: TensorSpec,
        mask: TensorSpec | None = None,
    ) -> PartialShape:
        image, weights = (
            self.with_rank("data", data.shape, 2),
            self.with_rank("filters", filters.shape, 2),
        )
        self.require_channels(image, weights[1] * self.group, filters)
        for what, size, parts in (
            ("channels of data", image[1], self.deformable_group),
            ("channels of data", image[1], self.group),
            ("filters", weights[0], self.group),
        ):
            self.require(
                size.is_multiple_of(parts),
                "{} {} cannot be split into {} groups",
                size,
                what,
                parts,
            )
        counts = self.window_counts(image.dims[2:], weights.dims[2:])
        taps = weights[2] * weights[3] * self.deformable_group
        batch = self._matched("offsets", offsets, image[0], taps * 2, counts)
        if mask is not None:
            batch = self._matched("mask", mask, batch, taps, counts)
        return PartialShape([batch, weights[0], *counts])

    def _matched(
        self,
        name: str,
        spec: TensorSpec,
        batch: Dimension,
        channels: Dimension,
        counts: list[Dimension],
    ) -> Dimension:
        expected = PartialShape([batch, channels, *counts])
        merged = self.wanted(
            self.with_rank(name, spec.shape, 2).merge(expected),
            "input '{}': expected shape {}, got {}",
            name,
            expected,
            spec.shape,
        )
        return merged[0]

    def reference(
        self, data: Array, offsets: Array, filters: Array, mask: Array | None = None
    ) -> Array:
        images, channels = data.shape[:2]
        outputs, kernel = filters.shape[0], filters.shape[2:]
        slides = self.slides(data, kernel)
        # [k, p]
        places = [
            s.starts()[np.newaxis, :] + (np.arange(s.kernel) * s.dilation)[:, np.newaxis]
            for s in slides
        ]
        counts = tuple(s.count for s in slides)
        blocks = (self.deformable_group, *kernel)
        weights = filters.reshape(self.group, outputs // self.group, math.prod(filters.shape[1:]))
        result = np.zeros((images, outputs, *counts), data.dtype)
        for n in range(images):
            moves = offsets[n].reshape(*blocks, 2, *counts)
            if moves.dtype.kind != "f":
                moves = moves.astype(np.int64)
            # [d, ky, kx, py, px]
            y = places[0][np.newaxis, :, np.newaxis, :, np.newaxis] + moves[:, :, :, 0]
            x = places[1][np.newaxis, np.newaxis, :, np.newaxis, :] + moves[:, :, :, 1]
            image = data[n].reshape(
                self.deformable_group, channels // self.deformable_group, *data.shape[2:]
            )
            # [d, c, k.., p..]
            columns = np.stack(
                [self._read(image[d], y[d], x[d]) for d in range(self.deformable_group)]
            )
            if mask is not None:
                columns = columns * mask[n].reshape(self.deformable_group, 1, *kernel, *counts)
            result[n] = (
                weights @ columns.reshape(self.group, weights.shape[2], math.prod(counts))
            ).reshape(result[n].shape)
        return result

    def _read(self, image: Array, y: Array, x: Array) -> Array:
        height, width = image.shape[1:]
        if self.bilinear_interpolation_pad:
            counts = (y > -1) & (y < height) & (x > -1) & (x < width)
        else:
            counts = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            y, x = np.minimum(y, height - 1), np.minimum(x, width - 1)
        y, x = np.where(counts, y, 0), np.where(counts, x, 0)
        value = bilinear(image, y, x) if y.dtype.kind == "f" else pixels(image, y, x)
        return np.where(counts, value, image.dtype.type(0))


@register("DeformableConvolution", 8)
class DeformableConvolution8(DeformableConvolution1):
    """Adds `mask [N, D * kH * kW, ..]`, a factor for each place."""

    mask = Input(ARITHMETIC, "T", optional=True)
    bilinear_interpolation_pad = Attribute(boolean, default=False)
