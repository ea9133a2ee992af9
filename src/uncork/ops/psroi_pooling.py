"""PSROIPooling-1: position-sensitive pooling; every bin of a box reads channels of its own.

average: corners are cells; the box runs from round(x1) * spatial_scale to (round(x2) + 1) *
spatial_scale, with sides of at least 0.1. Of group_size x group_size bins, bin (i, j) of output
channel o is the mean of channel (o * group_size + i) * group_size + j over the cells from floor to
ceil of its edges.

bilinear: corners times spatial_scale are fractions of the image, from the centre of its first cell
to that of its last. The box is cut into spatial_bins_y x spatial_bins_x parts; part (s, t) is read
at group_size x group_size places from corner to corner (in its middle when group_size is 1) in
channel (s * spatial_bins_x + t) * output_dim + o, and the parts' mean is the result.

Page: operation-specs/detection/psroi-pooling-1, which has no formulas; these are those of R-FCN,
from where the operation comes. Decided: a bin without a cell in the image gives 0; a place outside
the image adds 0 to the mean; halves are rounded away from zero; an image of -1 ends the boxes (see
ROIPooling), other images that are not there are refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.regions import box_count, boxes_with_images, rounded
from uncork.ops._common.sampling import bilinear
from uncork.ops._common.shapes import image_dims, suppose_pixels
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import REAL, Attribute, Input, at_least, integer, number, one_of
from uncork.types import Array, PartialShape, TensorSpec


@register("PSROIPooling", 1)
class PSROIPooling1(OfReals):
    """`data [N, C, H, W]`, `rois [R, 5]` of image, x1, y1, x2, y2 to `[R, output_dim, group_size,
    group_size]`.
    """

    rois = Input(REAL, "T")
    output_dim = Attribute(integer, check=at_least(1))
    group_size = Attribute(integer, default=1, check=at_least(1))
    spatial_scale = Attribute(number)
    mode = Attribute(one_of("average", "bilinear"), default="average")
    spatial_bins_x = Attribute(integer, default=1, check=at_least(1))
    spatial_bins_y = Attribute(integer, default=1, check=at_least(1))

    def infer(self, data: TensorSpec, rois: TensorSpec) -> PartialShape:
        parts = (
            self.group_size**2
            if self.mode == "average"
            else self.spatial_bins_x * self.spatial_bins_y
        )
        _, channels, *sides = image_dims(self, "data", data)
        suppose_pixels(sides)
        self.require(
            channels.agrees(self.output_dim * parts),
            "input 'data': expected {} channels, {} for each of output_dim {}, got {}",
            self.output_dim * parts,
            parts,
            self.output_dim,
            channels,
        )
        return PartialShape(
            [box_count(self, rois, 5), self.output_dim, self.group_size, self.group_size]
        )

    def reference(self, data: Array, rois: Array) -> Array:
        output = np.zeros(
            (len(rois), self.output_dim, self.group_size, self.group_size), data.dtype
        )
        pool = self._means if self.mode == "average" else self._read
        for place, image in boxes_with_images(self, rois, len(data)):
            pool(data[image], rois[place, 1:], output[place])
        return output

    def _means(self, image: Array, box: Array, result: Array) -> None:
        kind, size = box.dtype.type, self.group_size
        corners = (rounded(box) + np.array([0, 0, 1, 1], box.dtype)) * kind(self.spatial_scale)
        grouped = image.reshape(self.output_dim, size, size, *image.shape[1:])
        rows, columns = (
            self._edges(corners[axis], corners[axis + 2], image.shape[2 - axis]) for axis in (1, 0)
        )
        for i, j in np.ndindex(size, size):
            cells = grouped[:, i, j, rows[i], columns[j]]
            if cells.shape[1] and cells.shape[2]:
                result[:, i, j] = cells.mean(axis=(1, 2))

    def _edges(self, start: Array, end: Array, limit: int) -> list[slice]:
        step = max(end - start, start.dtype.type(0.1)) / start.dtype.type(self.group_size)
        bounds = start + np.arange(self.group_size + 1, dtype=start.dtype) * step
        first, last = (
            np.clip(np.nan_to_num(v), 0, limit).astype(int).tolist()
            for v in (np.floor(bounds[:-1]), np.ceil(bounds[1:]))
        )
        return [slice(begin, end) for begin, end in zip(first, last, strict=True)]

    def _read(self, image: Array, box: Array, result: Array) -> None:
        x1, y1, x2, y2 = box * box.dtype.type(self.spatial_scale)
        height, width = image.shape[1:]
        parts = image.reshape(
            self.spatial_bins_y, self.spatial_bins_x, self.output_dim, height, width
        )
        all_rows = self._places(y1, y2, self.spatial_bins_y, height)
        all_columns = self._places(x1, x2, self.spatial_bins_x, width)
        for s, t in np.ndindex(self.spatial_bins_y, self.spatial_bins_x):
            y, x = np.broadcast_arrays(all_rows[s][:, np.newaxis], all_columns[t])
            inside = (y >= 0) & (y <= height - 1) & (x >= 0) & (x <= width - 1)
            result += np.where(
                inside, bilinear(parts[s, t], np.where(inside, y, 0), np.where(inside, x, 0)), 0
            )
        result /= self.spatial_bins_y * self.spatial_bins_x

    def _places(self, start: Array, end: Array, parts: int, size: int) -> Array:
        """The coordinates [parts, group_size] of samples along an axis."""
        kind = start.dtype.type
        step = (end - start) / kind(parts)
        begins = start + np.arange(parts, dtype=start.dtype) * step
        if self.group_size == 1:
            return np.asarray((2 * begins + step) * kind(size - 1) / 2)[:, np.newaxis]
        within = np.arange(self.group_size, dtype=start.dtype) * (
            step * kind(size - 1) / kind(self.group_size - 1)
        )
        return np.asarray(begins[:, np.newaxis] * kind(size - 1) + within)
