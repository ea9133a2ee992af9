"""Internal operations: NonMaxSuppression as two layers, of which the first counts the boxes."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.found_sizes import counted
from uncork.ops._common.suppression import Suppression
from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, INTEGER, REAL, Field, Input, Output
from uncork.symbolic import Size, minimum, plain
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


class TakenBoxes(Operation):
    """The inputs of NonMaxSuppression to `rows [capacity, 3]`, `scores [capacity, 3]` and how many
    rows of these are boxes taken.
    """

    type_name, opset = "TakenBoxes", 0
    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")
    max_output_boxes_per_class = Input(INTEGER, optional=True)
    iou_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    score_threshold = Input(REAL, "T_THRESHOLDS", optional=True)
    soft_nms_sigma = Input(REAL, "T_THRESHOLDS", optional=True)
    rows = Output()
    row_scores = Output()
    count = Output()

    layer = Field[Suppression]()
    limit = Field[int | None]()

    def __init__(self, layer: Suppression, limit: int | None) -> None:
        """`limit` is max_output_boxes_per_class where that is known before any call."""
        super().__init__(layer=layer, limit=limit)

    def infer(
        self,
        boxes: TensorSpec,
        scores: TensorSpec,
        maximum: TensorSpec | None,
        iou_threshold: TensorSpec | None,
        score_threshold: TensorSpec | None,
        soft_nms_sigma: TensorSpec | None,
    ) -> list[TensorSpec]:
        given = [boxes, scores, maximum, iou_threshold, score_threshold, soft_nms_sigma]
        self.layer.infer(*given[: len(self.layer.inputs)])
        capacity = PartialShape([self.capacity(scores), 3])
        return [
            TensorSpec(self.layer.output_type, capacity),
            TensorSpec(ElementType.f32, capacity),
            TensorSpec(ElementType.i64, PartialShape([1])),
        ]

    def capacity(self, scores: TensorSpec) -> Dimension:
        """The largest number of rows that there can be."""
        if scores.rank is None:
            return Dimension(0, None)
        batches, classes, each = scores.shape
        if self.limit is not None and each.size is not None:
            each = Dimension.of(plain(minimum([Size.of(each.size), Size.of(max(0, self.limit))])))
        return batches * classes * each

    def reference(self, *arrays: Array | None) -> list[Array]:
        boxes, scores, *others = arrays
        assert boxes is not None and scores is not None
        results = self.layer.reference(boxes, scores, *others[: len(self.layer.inputs) - 2])
        rows = results if isinstance(results, np.ndarray) else results[0]
        each = scores.shape[2] if self.limit is None else min(scores.shape[2], max(0, self.limit))
        found, values = (
            np.zeros((scores.shape[0] * scores.shape[1] * each, 3), t)
            for t in (np.int64, scores.dtype)
        )
        found[: len(rows)] = rows
        if isinstance(results, np.ndarray):
            values[: len(rows)] = rows
            values[: len(rows), 2] = scores[rows[:, 0], rows[:, 1], rows[:, 2]]
        else:
            values[: len(rows)] = results[1]
        return [found, values, np.array([len(rows)])]


class FirstRows(Operation):
    """The first rows of two tensors, as many as `count` says, and `count` itself in the type of the
    first.
    """

    type_name, opset = "FirstRows", 0
    rows = Input(I32_I64, "I")
    scores = Input(REAL, "T")
    count = Input(I32_I64)
    first_rows = Output("I")
    first_scores = Output("T")
    number = Output("I")

    def infer(self, rows: TensorSpec, scores: TensorSpec, count: TensorSpec) -> list[PartialShape]:
        number = counted(self, count, rows.shape[0])
        return [PartialShape([number, 3]), PartialShape([number, 3]), PartialShape([1])]

    def reference(self, rows: Array, scores: Array, count: Array) -> list[Array]:
        number = int(count[0])
        return [rows[:number], scores[:number], count]
