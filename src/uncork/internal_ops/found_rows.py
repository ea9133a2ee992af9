"""Internal operations: layers that choose boxes, each as two layers, of which the first counts
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from uncork.internal_ops.found_sizes import counted
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops._common.suppression import Suppression, single
from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, INTEGER, REAL, Field, Input, Output
from uncork.ops.generate_proposals import GenerateProposals9
from uncork.symbolic import Size, minimum, plain
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec

Given = TypeVar("Given", TensorSpec, Array)


class TakenRows(Operation):
    """The inputs of a layer to its three outputs, of which the first two have room for all rows
    that there can be, and to how many rows there are.
    """

    rows = Output()
    values = Output()
    numbers = Output()
    count = Output()

    layer: Any

    def capacity(self, scores: PartialShape) -> Dimension:
        """The largest number of rows that there can be for scores of this shape."""
        raise NotImplementedError

    def described(self, *specs: TensorSpec | None) -> Sequence[TensorSpec]:
        """The three outputs of the layer."""
        outputs: Sequence[TensorSpec] = self.layer.describe(specs)
        return outputs

    def found(self, *arrays: Array | None) -> Sequence[Array]:
        """The values of these outputs."""
        outputs: Sequence[Array] = self.layer.reference(*arrays)
        return outputs

    def infer(self, *specs: TensorSpec | None) -> list[TensorSpec]:
        rows, values, numbers = self.described(*self._for_layer(specs))
        scores = self._scores(specs).shape
        capacity = Dimension(0, None) if scores.rank is None else self.capacity(scores)
        return [
            *(
                TensorSpec(spec.element_type, PartialShape([capacity, *spec.shape.dims[1:]]))
                for spec in (rows, values)
            ),
            numbers,
            TensorSpec(ElementType.i64, PartialShape([1])),
        ]

    def reference(self, *arrays: Array | None) -> list[Array]:
        rows, values, numbers = self.found(*self._for_layer(arrays))
        capacity = int(self.capacity(PartialShape(self._scores(arrays).shape)))
        rooms = [np.zeros((capacity, *found.shape[1:]), found.dtype) for found in (rows, values)]
        for room, found in zip(rooms, (rows, values), strict=True):
            room[: len(found)] = found
        return [*rooms, numbers, np.array([len(rows)])]

    def _for_layer(self, given: Sequence[Given | None]) -> list[Given | None]:
        """One for each input of the layer, which may have other optional ones."""
        taken = len(self.layer.inputs)
        all_given = list(given)
        return (all_given + [None] * taken)[:taken]

    def _scores(self, given: Sequence[Given | None]) -> Given:
        position = next(n for n, port in enumerate(self.inputs) if port.name == "scores")
        scores = given[position]
        assert scores is not None
        return scores


class TakenBoxes(TakenRows):
    """NonMaxSuppression; of its versions without scores and a count these all the same."""

    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")
    max_output_boxes_per_class = Input(INTEGER, optional=True)
    iou_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    score_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    soft_nms_sigma = Input(REAL, "T_THRESHOLDS", optional=True)

    layer = Field[Suppression]()
    #: max_output_boxes_per_class where that is known before any call.
    limit = Field[int | None]()

    def described(self, *specs: TensorSpec | None) -> Sequence[TensorSpec]:
        self.layer.infer(*specs)
        return self.layer.checked(*specs)

    def found(self, *arrays: Array | None) -> Sequence[Array]:
        boxes, scores, maximum, overlap, least, sigma = (*arrays, None)[:6]
        assert boxes is not None and scores is not None
        return self.layer.selected(boxes, scores, maximum, overlap, least, single(sigma))

    def capacity(self, scores: PartialShape) -> Dimension:
        batches, classes, each = scores
        return batches * classes * _at_most(each, self.limit)


class TakenOfClasses(TakenRows):
    """MulticlassNms and MatrixNms, whose classes share boxes."""

    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")

    layer = Field[ClassSelection]()

    def capacity(self, scores: PartialShape) -> Dimension:
        batches, classes, boxes = scores
        top, keep = (
            None if limit < 0 else limit for limit in (self.layer.nms_top_k, self.layer.keep_top_k)
        )
        return batches * _at_most(classes * _at_most(boxes, top), keep)


class TakenRegions(TakenRows):
    """GenerateProposals."""

    im_info = Input(REAL, "T")
    anchors = Input(REAL, "T")
    deltas = Input(REAL, "T")
    scores = Input(REAL, "T")

    layer = Field[GenerateProposals9]()

    def capacity(self, scores: PartialShape) -> Dimension:
        images, anchors, rows, columns = scores
        most = min(self.layer.pre_nms_count, self.layer.post_nms_count)
        return images * _at_most(anchors * rows * columns, most)


def _at_most(size: Dimension, limit: int | None) -> Dimension:
    """The smaller one of a size and a limit, which is 0 where it is below; None is no limit."""
    if limit is None:
        return size
    limit = max(0, limit)
    if size.size is None:
        return Dimension(
            min(size.low, limit), limit if size.high is None else min(size.high, limit)
        )
    return Dimension.of(plain(minimum([Size.of(size.size), Size.of(limit)])))


class FirstRows(Operation):
    """The first rows of two tensors, as many as `count` says, and the third tensor as it is."""

    rows = Input(REAL | I32_I64, "R")
    values = Input(REAL | I32_I64, "V")
    numbers = Input(I32_I64, "I")
    count = Input(I32_I64)
    first_rows = Output("R")
    first_values = Output("V")
    same_numbers = Output("I")

    def infer(
        self, rows: TensorSpec, values: TensorSpec, numbers: TensorSpec, count: TensorSpec
    ) -> list[PartialShape]:
        number = counted(self, count, rows.shape[0])
        first = [PartialShape([number, *spec.shape.dims[1:]]) for spec in (rows, values)]
        return [*first, numbers.shape]

    def reference(self, rows: Array, values: Array, numbers: Array, count: Array) -> list[Array]:
        number = int(count[0])
        return [rows[:number], values[:number], numbers]
