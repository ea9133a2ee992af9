"""What MatrixNms and MulticlassNms share: the best boxes of every class of an image, counted,
ordered and written as rows.

    selected_outputs [n, 6] = class, score, box
    selected_indices [n, 1] = place of the box
    selected_num [batch] = rows of each image

Pages: operation-specs/sort/matrix-non-max-suppression-8, multiclass-non-max-suppression-8, -9.
Decided here:

- the attribute that the pages call `sort_result`, with `class`, is `sort_result_type`, with
  `classid`, in files; both are read;
- `none` gives the order of `score` within each image, whatever `sort_result_across_batch` says;
- rows that compare equal go by image, class and box;
- the boxes with `normalized` = false are of pixels, both ends of which belong to the box;
- a NaN is no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from uncork.ops._common.boxes import best_first
from uncork.ops._common.sequences import agreed_sizes
from uncork.ops._operation import Operation
from uncork.ops._ports import (
    REAL,
    Attribute,
    Input,
    Output,
    at_least,
    boolean,
    index_type,
    integer,
    number,
    one_of,
)
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec

#: How boxes lie that all classes share.
SHARED = {"boxes": "num_batches, num_boxes, 4", "scores": "num_batches, num_classes, num_boxes"}


class Image(NamedTuple):
    """The candidates of one image."""

    boxes: Array  # [classes, boxes, 4]
    scores: Array  # [classes, boxes]
    places: Array  # [classes, boxes]: the number that `selected_indices` has for each


class ClassSelection(Operation):
    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")
    selected_outputs = Output("T")
    selected_indices = Output()
    selected_num = Output()
    sort_result_type = Attribute(one_of("none", "score", "classid"), default="none")
    sort_result_across_batch = Attribute(boolean, default=False)
    output_type = index_type()
    score_threshold = Attribute(number, default=0.0)
    nms_top_k = Attribute(integer, default=-1, check=at_least(-1))
    keep_top_k = Attribute(integer, default=-1, check=at_least(-1))
    background_class = Attribute(integer, default=-1, check=at_least(-1))
    normalized = Attribute(boolean, default=True)

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Operation:
        if "sort_result" in texts and "sort_result_type" not in texts:
            word = texts["sort_result"]
            texts = {**texts, "sort_result_type": "classid" if word == "class" else word}
        return super().from_text(texts)

    def best_of_class(self, boxes: Array, scores: Array) -> tuple[Array, Array]:
        """The selected ones of the boxes [m, 4] of a class: their numbers and scores, in falling
        order.
        """
        raise NotImplementedError

    @property
    def pixel(self) -> int:
        return 0 if self.normalized else 1

    def classes_by_class(self) -> bool:
        """Whether the rows of an image are ordered by class."""
        return self.sort_result_type == "classid"

    def candidates(self, passed: Array, scores: Array) -> Array:
        """The boxes of a class whose scores have passed, the best `nms_top_k` in falling order."""
        numbers = np.flatnonzero(passed)
        order = numbers[best_first(scores[numbers])]
        return order if self.nms_top_k < 0 else order[: self.nms_top_k]

    def shapes(
        self, specs: Sequence[TensorSpec | None], layout: Mapping[str, str] = SHARED
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        """The three outputs of inputs that lie so."""
        sizes = agreed_sizes(self, specs, layout, {"4": Dimension(4, 4)})
        batches, classes, boxes = (
            sizes.get(name, DYNAMIC) for name in ("num_batches", "num_classes", "num_boxes")
        )
        assert specs[0] is not None
        kept = boxes.high
        if self.nms_top_k >= 0:
            kept = self.nms_top_k if kept is None else min(kept, self.nms_top_k)
        most = (Dimension(0, kept) * Dimension(0, classes.high)).high
        if self.keep_top_k >= 0:
            most = self.keep_top_k if most is None else min(most, self.keep_top_k)
        rows = Dimension(0, most) * Dimension(0, batches.high)
        return (
            TensorSpec(specs[0].element_type, PartialShape([rows, 6])),
            TensorSpec(self.output_type, PartialShape([rows, 1])),
            TensorSpec(self.output_type, PartialShape([batches])),
        )

    def selection(self, images: Sequence[Image], dtype: Any) -> tuple[Array, Array, Array]:
        """The three outputs: rows of the selected boxes, the places of these boxes, and the number
        of rows of each image.
        """
        rows = [
            _Rows.none(dtype),
            *(self._best_of_image(index, image) for index, image in enumerate(images)),
        ]
        counts = np.array([len(r.score) for r in rows[1:]], np.int64)
        chosen = _Rows(*(np.concatenate(columns) for columns in zip(*rows, strict=True)))
        if self.sort_result_across_batch and self.sort_result_type == "score":
            chosen = chosen.sorted_by(chosen.image, -chosen.score)
        elif self.sort_result_across_batch and self.sort_result_type == "classid":
            chosen = chosen.sorted_by(-chosen.score, chosen.image, chosen.number)
        outputs = np.concatenate(
            [chosen.number[:, np.newaxis].astype(dtype), chosen.score[:, np.newaxis], chosen.box],
            axis=1,
        )
        return outputs, chosen.place[:, np.newaxis], counts

    def _best_of_image(self, number: int, image: Image) -> _Rows:
        parts = [_Rows.none(image.scores.dtype)]
        for class_number, (boxes, scores, places) in enumerate(zip(*image, strict=True)):
            if class_number != self.background_class:
                taken, values = self.best_of_class(boxes, scores)
                count = np.ones(len(taken), np.int64)
                parts.append(
                    _Rows(number * count, class_number * count, values, places[taken], boxes[taken])
                )
        rows = _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        rows = rows.sorted_by(rows.number, -rows.score)
        if self.keep_top_k >= 0:
            rows = _Rows(*(column[: self.keep_top_k] for column in rows))
        return rows.sorted_by(-rows.score, rows.number) if self.classes_by_class() else rows


class _Rows(NamedTuple):
    """Rows of the output, by columns."""

    image: Array
    number: Array
    score: Array
    place: Array
    box: Array

    @staticmethod
    def none(dtype: Any) -> _Rows:
        nothing = np.zeros(0, np.int64)
        return _Rows(nothing, nothing, np.zeros(0, dtype), nothing, np.zeros((0, 4), dtype))

    def sorted_by(self, *keys: Array) -> _Rows:
        """The rows sorted by keys, the last key first; equal ones by class and place."""
        order = np.lexsort((self.place, self.number, *keys))
        return _Rows(*(column[order] for column in self))
