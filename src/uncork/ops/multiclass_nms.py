"""MulticlassNms-8, -9: non-maximum suppression of each class, and the best boxes of every image
over all classes.

The candidates of a class are its boxes with scores of at least score_threshold, the best nms_top_k
of them.

    threshold = iou_threshold
    while there are candidates left:
        take the one with the highest score, the first of equal ones
        threshold = threshold * nms_eta        if nms_eta < 1 and threshold > 0.5
        remove candidates that overlap it by more than threshold

Boxes are those of an image for all its classes, or in -9 with a third input `roisnum [num_batches]`
of one class each: `boxes [num_classes, num_boxes, 4]`, where the boxes of image b follow those of
the images before it, roisnum[b] of them. Pages:
operation-specs/sort/multiclass-non-max-suppression-8, -9; what they leave open is decided in
`_class_selection.py`, and here:

- with `roisnum` the place of box m of class c among all is m * num_classes + c, as OpenVINO has it;
- a number of boxes below 0, and more boxes in `roisnum` than there are, are refused; fewer are
  refused with `strict` only.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.boxes import without_overlap
from uncork.ops._common.class_selection import SHARED, ClassSelection, Image
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import register
from uncork.ops._ports import I32_I64, Attribute, Input, number
from uncork.ops.matrix_nms import shared_boxes
from uncork.types import Array, TensorSpec

OWN = {
    "boxes": "num_classes, num_boxes, 4",
    "scores": "num_classes, num_boxes",
    "roisnum": "num_batches",
}


@register("MulticlassNms", 8)
class MulticlassNms8(ClassSelection):
    iou_threshold = Attribute(number, default=0.0)
    nms_eta = Attribute(
        number, default=1.0, check=lambda v: None if 0 <= v <= 1 else "a number from 0 to 1"
    )

    def infer(self, *specs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        return self.shapes(specs, SHARED if len(specs) < 3 or specs[2] is None else OWN)

    def best_of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        candidates = self.candidates(scores >= self.score_threshold, scores)
        taken = without_overlap(
            boxes[candidates], self.iou_threshold, pixel=self.pixel, eta=self.nms_eta
        )
        chosen = candidates[taken]
        return chosen, scores[chosen]

    def reference(self, *arrays: Array | None) -> tuple[Array, ...]:
        boxes, scores = arrays[:2]
        assert boxes is not None and scores is not None
        return self.selection(shared_boxes(boxes, scores), scores.dtype)


@register("MulticlassNms", 9)
class MulticlassNms9(MulticlassNms8):
    """With boxes of their own for each class."""

    roisnum = Input(I32_I64, optional=True)

    def infer(self, *specs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        boxes, _, roisnum = specs
        outputs = super().infer(*specs)
        if roisnum is not None and roisnum.value is not None:
            counts = roisnum.value
            refuse_first(self, "roisnum", counts, counts < 0, "0 or more", 0)
            if (
                boxes is not None
                and boxes.rank is not None
                and boxes.shape[1].static_size is not None
            ):
                total, number = sum(map(int, counts)), boxes.shape[1].static_size
                fits = total == number or (total < number and not self.strict)
                self.require(
                    fits,
                    "input 'roisnum': expected numbers that add up to the {} boxes, got {} in all",
                    number,
                    total,
                )
        return outputs

    def reference(self, *arrays: Array | None) -> tuple[Array, ...]:
        boxes, scores, roisnum = arrays
        if roisnum is None:
            return super().reference(boxes, scores)
        assert boxes is not None and scores is not None
        classes, number = scores.shape
        places = np.arange(classes * number).reshape(number, classes).T
        ends = np.cumsum(roisnum, dtype=np.int64)
        parts = [
            slice(int(end - count), int(end)) for end, count in zip(ends, roisnum, strict=True)
        ]
        return self.selection(
            [Image(boxes[:, p], scores[:, p], places[:, p]) for p in parts], scores.dtype
        )
