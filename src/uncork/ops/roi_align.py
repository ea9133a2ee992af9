"""ROIAlign-3, -9 and ROIAlignRotated-15: images sampled on a regular grid within boxes.

A box is cut into pooled_h x pooled_w bins, a bin into sampling_ratio x sampling_ratio cells (ceil
of the bin's sides when that is 0); the image is read bilinearly in the middle of each cell, and the
mean or the maximum of a bin's values is its result.

    ROIAlign          corner' = (corner + a) * spatial_scale - b with a, b by aligned_mode:
                      asymmetric 0, 0    half_pixel_for_nn 0, 1/2    half_pixel 1/2, 1/2
                      sides of at least 1 when asymmetric
    ROIAlignRotated   centre' = centre * spatial_scale - 1/2, sides' = sides * spatial_scale, and
                      each place turned about the centre by the angle:
                      x' = x cos + y sin, y' = y cos - x sin (the angle negated with clockwise_mode)

Pages: operation-specs/detection/roi-align-3, -9, roi-align-rotated-15. Decided:

- a place more than one cell outside the image reads 0, one less far outside the nearest border cell
  (as all implementations);
- max is the largest of 0 and a bin's values: every implementation of OpenVINO begins at 0, and
  feature maps are seldom negative (ONNX, whose RoiAlign is converted to this, does not: a bin of
  negative values differs);
- with sampling_ratio 0 a bin without extent (a box of no or negative size) has no cells, and gives
  0;
- batch indices outside the images are refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.regions import box_count
from uncork.ops._common.sampling import bilinear
from uncork.ops._common.shapes import (
    check_array_fits,
    image_dims,
    require_rank,
    suppose_pixels,
)
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import (
    INTEGER,
    REAL,
    Attribute,
    Input,
    at_least,
    boolean,
    integer,
    number,
    one_of,
)
from uncork.types import DYNAMIC, Array, PartialShape, TensorSpec

#: Numbers that are read at once.
_AT_ONCE = 1 << 22


class _Align(OfReals):
    """The base of all versions: `data [N, C, H, W]`, `rois [R, ..]`, `batch_indices [R]` to `[R, C,
    pooled_h, pooled_w]`.
    """

    rois = Input(REAL, "T")
    batch_indices = Input(INTEGER)
    pooled_h = Attribute(integer, check=at_least(1))
    pooled_w = Attribute(integer, check=at_least(1))
    sampling_ratio = Attribute(integer, check=at_least(0))
    spatial_scale = Attribute(number)
    #: Numbers that describe a box.
    box_size = 4
    mode: Any = "avg"

    def infer(self, data: TensorSpec, rois: TensorSpec, batch_indices: TensorSpec) -> PartialShape:
        image = image_dims(self, "data", data)
        suppose_pixels(image[2:])
        boxes = box_count(self, rois, self.box_size)
        require_rank(self, "batch_indices", batch_indices, 1)
        merged = self.wanted(
            boxes.merge(DYNAMIC if batch_indices.rank is None else batch_indices.shape[0]),
            "expected an image for each box, got rois {} and batch_indices {}",
            rois.shape,
            batch_indices.shape,
        )
        return PartialShape([merged, image[1], self.pooled_h, self.pooled_w])

    def frame(self, box: Array) -> tuple[Any, Any, Any, Any]:
        """The origin (x, y) of a box's grid, and the box's width and height."""
        raise NotImplementedError

    def places(self, box: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """The coordinates in the image of points on the grid of a box."""
        return x, y

    def reference(self, data: Array, rois: Array, batch_indices: Array) -> Array:
        wrong = (batch_indices < 0) | (batch_indices >= len(data))
        refuse_first(
            self, "batch_indices", batch_indices, wrong, f"0 to {len(data) - 1}", 0, len(data) - 1
        )
        output = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w), data.dtype)
        for box, image, result in zip(rois, batch_indices.tolist(), output, strict=True):
            left, top, width, height = self.frame(box)
            columns, rows = (
                self._cells(*axis)
                for axis in ((left, width, self.pooled_w), (top, height, self.pooled_h))
            )
            if data.shape[1] * rows.size * columns.size > _AT_ONCE:
                for y, x in np.ndindex(self.pooled_h, self.pooled_w):
                    result[:, y, x] = self._bin(box, data[image], rows[y], columns[x])
            elif rows.size and columns.size:
                x, y = self.places(
                    box, columns[np.newaxis, np.newaxis], rows[:, :, np.newaxis, np.newaxis]
                )
                values = self._read(data[image], y, x)  # [C, bins, cells, bins, cells]
                result[...] = (
                    np.maximum(values.max(axis=(2, 4)), 0)
                    if self.mode == "max"
                    else values.mean(axis=(2, 4))
                )
        return output

    def _bin(self, box: Array, image: Array, rows: Array, columns: Array) -> Array:
        """The result of one bin, from some of its cells at a time: a box may have any number."""
        cells = len(rows) * len(columns)
        rows, columns = self.reading(rows, image.shape[1]), self.reading(columns, image.shape[2])
        most, total = np.zeros(len(image), image.dtype), np.zeros(len(image))
        some = max(1, _AT_ONCE // max(1, len(image) * len(columns)))
        for first in range(0, len(rows) if len(columns) else 0, some):
            x, y = self.places(box, columns, rows[first : first + some, np.newaxis])
            values = self._read(image, y, x)
            most = np.maximum(most, values.max(axis=(1, 2)))
            total += values.sum(axis=(1, 2), dtype=np.float64)
        return most if self.mode == "max" else (total / cells).astype(image.dtype)

    def reading(self, coordinates: Array, size: int) -> Array:
        """Those coordinates along an axis of the grid that may read something of an image."""
        return coordinates

    def _cells(self, start: Any, size: Any, bins: int) -> Array:
        """The middles [bins, cells] of the cells of each bin along an axis."""
        step = size / bins
        cells = self.sampling_ratio or max(0, math.ceil(step)) if np.isfinite(step) else 0
        check_array_fits((4, bins, cells), np.asarray(start))
        middles = (
            step
            / start.dtype.type(max(1, cells))
            * (np.arange(cells, dtype=start.dtype) + start.dtype.type(0.5))
        )
        return np.asarray(
            start + np.arange(bins, dtype=start.dtype)[:, np.newaxis] * step + middles, start.dtype
        )

    def _read(self, image: Array, y: Array, x: Array) -> Array:
        height, width = image.shape[1:]
        y, x = np.broadcast_arrays(y, x)
        near = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
        rows, columns = (
            np.where(near, np.clip(v, 0, size - 1), 0) for v, size in ((y, height), (x, width))
        )
        return np.where(near, bilinear(image, rows, columns), image.dtype.type(0))


@register("ROIAlign", 3)
class ROIAlign3(_Align):
    """Boxes are two corners."""

    mode = Attribute(one_of("max", "avg"))
    aligned_mode: Any = "asymmetric"

    def frame(self, box: Array) -> tuple[Any, Any, Any, Any]:
        kind = box.dtype.type
        moved = kind(0.5 if self.aligned_mode == "half_pixel" else 0)
        back = kind(0 if self.aligned_mode == "asymmetric" else 0.5)
        left, top, right, bottom = (box + moved) * kind(self.spatial_scale) - back
        least = kind(1) if self.aligned_mode == "asymmetric" else kind(-math.inf)
        return left, top, max(right - left, least), max(bottom - top, least)

    def reading(self, coordinates: Array, size: int) -> Array:
        return coordinates[(coordinates >= -1) & (coordinates <= size)]


@register("ROIAlign", 9)
class ROIAlign9(ROIAlign3):
    """Adds aligned_mode."""

    aligned_mode = Attribute(
        one_of("asymmetric", "half_pixel_for_nn", "half_pixel"), default="asymmetric"
    )


@register("ROIAlignRotated", 15)
class ROIAlignRotated15(_Align):
    """Boxes are centre, width, height and angle."""

    clockwise_mode = Attribute(boolean, default=False)
    box_size = 5

    def frame(self, box: Array) -> tuple[Any, Any, Any, Any]:
        width, height = box[2:4] * box.dtype.type(self.spatial_scale)
        return -width / 2, -height / 2, width, height

    def places(self, box: Array, x: Array, y: Array) -> tuple[Array, Array]:
        kind = box.dtype.type
        angle = -box[4] if self.clockwise_mode else box[4]
        centre_x, centre_y = box[:2] * kind(self.spatial_scale) - kind(0.5)
        sine, cosine = np.sin(angle), np.cos(angle)
        return x * cosine + y * sine + centre_x, y * cosine - x * sine + centre_y
