"""Non-maximum suppression as the operations NonMaxSuppression and NMSRotated have it: apart for
each class of each image.

    while there are boxes left, and fewer than max_output_boxes_per_class taken:
        take the box with the highest score s, the first of equal ones; stop where
            s < score_threshold
        s_i = s_i * weight(overlap with the box taken)
            for each box left, which is removed where the weight is 0

Pages: operation-specs/sort/non-max-suppression-1 to -9, nms-rotated-13. Decided here:

- a box that is removed stays removed. By the letter of the pages its score becomes 0, which a
  score_threshold of 0 would let pass;
- "greater or equal" to score_threshold and "less or equal" to iou_threshold are taken at their word
  (OpenVINO: greater, less), but an iou_threshold of 0 lets no second box pass, as in OpenVINO: the
  pages have it "keep all boxes", against their formula;
- a NaN is no score: its box is never taken;
- max_output_boxes_per_class below 0 takes no box (with `strict` it is refused);
- selected_scores are f32 as OpenVINO declares them whatever the type of the thresholds, f64 where
  the scores are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.ops._common.boxes import best_first, without_overlap
from uncork.ops._common.sequences import agreed_sizes
from uncork.ops._common.shapes import require_one
from uncork.ops._common.vectors import scalar
from uncork.ops._operation import Operation
from uncork.ops._ports import (
    INTEGER,
    REAL,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
)
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec


def single(array: Array | None) -> Any:
    """The value of an input of one element, 0 where it is absent."""
    return 0 if array is None else array.reshape(-1)[0]


class Suppression(Operation):
    """The base of these operations, with inputs `boxes [num_batches, num_boxes, numbers of a box]`
    and `scores [num_batches, num_classes, num_boxes]`.
    """

    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")
    max_output_boxes_per_class = Input(INTEGER, optional=True)
    iou_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    score_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    sort_result_descending = Attribute(boolean, default=True)
    #: How many numbers describe a box.
    box_size = 4
    #: What a threshold above 0.5 falls to with each box taken, as a part of it.
    eta: Any = 1.0
    #: The type of indices; an attribute of most versions.
    output_type: Any = ElementType.i64

    def prepared(self, boxes: Array) -> Array:
        """The boxes of one image as `overlap` needs them."""
        return boxes

    def overlap(self, box: Array, others: Array) -> Array:
        raise NotImplementedError

    def weights(self, overlap: Array, iou_threshold: Any, sigma: Any) -> Array:
        """The factors for the scores of boxes with this overlap, for a sigma other than 0; a factor
        of 0 removes the box.
        """
        raise NotImplementedError

    def checked(self, *specs: TensorSpec | None) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        """The specs of all three outputs, once the inputs are checked; versions without the last
        two outputs leave these out.
        """
        size = str(self.box_size)
        layout = {
            "boxes": f"num_batches, num_boxes, {size}",
            "scores": "num_batches, num_classes, num_boxes",
        }
        sizes = agreed_sizes(self, specs, layout, {size: Dimension(self.box_size, self.box_size)})
        scores, maximum, *thresholds = specs[1:]
        for port, threshold in zip(self.inputs[3:], thresholds, strict=False):
            if threshold is not None:
                require_one(self, port.name, threshold)
        number = 0 if maximum is None else scalar(self, "max_output_boxes_per_class", maximum)
        if number is not None:
            name = "max_output_boxes_per_class"
            fits = number >= 0 or not self.strict
            self.require(
                fits,
                "input '{}' is {}, expected 0 or more",
                name,
                number,
                input=name,
                value=number,
                low=0,
            )
        boxes, classes, batches = (
            sizes.get(name, DYNAMIC).high for name in ("num_boxes", "num_classes", "num_batches")
        )
        kept = (
            boxes
            if number is None
            else max(0, number)
            if boxes is None
            else min(boxes, max(0, number))
        )
        rows = Dimension(0, kept) * Dimension(0, classes) * Dimension(0, batches)
        shape = PartialShape([rows, 3])
        wide = scores is not None and scores.element_type is ElementType.f64
        return (
            TensorSpec(self.output_type, shape),
            TensorSpec(ElementType.f64 if wide else ElementType.f32, shape),
            TensorSpec(self.output_type, PartialShape([1])),
        )

    def selected(
        self,
        boxes: Array,
        scores: Array,
        maximum: Array | None,
        iou_threshold: Array | None,
        score_threshold: Array | None,
        sigma: Any = 0,
    ) -> tuple[Array, Array, Array]:
        """The three outputs: the indices of the selected boxes, their scores, and their number."""
        limit, least, most = (
            int(single(maximum)),
            single(score_threshold),
            single(iou_threshold),
        )
        rows: list[tuple[int, int, int]] = []
        taken: list[Any] = []
        for batch, image in enumerate(boxes if scores.size else ()):
            prepared = self.prepared(image)
            for index, class_scores in enumerate(scores[batch]):
                for box, score in self._select(prepared, class_scores, limit, most, least, sigma):
                    rows.append((batch, index, box))
                    taken.append(score)
        indices = np.array(rows, np.int64).reshape(-1, 3)
        values = np.array(taken, scores.dtype)
        if self.sort_result_descending:
            order = best_first(values)
            indices, values = indices[order], values[order]
        triples = np.concatenate(
            [indices[:, :2].astype(scores.dtype), values[:, np.newaxis]], axis=1
        )
        return indices, triples, np.array([len(indices)])

    def _select(
        self,
        boxes: Array,
        scores: Array,
        limit: int,
        iou_threshold: Any,
        score_threshold: Any,
        sigma: Any,
    ) -> list[tuple[int, Any]]:
        """Boxes taken for one class, best first, with the scores they have then."""
        left = np.flatnonzero(scores >= score_threshold)
        if sigma == 0:
            ranked = left[best_first(scores[left])]
            most = iou_threshold if iou_threshold > 0 else -np.inf
            kept = ranked[
                without_overlap(
                    boxes[ranked],
                    most,
                    limit,
                    overlap=lambda box, others, _: self.overlap(box, others),
                    eta=self.eta,
                )
            ]
            return list(zip(kept.tolist(), scores[kept], strict=True))
        taken: list[tuple[int, Any]] = []
        score = scores[left]
        while left.size and len(taken) < limit:
            best = int(np.argmax(score))
            taken.append((int(left[best]), score[best]))
            weight = self.weights(
                self.overlap(boxes[left[best]], boxes[left]), iou_threshold, sigma
            )
            weight[best] = 0
            score = score * weight
            stays = (weight != 0) & (score >= score_threshold)
            left, score = left[stays], score[stays]
        return taken


class SuppressionWithScores(Suppression):
    """The base of the versions with all three outputs."""

    output_type = index_type()
    selected_indices = Output()
    selected_scores = Output()
    valid_outputs = Output()

    def infer(self, *specs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        return self.checked(*specs)

    def reference(
        self,
        boxes: Array,
        scores: Array,
        maximum: Array | None,
        iou_threshold: Array | None,
        score_threshold: Array | None,
        sigma: Array | None = None,
    ) -> tuple[Array, ...]:
        return self.selected(boxes, scores, maximum, iou_threshold, score_threshold, single(sigma))
