"""Proposal-1, -4: the best regions of a Faster R-CNN: anchors at every cell of a feature map, moved
by predicted deltas.

An anchor of base_size has for each ratio r and scale s the width w * s and the height w * r * s, w
= sqrt(base_size**2 / r), and is centered on base_size / 2. Each cell has it shifted by its place
times feat_stride, and moves it by deltas / box_coordinate_scale and deltas / box_size_scale (see
`_proposals.py`). Of the pre_nms_topn boxes with the highest scores those that overlap a better one
by more than nms_thresh are left out. Each image has post_nms_topn rows [image, x_1, y_1, x_2, y_2];
a row that begins with -1 ends them where there are fewer. Scores are those of the second half of
the channels.

`framework` "": boxes are of pixels, both ends of which belong to them, and w and w * r are rounded.
"tensorflow": neither; anchors are centered on the cell's corner and cut to the image before they
are moved, and all coordinates stand for y first, then x.

Pages: operation-specs/detection/proposal-1, -4. Decided where they are silent or OpenVINO differs:

- a box smaller than min_size * scale has a score of 0 and so comes after all others, as OpenVINO
  has it (the page filters it out);
- equal scores: see `selected_first`;
- moved boxes end a pixel late, at center + size / 2, as in Caffe and OpenVINO;
- image and scale must be finite numbers, the image's sides above 0, the scales not below; what
  follows the row of -1 is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uncork.ops._common.boxes import touching_overlaps, without_overlap
from uncork.ops._common.indices import refuse_first
from uncork.ops._common.proposals import inside, large_enough, moved, selected_first
from uncork.ops._common.shapes import is_one_of
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    REAL,
    Attribute,
    Input,
    Output,
    boolean,
    integer,
    number,
    numbers,
    one_of,
)
from uncork.storage import decode
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


def whole(least: int) -> Callable[[int], str | None]:
    """A check for `Attribute(check=...)`: whole numbers from `least` to 2**31 - 1."""
    return lambda v: None if least <= v < 2**31 else f"a number from {least} to {2**31 - 1}"


def positive(value: float) -> str | None:
    return None if 0 < value < np.inf else "a positive number"


def all_positive(values: tuple[float, ...]) -> str | None:
    return None if values and not any(map(positive, values)) else "a list of positive numbers"


@register("Proposal", 1)
class Proposal1(Operation):
    """`class_probs [N, 2 K, H, W]`, `bbox_deltas [N, 4 K, H, W]`, `image_shape [3 or 4]`: height,
    width, scale or scales.
    """

    class_probs = Input(REAL, "T")
    bbox_deltas = Input(REAL, "T")
    image_shape = Input(REAL, "T")
    proposals = Output("T")
    base_size = Attribute(integer, check=whole(1))
    pre_nms_topn = Attribute(integer, check=whole(1))
    post_nms_topn = Attribute(integer, check=whole(1))
    nms_thresh = Attribute(number)
    feat_stride = Attribute(integer, check=whole(1))
    min_size = Attribute(integer, check=whole(0))
    ratio: Attribute[tuple[float, ...]] = Attribute(numbers, check=all_positive)
    scale: Attribute[tuple[float, ...]] = Attribute(numbers, check=all_positive)
    clip_before_nms = Attribute(boolean, default=True)
    clip_after_nms = Attribute(boolean, default=False)
    normalize = Attribute(boolean, default=False)
    box_size_scale = Attribute(number, default=1.0, check=positive)
    box_coordinate_scale = Attribute(number, default=1.0, check=positive)
    framework = Attribute(one_of("", "tensorflow"), default="")

    @property
    def pixel(self) -> int:
        return 0 if self.framework else 1

    def infer(
        self, class_probs: TensorSpec, bbox_deltas: TensorSpec, image_shape: TensorSpec
    ) -> Any:
        return PartialShape([self._rows(class_probs, bbox_deltas, image_shape), 5])

    def _rows(
        self, class_probs: TensorSpec, bbox_deltas: TensorSpec, image_shape: TensorSpec
    ) -> Dimension:
        batch, anchors = DYNAMIC, len(self.ratio) * len(self.scale)
        place = PartialShape([None, None])
        for name, spec, channels in (
            ("class_probs", class_probs, 2 * anchors),
            ("bbox_deltas", bbox_deltas, 4 * anchors),
        ):
            fits = spec.rank is None or (spec.rank == 4 and spec.shape[1].agrees(channels))
            self.require(
                fits,
                "input '{}': expected [N, {}, H, W] for {} anchors, got {}",
                name,
                channels,
                anchors,
                spec.shape,
            )
            if spec.rank is not None:
                both, image = place.merge(spec.shape[2:]), batch.merge(spec.shape[0])
                agrees = both is not None and image is not None
                self.require(
                    agrees,
                    "inputs 'class_probs' {} and 'bbox_deltas' {} differ in N, H or W",
                    class_probs.shape,
                    bbox_deltas.shape,
                )
                place, batch = both or place, image or batch
        three_or_four = image_shape.rank is None or (
            image_shape.rank == 1 and is_one_of(image_shape.shape[0], 3, 4)
        )
        self.require(
            three_or_four,
            "input 'image_shape': expected 3 or 4 numbers, got shape {}",
            image_shape.shape,
        )
        if image_shape.value is not None:
            values = decode(image_shape.value, image_shape.element_type)
            least = np.array([0, 0, -1, -1])[: len(values)]  # a scale may be 0
            wrong = ~((values > least) & (values >= 0) & (values < np.inf))
            refuse_first(
                self, "image_shape", values, wrong, "height and width above 0, scales of at least 0"
            )
        return batch * self.post_nms_topn

    def reference(self, class_probs: Array, bbox_deltas: Array, image_shape: Array) -> Any:
        return self.all_outputs(class_probs, bbox_deltas, image_shape)[0]

    def all_outputs(
        self, class_probs: Array, bbox_deltas: Array, image_shape: Array
    ) -> tuple[Array, Array]:
        """The regions as rows of the output, and their scores."""
        images, _, rows, columns = class_probs.shape
        anchors = self._anchors(rows, columns, class_probs.dtype)
        height, width, *scales = (image_shape.dtype.type(v) for v in image_shape)
        # of height and width
        smallest = [s * image_shape.dtype.type(self.min_size) for s in (scales * 2)[:2]]
        if self.framework:
            height, width = width, height  # of what the box has first, which is then y
            anchors = inside(anchors, width, height)
        # From [N, 4 K, H, W] to [N, H, W, K, 4], the order of the anchors.
        deltas = bbox_deltas.reshape(images, class_probs.shape[1] // 2, 4, rows, columns).transpose(
            0, 3, 4, 1, 2
        )
        factors = np.array(
            [self.box_coordinate_scale] * 2 + [self.box_size_scale] * 2, deltas.dtype
        )
        boxes = moved(anchors, deltas / factors, self.pixel).reshape(
            images, rows * columns * (class_probs.shape[1] // 2), 4
        )
        scores = (
            class_probs[:, class_probs.shape[1] // 2 :]
            .transpose(0, 2, 3, 1)
            .reshape(boxes.shape[:2])
        )
        if self.clip_before_nms:
            boxes = inside(boxes, width - self.pixel, height - self.pixel)
        scores = np.where(large_enough(boxes, self.pixel, smallest[1], smallest[0]), scores, 0)
        regions = np.zeros((images, self.post_nms_topn, 5), boxes.dtype)
        taken_scores = np.zeros((images, self.post_nms_topn), scores.dtype)
        for image in range(images):
            order = selected_first(scores[image], self.pre_nms_topn)
            taken = order[
                without_overlap(
                    boxes[image, order],
                    self.nms_thresh,
                    self.post_nms_topn,
                    self.pixel,
                    touching_overlaps,
                )
            ]
            found = boxes[image, taken]
            if self.clip_after_nms:
                found = inside(found, width, height)
            if self.normalize:
                found = found / np.array([width, height, width, height], found.dtype)
            regions[image, : len(taken), 0] = image
            regions[image, : len(taken), 1:] = found
            regions[image, len(taken) : len(taken) + 1, 0] = -1
            taken_scores[image, : len(taken)] = scores[image, taken]
        return regions.reshape(-1, 5), taken_scores.reshape(-1)

    def _anchors(self, rows: int, columns: int, dtype: Any) -> Array:
        """The anchors [rows, columns, anchors of a cell, 4] of a feature map."""
        down, across = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        places = np.stack([down, across] if self.framework else [across, down], axis=-1).astype(
            np.float32
        ) * np.float32(self.feat_stride)
        boxes = self.cell_anchors()
        grid: Array = np.concatenate([places, places], axis=-1)[:, :, np.newaxis] + boxes
        return grid.astype(dtype)

    def cell_anchors(self) -> Array:
        """The anchors [anchors of a cell, 4] of the first cell, in f32."""
        base, ratios = np.float32(self.base_size), np.array(self.ratio, np.float32)
        width = np.sqrt(base * base / ratios)
        if not self.framework:
            width = np.floor(width + np.float32(0.5))
        height = width * ratios
        if not self.framework:
            height = np.floor(height + np.float32(0.5))
        sizes = (
            np.stack([width, height], axis=-1)[:, np.newaxis]
            * np.array(self.scale, np.float32)[:, np.newaxis]
        )
        half = (sizes.reshape(-1, 2) - np.float32(self.pixel)) / 2
        center = np.float32(0) if self.framework else (base - 1) / 2
        return np.asarray(np.concatenate([center - half, center + half], axis=-1))


@register("Proposal", 4)
class Proposal4(Proposal1):
    """With the scores as a second output, 0 where there is no region."""

    scores = Output("T")

    def infer(
        self, class_probs: TensorSpec, bbox_deltas: TensorSpec, image_shape: TensorSpec
    ) -> Any:
        rows = self._rows(class_probs, bbox_deltas, image_shape)
        return PartialShape([rows, 5]), PartialShape([rows])

    def reference(self, class_probs: Array, bbox_deltas: Array, image_shape: Array) -> Any:
        return self.all_outputs(class_probs, bbox_deltas, image_shape)
