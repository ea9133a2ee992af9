"""Internal operations: GenerateProposals as two layers, of which the first counts the regions."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.found_sizes import counted
from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, REAL, Field, Input, Output
from uncork.ops.generate_proposals import GenerateProposals9
from uncork.symbolic import Size, minimum, plain
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


class TakenRegions(Operation):
    """The inputs of GenerateProposals to its outputs, of which the first two have room for all
    regions that there can be, `[capacity, 4]` and `[capacity]`, and to how many regions there are.
    """

    type_name, opset = "TakenRegions", 0
    im_info = Input(REAL, "T")
    anchors = Input(REAL, "T")
    deltas = Input(REAL, "T")
    scores = Input(REAL, "T")
    rois = Output()
    roi_scores = Output()
    numbers = Output()
    count = Output()

    layer = Field[GenerateProposals9]()

    def __init__(self, layer: GenerateProposals9) -> None:
        super().__init__(layer=layer)

    def infer(self, *specs: TensorSpec) -> list[TensorSpec]:
        rois, scores, numbers = self.layer.describe(specs)
        capacity = self.capacity(specs[3])
        return [
            TensorSpec(rois.element_type, PartialShape([capacity, 4])),
            TensorSpec(scores.element_type, PartialShape([capacity])),
            numbers,
            TensorSpec(ElementType.i64, PartialShape([1])),
        ]

    def capacity(self, scores: TensorSpec) -> Dimension:
        """The largest number of regions that there can be."""
        if scores.rank is None:
            return Dimension(0, None)
        images, anchors, rows, columns = scores.shape
        boxes, most = (
            anchors * rows * columns,
            min(self.layer.pre_nms_count, self.layer.post_nms_count),
        )
        if boxes.size is None:
            return images * most
        return images * Dimension.of(plain(minimum([Size.of(boxes.size), Size.of(most)])))

    def reference(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> list[Array]:
        rois, values, numbers = self.layer.reference(im_info, anchors, deltas, scores)
        spec = TensorSpec(ElementType.f32, PartialShape(scores.shape))
        capacity = self.capacity(spec).static_size
        assert capacity is not None
        room, room_scores = np.zeros((capacity, 4), rois.dtype), np.zeros(capacity, values.dtype)
        room[: len(rois)], room_scores[: len(rois)] = rois, values
        return [room, room_scores, numbers, np.array([len(rois)])]


class FirstRegions(Operation):
    """The first rows of two tensors, as many as `count` says, and the third tensor as it is."""

    type_name, opset = "FirstRegions", 0
    rois = Input(REAL, "T")
    roi_scores = Input(REAL, "T")
    numbers = Input(I32_I64, "I")
    count = Input(I32_I64)
    first_rois = Output("T")
    first_scores = Output("T")
    same_numbers = Output("I")

    def infer(
        self, rois: TensorSpec, roi_scores: TensorSpec, numbers: TensorSpec, count: TensorSpec
    ) -> list[PartialShape]:
        number = counted(self, count, rois.shape[0])
        return [PartialShape([number, 4]), PartialShape([number]), numbers.shape]

    def reference(
        self, rois: Array, roi_scores: Array, numbers: Array, count: Array
    ) -> list[Array]:
        number = int(count[0])
        return [rois[:number], roi_scores[:number], numbers]
