"""Internal operations: MulticlassNms and MatrixNms as two layers, of which the first counts the
rows.
"""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.found_sizes import counted
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, REAL, Field, Input, Output
from uncork.symbolic import Size, minimum, plain
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


class TakenOfClasses(Operation):
    """The inputs of MulticlassNms or MatrixNms to its outputs, of which the first two have room for
    all rows that there can be, `[capacity, 6]` and `[capacity, 1]`, and to how many rows there are.
    """

    type_name, opset = "TakenOfClasses", 0
    boxes = Input(REAL, "T")
    scores = Input(REAL, "T")
    rows = Output()
    places = Output()
    numbers = Output()
    count = Output()

    layer = Field[ClassSelection]()

    def __init__(self, layer: ClassSelection) -> None:
        super().__init__(layer=layer)

    def infer(self, boxes: TensorSpec, scores: TensorSpec) -> list[TensorSpec]:
        rows, places, numbers = self.layer.describe([boxes, scores, *self._absent()])
        capacity = self.capacity(scores)
        return [
            TensorSpec(rows.element_type, PartialShape([capacity, 6])),
            TensorSpec(places.element_type, PartialShape([capacity, 1])),
            numbers,
            TensorSpec(ElementType.i64, PartialShape([1])),
        ]

    def _absent(self) -> list[None]:
        """What stands for the inputs of a layer that this one does not have."""
        return [None] * (len(self.layer.inputs) - len(self.inputs))

    def capacity(self, scores: TensorSpec) -> Dimension:
        """The largest number of rows that there can be."""
        if scores.rank is None:
            return Dimension(0, None)
        batches, classes, boxes = scores.shape
        each = classes * _at_most(boxes, self.layer.nms_top_k)
        return batches * _at_most(each, self.layer.keep_top_k)

    def reference(self, boxes: Array, scores: Array) -> list[Array]:
        rows, places, numbers = self.layer.reference(boxes, scores, *self._absent())
        spec = TensorSpec(ElementType.f32, PartialShape(scores.shape))
        capacity = self.capacity(spec).static_size
        assert capacity is not None
        results: list[Array] = []
        for found in (rows, places):
            room = np.zeros((capacity, found.shape[1]), found.dtype)
            room[: len(found)] = found
            results.append(room)
        return [*results, numbers, np.array([len(rows)])]


def _at_most(size: Dimension, limit: int) -> Dimension:
    """The smaller one of a size and a limit, which is none below 0."""
    if limit < 0 or size.size is None:
        return size
    return Dimension.of(plain(minimum([Size.of(size.size), Size.of(limit)])))


class FirstDetections(Operation):
    """The first rows of two tensors, as many as `count` says, and the third tensor as it is."""

    type_name, opset = "FirstDetections", 0
    rows = Input(REAL, "T")
    places = Input(I32_I64, "I")
    numbers = Input(I32_I64, "I")
    count = Input(I32_I64)
    first_rows = Output("T")
    first_places = Output("I")
    same_numbers = Output("I")

    def infer(
        self, rows: TensorSpec, places: TensorSpec, numbers: TensorSpec, count: TensorSpec
    ) -> list[PartialShape]:
        number = counted(self, count, rows.shape[0])
        return [PartialShape([number, 6]), PartialShape([number, 1]), numbers.shape]

    def reference(self, rows: Array, places: Array, numbers: Array, count: Array) -> list[Array]:
        number = int(count[0])
        return [rows[:number], places[:number], numbers]
