"""DeformablePSROIPooling-1: position-sensitive pooling whose bins can be moved.

The box runs from round(x1) * spatial_scale - 1/2 to (round(x2) + 1) * spatial_scale - 1/2, with
sides of at least 0.1, and is cut into group_size x group_size bins. Bin (i, j) of output channel o
reads channel (o * group_size + i) * group_size + j bilinearly at spatial_bins_y x spatial_bins_x
places, at the starts of its equal parts, and takes their mean. With offsets it is moved by

    offsets[box, 2 * class + (0, 1), i * part_size / group_size, j * part_size / group_size]
        * trans_std * side of the box

in x and y; the output channels fall into as many classes as the offsets have pairs of channels.

Page: operation-specs/detection/deformable-psroi-pooling-1, which has no formulas; these are those
of MXNet's operation, which the page names. Decided: places up to 1/2 outside the centres of the
border cells read these, places further outside do not count; a bin without a place that counts
gives 0; halves are rounded away from zero; an image of -1 ends the boxes (see ROIPooling).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.regions import box_count, boxes_with_images, rounded
from uncork.ops._common.sampling import bilinear
from uncork.ops._common.shapes import image_dims
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import REAL, Attribute, Input, at_least, integer, number, one_of
from uncork.types import Array, PartialShape, TensorSpec


@register("DeformablePSROIPooling", 1)
class DeformablePSROIPooling1(OfReals):
    """`data [N, C, H, W]`, `rois [R, 5]`, `offsets [R, 2 * classes, part_size, part_size]` to `[R,
    output_dim, group_size, group_size]`.
    """

    rois = Input(REAL, "T")
    offsets = Input(REAL, "T", optional=True)
    output_dim = Attribute(integer, check=at_least(1))
    spatial_scale = Attribute(number)
    group_size = Attribute(integer, default=1, check=at_least(1))
    mode = Attribute(one_of("bilinear_deformable"), default="bilinear_deformable")
    spatial_bins_x = Attribute(integer, default=1, check=at_least(1))
    spatial_bins_y = Attribute(integer, default=1, check=at_least(1))
    trans_std = Attribute(number, default=1.0)
    part_size = Attribute(integer, default=1, check=at_least(1))

    def infer(self, data: TensorSpec, rois: TensorSpec, offsets: TensorSpec | None) -> PartialShape:
        channels, wanted = image_dims(self, "data", data)[1], self.output_dim * self.group_size**2
        self.require(
            channels.agrees(wanted),
            "input 'data': expected {} channels by output_dim and group_size, got {}",
            wanted,
            channels,
        )
        boxes = box_count(self, rois, 5)
        if offsets is not None:
            dims = image_dims(self, "offsets", offsets)
            fits = (
                dims[0].agrees(boxes)
                and dims[2].agrees(self.part_size)
                and dims[3].agrees(self.part_size)
            )
            self.require(
                fits,
                "input 'offsets': expected shape [{},2 * classes,{},{}], got {}",
                boxes,
                self.part_size,
                self.part_size,
                offsets.shape,
            )
            pairs = dims[1].static_size
            self.require(
                pairs is None
                or (pairs > 0 and pairs % 2 == 0 and self.output_dim % (pairs // 2) == 0),
                "input 'offsets': expected two channels for each class, "
                "and classes that divide output_dim {}, got {} channels",
                self.output_dim,
                pairs,
            )
            boxes = boxes.merge(dims[0]) or boxes
        return PartialShape([boxes, self.output_dim, self.group_size, self.group_size])

    def reference(self, data: Array, rois: Array, offsets: Array | None) -> Array:
        output = np.zeros(
            (len(rois), self.output_dim, self.group_size, self.group_size), data.dtype
        )
        kind, size = data.dtype.type, self.group_size
        part = np.arange(size) * self.part_size // size
        for place, image in boxes_with_images(self, rois, len(data)):
            corners = (rounded(rois[place, 1:]) + np.array([0, 0, 1, 1], data.dtype)) * kind(
                self.spatial_scale
            ) - kind(0.5)
            sides = np.maximum(corners[2:] - corners[:2], kind(0.1))
            steps = sides / kind(size)
            moves = np.zeros((1, 2, size, size), data.dtype)
            if offsets is not None:
                moves = offsets[place].reshape(-1, 2, self.part_size, self.part_size)[
                    :, :, part[:, np.newaxis], part
                ] * kind(self.trans_std)
            # [o, (x, y), i, j]
            per_channel = np.repeat(moves, self.output_dim // len(moves), axis=0)
            numbers = np.arange(size, dtype=data.dtype)
            left = corners[0] + numbers * steps[0] + per_channel[:, 0] * sides[0]  # [o, i, j]
            top = corners[1] + numbers[:, np.newaxis] * steps[1] + per_channel[:, 1] * sides[1]
            output[place] = self._means(data[image], left, top, steps).reshape(output[place].shape)
        return output

    def _means(self, image: Array, left: Array, top: Array, steps: Array) -> Array:
        """The mean of the samples in each bin, which reads a channel of its own of [C, H, W]; the
        bins are given by their corners and their sides.
        """
        channels, height, width = image.shape
        kind = image.dtype.type
        across = np.arange(self.spatial_bins_x, dtype=image.dtype) * (
            steps[0] / kind(self.spatial_bins_x)
        )
        down = np.arange(self.spatial_bins_y, dtype=image.dtype) * (
            steps[1] / kind(self.spatial_bins_y)
        )
        x = left.reshape(channels, 1, 1) + across
        y = top.reshape(channels, 1, 1) + down[:, np.newaxis]
        # [C, bins, bins]
        counts = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
        y, x = np.broadcast_arrays(np.clip(y, 0, height - 1), np.clip(x, 0, width - 1))
        each = np.arange(channels)[:, np.newaxis, np.newaxis]
        values = np.where(
            counts, bilinear(image, np.where(counts, y, 0), np.where(counts, x, 0), each), 0
        )
        return np.asarray(
            values.sum(axis=(1, 2)) / np.maximum(counts.sum(axis=(1, 2)), 1).astype(image.dtype)
        )
