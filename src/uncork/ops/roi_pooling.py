"""ROIPooling-1: boxes of images, pooled to a fixed size.

max: the corners times spatial_scale are rounded to cells, both belong to the box (at least one
cell), and bin i of n along an axis of `size` cells runs from floor(i * size / n) to ceil((i + 1) *
size / n), not included; its largest cell is the result.

bilinear: corners are fractions of the image, from the centre of its first cell to that of its last;
the image is read at pooled_h x pooled_w places from corner to corner (in the middle of the box
along an axis of one place).

Page: operation-specs/detection/roi-pooling-1 (files write it as opset2). Decided:

- halves are rounded away from zero;
- a bin without a cell in the image gives 0, and so does a place outside [0, size - 1];
- an image of -1 ends the boxes, as Proposal means it: from there on the output is 0. Other images
  that are not there are refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.regions import box_count, boxes_with_images, rounded
from uncork.ops._common.sampling import bilinear
from uncork.ops._common.shapes import image_dims, suppose_pixels
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import REAL, Attribute, Input, at_least, integer, number, one_of
from uncork.types import Array, PartialShape, TensorSpec


@register("ROIPooling", 1)
class ROIPooling1(OfReals):
    """`data [N, C, H, W]`, `rois [R, 5]` of image, x1, y1, x2, y2 to
    `[R, C, pooled_h, pooled_w]`.
    """

    rois = Input(REAL, "T")
    pooled_h = Attribute(integer, check=at_least(1))
    pooled_w = Attribute(integer, check=at_least(1))
    spatial_scale = Attribute(number)
    method = Attribute(one_of("max", "bilinear"), default="max")

    def infer(self, data: TensorSpec, rois: TensorSpec) -> PartialShape:
        _, channels, *sides = image_dims(self, "data", data)
        suppose_pixels(sides)
        return PartialShape([box_count(self, rois, 5), channels, self.pooled_h, self.pooled_w])

    def reference(self, data: Array, rois: Array) -> Array:
        output = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w), data.dtype)
        if not output.size:
            return output
        pool = self._largest if self.method == "max" else self._read
        for place, image in boxes_with_images(self, rois, len(data)):
            pool(data[image], rois[place, 1:], output[place])
        return output

    def _largest(self, image: Array, box: Array, result: Array) -> None:
        corners = rounded(box * box.dtype.type(self.spatial_scale))
        x1, y1, x2, y2 = (int(v) for v in np.clip(np.nan_to_num(corners), -(2.0**40), 2.0**40))
        rows, columns = (
            self._bins(y1, y2, self.pooled_h, image.shape[1]),
            self._bins(x1, x2, self.pooled_w, image.shape[2]),
        )
        for i, j in np.ndindex(self.pooled_h, self.pooled_w):
            cells = image[:, rows[i], columns[j]]
            if cells.shape[1] and cells.shape[2]:
                result[:, i, j] = cells.max(axis=(1, 2))

    def _bins(self, first: int, last: int, bins: int, limit: int) -> list[slice]:
        size = max(last - first + 1, 1)
        edges = ((first + i * size // bins, first - (i + 1) * size // -bins) for i in range(bins))
        return [slice(min(max(begin, 0), limit), min(max(end, 0), limit)) for begin, end in edges]

    def _read(self, image: Array, box: Array, result: Array) -> None:
        height, width = image.shape[1:]
        y, x = (
            self._places(box[1], box[3], self.pooled_h, height),
            self._places(box[0], box[2], self.pooled_w, width),
        )
        y, x = np.broadcast_arrays(y[:, np.newaxis], x)
        inside = (y >= 0) & (y <= height - 1) & (x >= 0) & (x <= width - 1)
        result[...] = np.where(
            inside, bilinear(image, np.where(inside, y, 0), np.where(inside, x, 0)), 0
        )

    def _places(self, start: Array, end: Array, count: int, size: int) -> Array:
        kind = start.dtype.type
        if count == 1:
            return np.asarray([kind(0.5) * (start + end) * kind(size - 1)])
        places: Array = np.arange(count, dtype=start.dtype) * (
            (end - start) * kind(size - 1) / kind(count - 1)
        ) + start * kind(size - 1)
        places[-1] = end * kind(size - 1)  # rounding must not lead the last place out of the image
        return places
