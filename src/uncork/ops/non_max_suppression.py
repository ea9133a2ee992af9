"""NonMaxSuppression-1, -3, -4, -5, -9: the best boxes of each class that do not overlap each other
too much.

    without soft_nms_sigma:  weight(overlap) = 1 if overlap <= iou_threshold else 0
    with it:                 weight(overlap) = exp(-0.5 * overlap**2 / soft_nms_sigma),
                             -5: and 0 if overlap > iou_threshold

Pages: operation-specs/sort/non-max-suppression-1, -3, -4, -5, -9; what they leave open is decided
in `_suppression.py`, and here:

- -1, -3 and -4 give as many rows as boxes were taken, as -5 and -9 do and as OpenVINO runs them.
  Their pages fill up with rows of -1 to a number that, with several images, does not even hold all
  boxes;
- an iou_threshold left out is the 0 that the pages say: one box of each class;
- a negative soft_nms_sigma is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.ops._common.boxes import overlaps
from uncork.ops._common.indices import refuse_first
from uncork.ops._common.suppression import Suppression, SuppressionWithScores
from uncork.ops._operation import register
from uncork.ops._ports import REAL, Attribute, Input, Output, index_type, one_of
from uncork.storage import decode
from uncork.types import Array, TensorSpec


class _Corners(Suppression):
    box_encoding = Attribute(one_of("corner", "center"), default="corner")

    def prepared(self, boxes: Array) -> Array:
        first, second = boxes[:, :2], boxes[:, 2:]
        if self.box_encoding == "center":
            half = second / 2
            return np.concatenate([first - half, first + half], axis=1)
        # Any two opposite corners, in any order.
        return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)

    def overlap(self, box: Array, others: Array) -> Array:
        return overlaps(box, others)


@register("NonMaxSuppression", 1)
class NonMaxSuppression1(_Corners):
    """i64 indices only."""

    selected_indices = Output()

    def infer(self, *specs: TensorSpec | None) -> TensorSpec:
        return self.checked(*specs)[0]

    def reference(
        self,
        boxes: Array,
        scores: Array,
        maximum: Array | None,
        iou_threshold: Array | None,
        score_threshold: Array | None,
    ) -> Array:
        return self.selected(boxes, scores, maximum, iou_threshold, score_threshold)[0]


@register("NonMaxSuppression", 3)
class NonMaxSuppression3(NonMaxSuppression1):
    """Indices of either type."""

    output_type = index_type()


@register("NonMaxSuppression", 4)
class NonMaxSuppression4(NonMaxSuppression3):
    """Differs from -3 in the number of rows that its page reserves."""


@register("NonMaxSuppression", 9)
class NonMaxSuppression9(_Corners, SuppressionWithScores):
    """With scores, a count, and Soft-NMS."""

    soft_nms_sigma = Input(REAL, "T_THRESHOLDS", optional=True)

    def infer(self, *specs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        sigma = specs[-1]
        if sigma is not None and sigma.value is not None:
            value = decode(sigma.value, sigma.element_type)
            refuse_first(self, "soft_nms_sigma", value, np.asarray(value < 0), "0 or more")
        return super().infer(*specs)

    def weights(self, overlap: Array, iou_threshold: Any, sigma: Any) -> Array:
        return np.asarray(np.exp(overlap.dtype.type(-0.5 / sigma) * overlap * overlap))


@register("NonMaxSuppression", 5)
class NonMaxSuppression5(NonMaxSuppression9):
    """Soft-NMS removes boxes past the threshold too."""

    def weights(self, overlap: Array, iou_threshold: Any, sigma: Any) -> Array:
        return np.where(
            (overlap <= iou_threshold) & (iou_threshold > 0),
            super().weights(overlap, iou_threshold, sigma),
            0,
        )
