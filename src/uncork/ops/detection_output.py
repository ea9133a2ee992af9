"""DetectionOutput-1, -8: the detections of an SSD: boxes from priors and predicted offsets, the
best of each class.

    code_type CORNER:       box = prior + variance * offset
    code_type CENTER_SIZE:  center = prior center + variance * offset * prior size,
                            size = exp(variance * offset) * prior size

Of each image, apart for each class but the background: boxes with confidence >
confidence_threshold, the best top_k of them, without those that overlap a better one of the class
by more than nms_threshold. Of all classes together the best keep_top_k[0]. Rows [image, class,
confidence, x_1, y_1, x_2, y_2] go by image, class and falling confidence; a row that begins with -1
ends them. With decrease_label_id (as in MXNet) each box counts only for its best class, of those
from 1 on, from confidence_threshold up; top_k is then of all classes together, and the classes are
written from 0.

Pages: operation-specs/detection/detectionoutput-1, -8. Decided where they are silent:

- top_k is taken before the suppression, as Caffe, MXNet and OpenVINO do (the page says after);
- with 5 inputs the priors are first moved by the fifth; where the second confidence of a prior in
  the fourth is below objectness_score, its box is background with certainty;
- proposals that are not normalized are made so once, before anything else (OpenVINO divides a
  second time after the fifth input has moved them). They begin with a number that is not used;
  their variances are the first 4 * num_prior_boxes numbers of the second row;
- what follows the row of -1, and that row from its second number on, is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.ops._common.boxes import best_first, without_overlap
from uncork.ops._common.shapes import is_one_of
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    REAL,
    Attribute,
    Input,
    Output,
    at_least,
    boolean,
    integer,
    integers,
    number,
    one_of,
)
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec

_CORNER, _CENTER_SIZE = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"
_RANKS = {
    "box_logits": 2,
    "class_preds": 2,
    "proposals": 3,
    "aux_class_preds": 2,
    "aux_box_preds": 2,
}


class _Detection(Operation):
    box_logits = Input(REAL, "T")
    class_preds = Input(REAL, "T")
    proposals = Input(REAL, "T")
    aux_class_preds = Input(REAL, "T", optional=True)
    aux_box_preds = Input(REAL, "T", optional=True)
    output = Output("T")
    background_label_id = Attribute(integer, default=0)
    top_k = Attribute(integer, default=-1, check=at_least(-1))
    variance_encoded_in_target = Attribute(boolean, default=False)
    keep_top_k = Attribute(
        integers,
        check=lambda v: (
            None if v and v[0] >= -1 else "a list that begins with a number of at least -1"
        ),
    )
    code_type = Attribute(one_of(_CORNER, _CENTER_SIZE), default=_CORNER)
    share_location = Attribute(boolean, default=True)
    nms_threshold = Attribute(number)
    confidence_threshold = Attribute(number, default=0.0)
    clip_after_nms = Attribute(boolean, default=False)
    clip_before_nms = Attribute(boolean, default=False)
    decrease_label_id = Attribute(boolean, default=False)
    normalized = Attribute(boolean, default=False)
    input_height = Attribute(integer, default=1, check=at_least(1))
    input_width = Attribute(integer, default=1, check=at_least(1))
    objectness_score = Attribute(number, default=0.0)
    #: An attribute of the first version; later ones follow from the shapes.
    num_classes: Any = None

    @property
    def prior_size(self) -> int:
        return 4 if self.normalized else 5

    # ---- shapes

    def infer(self, *specs: TensorSpec | None) -> PartialShape:
        self.require((specs[3] is None) == (specs[4] is None), "expected 3 or 5 inputs, got 4")
        shapes = {
            port.name: spec.shape
            for port, spec in zip(self.inputs, specs, strict=False)
            if spec is not None
        }
        for name, shape in shapes.items():
            self.require(
                shape.rank in (None, _RANKS[name]),
                "input '{}': expected rank {}, got shape {}",
                name,
                _RANKS[name],
                shape,
            )
        images = self._images(shapes)
        priors, classes = self._counts(shapes)
        return PartialShape([1, 1, self._rows(images, priors, classes), 7])

    def _rows(self, images: Dimension, priors: Dimension, classes: Dimension) -> Dimension:
        if self.keep_top_k[0] > 0:
            return images * self.keep_top_k[0]
        if self.keep_top_k[0] == -1 and self.top_k > 0:
            return images * classes * self.top_k
        return images * classes * priors

    def _images(self, shapes: dict[str, PartialShape]) -> Dimension:
        images = DYNAMIC
        for name, shape in shapes.items():
            if name != "proposals" and shape.rank is not None:
                images = self.wanted(
                    images.merge(shape[0]),
                    "input '{}': expected a batch of {}, got shape {}",
                    name,
                    images,
                    shape,
                )
        proposals = shapes["proposals"]
        if proposals.rank is not None:
            rows = 1 if self.variance_encoded_in_target else 2
            self.require(
                is_one_of(proposals[0], 1, images),
                "input 'proposals': expected a batch of 1 or {}, got shape {}",
                images,
                proposals,
            )
            self.require(
                proposals[1].agrees(rows),
                "input 'proposals': expected a second dimension of {}, got shape {}",
                rows,
                proposals,
            )
            if not proposals[0].contains(1):
                images = images.merge(proposals[0]) or images
        return images

    def _counts(self, shapes: dict[str, PartialShape]) -> tuple[Dimension, Dimension]:
        """The numbers of priors and classes, from whatever last dimension tells them; all must
        agree.
        """
        lengths = {name: shape[-1] for name, shape in shapes.items() if shape.rank is not None}
        priors, classes = DYNAMIC, Dimension.of(self.num_classes)

        def quotient(name: str, divisor: int) -> Dimension:
            self.require(
                lengths[name].is_multiple_of(divisor),
                "input '{}': expected a multiple of {} as its last dimension, got {}",
                name,
                divisor,
                shapes[name],
            )
            return lengths[name] // divisor

        per_prior: dict[str, int] = {"proposals": self.prior_size, "aux_class_preds": 2}
        for _ in range(2):
            if self.share_location or classes.is_static:
                boxes = 4 * (1 if self.share_location else int(classes) or 1)
                per_prior |= dict.fromkeys(("box_logits", "aux_box_preds"), boxes)
            if classes.is_static:
                per_prior["class_preds"] = int(classes)
            for name, per in per_prior.items():
                if name in lengths:
                    priors = self.wanted(
                        priors.merge(quotient(name, per)),
                        "input '{}': expected numbers for {} priors, got {}",
                        name,
                        priors,
                        shapes[name],
                    )
            if priors.high == 0:
                self.require(
                    classes.is_static,
                    "expected at least one prior, got proposals {}",
                    shapes["proposals"],
                )
            elif priors.is_static and not classes.is_static and "class_preds" in lengths:
                classes = quotient("class_preds", int(priors))
                self.require(
                    classes.covers(1),
                    "expected at least one class, got class_preds {}",
                    shapes["class_preds"],
                )
        return priors, classes

    # ---- values

    def reference(self, *arrays: Array | None) -> Array:
        box_logits, class_preds, proposals, objectness, moves = arrays
        assert box_logits is not None and class_preds is not None and proposals is not None
        images, priors = len(box_logits), proposals.shape[2] // self.prior_size
        classes = self.num_classes or class_preds.shape[1] // priors
        rows = int(self._rows(*(Dimension(n, n) for n in (images, priors, classes))))
        scores = class_preds.reshape(images, priors, classes)
        # no confidence at all
        scores = np.where(np.isnan(scores), -np.inf, scores).astype(scores.dtype)
        if objectness is not None:
            background = objectness.reshape(images, priors, 2)[..., 1] < self.objectness_score
            scores[background] = np.arange(classes) == self.background_label_id
        boxes = self._boxes(box_logits, proposals, moves, images, priors, classes)
        output = np.zeros((rows, 7), class_preds.dtype)
        count = 0
        for image in range(images):
            for label, box, score in self._best_of_image(boxes[image], scores[image]):
                place = boxes[image, box, 0 if self.share_location else label]
                place = np.clip(place, 0, 1) if self.clip_after_nms else place
                output[count] = [image, label - self.decrease_label_id, score, *place]
                count += 1
        if count < rows:
            output[count, 0] = -1
        return output[np.newaxis, np.newaxis]

    def _boxes(
        self,
        logits: Array,
        proposals: Array,
        moves: Array | None,
        images: int,
        priors: int,
        classes: int,
    ) -> Array:
        """The decoded boxes [images, priors, 1 or classes, 4]."""
        per_prior = (images, priors, 1 if self.share_location else classes, 4)
        boxes = proposals[:, 0].reshape(len(proposals), priors, 1, self.prior_size)[..., -4:]
        if not self.normalized:
            boxes = boxes / np.array([self.input_width, self.input_height] * 2, boxes.dtype)
        variances: Array = np.ones(4, boxes.dtype)
        if not self.variance_encoded_in_target:
            variances = proposals[:, 1, : 4 * priors].reshape(len(proposals), priors, 1, 4)
        if moves is not None:
            boxes = self._decoded(boxes, variances * moves.reshape(per_prior))
        return self._decoded(boxes, variances * logits.reshape(per_prior))

    def _decoded(self, priors: Array, offsets: Array) -> Array:
        low, high = priors[..., :2], priors[..., 2:]
        if self.code_type == _CORNER:
            boxes = priors + offsets
        else:
            size = high - low
            center = (low + high) / 2 + offsets[..., :2] * size
            half = np.exp(offsets[..., 2:]) * size / 2
            boxes = np.concatenate([center - half, center + half], axis=-1)
        return np.clip(boxes, 0, 1) if self.clip_before_nms else boxes

    def _best_of_image(self, boxes: Array, scores: Array) -> list[tuple[int, int, Any]]:
        """The detections of an image as (class, number of the box, confidence), in the order of the
        output's rows.
        """
        taken: list[tuple[int, int, Any]] = []
        if not scores.size:  # any number of classes
            return taken
        for label, candidates in self._candidates(scores):
            own = boxes[candidates, 0 if self.share_location else label]
            kept = without_overlap(own, self.nms_threshold)
            taken += [(label, int(candidates[k]), scores[candidates[k], label]) for k in kept]
        if -1 < self.keep_top_k[0] < len(taken):
            best = sorted(taken, key=lambda row: (-row[2], row[1]))[: self.keep_top_k[0]]
            taken = sorted(best, key=lambda row: row[0])
        return taken

    def _candidates(self, scores: Array) -> list[tuple[int, Array]]:
        """Each class with the numbers of its candidate boxes, best first."""
        labels = [c for c in range(scores.shape[1]) if c != self.background_label_id]
        if not self.decrease_label_id:
            return [
                (
                    c,
                    self._first(
                        np.flatnonzero(scores[:, c] > self.confidence_threshold), scores[:, c]
                    ),
                )
                for c in labels
            ]
        labels = [c for c in labels if c > 0]
        if not labels:
            return []
        best = np.array(labels)[np.argmax(scores[:, labels], axis=1)]
        confidence = scores[np.arange(len(scores)), best]
        boxes = self._first(
            np.flatnonzero((confidence >= self.confidence_threshold) & (confidence > -1)),
            confidence,
        )
        return [(c, boxes[best[boxes] == c]) for c in labels]

    def _first(self, boxes: Array, scores: Array) -> Array:
        """The best top_k of some boxes, best first."""
        order = boxes[best_first(scores[boxes])]
        return order if self.top_k < 0 else order[: self.top_k]


@register("DetectionOutput", 1)
class DetectionOutput1(_Detection):
    num_classes = Attribute(integer, check=at_least(1))


@register("DetectionOutput", 8)
class DetectionOutput8(_Detection):
    """The number of classes follows from the shapes."""
