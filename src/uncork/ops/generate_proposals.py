"""GenerateProposals-9 and ExperimentalDetectronGenerateProposalsSingleImage-6: the best regions
that given anchors and deltas make.

Anchors are moved by their deltas (see `_proposals.py`; no size grows more than 1000 / 16 times) and
cut to the image. Of the pre_nms_count boxes with the highest scores those of less than min_size are
left out, then those that overlap a better one by more than nms_threshold, then what is past
post_nms_count.

Pages: operation-specs/detection/generate-proposals-9,
experimental-detectron-generate-proposals-single-image-6. Decided where they are silent:

- nms_eta works as in MulticlassNms: with each box taken a threshold above 0.5 falls;
- min_size is multiplied with the scale of the image in GenerateProposals, not in the other, as in
  OpenVINO;
- boxes that are too small are left out after the choice by score in GenerateProposals, as its page
  says. In the other they stay with a score of 0, behind all others, as OpenVINO has it (its page
  leaves them out before);
- boxes that are not normalized, and all of the other operation, are of pixels, both ends of which
  belong to the box; only for their overlap the other operation does not count the last pixel;
- equal scores: see `selected_first`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.ops._common.boxes import touching_overlaps, without_overlap
from uncork.ops._common.proposals import inside, large_enough, moved, selected_first
from uncork.ops._common.sequences import Sizes, agreed_sizes
from uncork.ops._common.shapes import is_one_of
from uncork.ops._operation import Operation, register
from uncork.ops._ports import REAL, Attribute, Input, Output, boolean, index_type, integer, number
from uncork.ops.proposal import whole
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec

#: The largest logarithm by which a box grows.
LARGEST = math.log(1000 / 16)


class _Proposals(Operation):
    im_info = Input(REAL, "T")
    anchors = Input(REAL, "T")
    deltas = Input(REAL, "T")
    scores = Input(REAL, "T")
    min_size = Attribute(number, check=lambda v: None if v >= 0 else "a number of at least 0")
    nms_threshold = Attribute(number)
    pre_nms_count = Attribute(integer, check=whole(0))
    post_nms_count = Attribute(integer, check=whole(0))

    def sizes(self, layout: dict[str, str], specs: tuple[TensorSpec, ...]) -> Sizes:
        """The sizes that the shapes of the inputs agree on, by the letters of `layout`. A first
        pass finds them, a second one checks what the first saw before a size was known.
        """
        names = {"A": DYNAMIC, "3": Dimension(3, 3), "4": Dimension(4, 4)}
        return agreed_sizes(self, specs, layout, agreed_sizes(self, specs, layout, names))

    def in_order(
        self, anchors: Array, deltas: Array, scores: Array, pixel: int, info: Array
    ) -> tuple[Array, Array]:
        """Boxes [n, 4] and scores [n] of one image from deltas [4 A, H, W] and scores [A, H, W], in
        the order of anchors [n, 4].
        """
        count, rows, columns = scores.shape
        ordered = deltas.reshape(count, 4, rows, columns).transpose(2, 3, 0, 1).reshape(-1, 4)
        boxes = moved(anchors, ordered, pixel, LARGEST)
        boxes[:, 2:] -= boxes.dtype.type(pixel)
        return inside(boxes, info[1] - pixel, info[0] - pixel), scores.transpose(1, 2, 0).reshape(
            -1
        )


@register("GenerateProposals", 9)
class GenerateProposals9(_Proposals):
    """`im_info [N, 3 or 4]`, `anchors [H, W, A, 4]`, `deltas [N, 4 A, H, W]`, `scores [N, A, H,
    W]`.
    """

    rpnrois = Output("T")
    rpnscores = Output("T")
    rpnroisnum = Output()
    normalized = Attribute(boolean, default=True)
    nms_eta = Attribute(
        number, default=1.0, check=lambda v: None if 0 <= v <= 1 else "a number from 0 to 1"
    )
    roi_num_type = index_type()

    def infer(self, *specs: TensorSpec) -> tuple[TensorSpec, ...]:
        layout = {
            "im_info": "N, numbers",
            "anchors": "H, W, A, 4",
            "deltas": "N, 4 * A, H, W",
            "scores": "N, A, H, W",
        }
        sizes = self.sizes(layout, specs)
        info = sizes.get("numbers", DYNAMIC)
        self.require(
            is_one_of(info, 3, 4),
            "input 'im_info': expected 3 or 4 numbers an image, got {}",
            specs[0].shape,
        )
        images = sizes.get("N", DYNAMIC)
        most = (sizes.get("H", DYNAMIC) * sizes.get("W", DYNAMIC) * sizes["A"]).high
        kept = min(n for n in (most, self.pre_nms_count, self.post_nms_count) if n is not None)
        rows = Dimension(0, kept) * Dimension(0, images.high)
        element_type = specs[0].element_type
        return (
            TensorSpec(element_type, PartialShape([rows, 4])),
            TensorSpec(element_type, PartialShape([rows])),
            TensorSpec(self.roi_num_type, PartialShape([images])),
        )

    def reference(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, ...]:
        pixel = 0 if self.normalized else 1
        regions, found_scores = [np.zeros((0, 4), scores.dtype)], [np.zeros(0, scores.dtype)]
        for info, image_deltas, image_scores in zip(im_info, deltas, scores, strict=True):
            boxes, values = self.in_order(
                anchors.reshape(-1, 4), image_deltas, image_scores, pixel, info
            )
            order = selected_first(values, self.pre_nms_count)
            smallest = info[2:] * info.dtype.type(self.min_size)  # of height and width, or of both
            order = order[large_enough(boxes[order], pixel, smallest[-1], smallest[0])]
            chosen = without_overlap(
                boxes[order],
                self.nms_threshold,
                self.post_nms_count,
                pixel,
                touching_overlaps,
                self.nms_eta,
            )
            regions.append(boxes[order[chosen]])
            found_scores.append(values[order[chosen]])
        counts = np.array([len(r) for r in regions[1:]], np.int64)
        return np.concatenate(regions), np.concatenate(found_scores), counts


@register("ExperimentalDetectronGenerateProposalsSingleImage", 6)
class GenerateProposalsSingleImage6(_Proposals):
    """`im_info [3]`, `anchors [H * W * A, 4]`, `deltas [4 A, H, W]`, `scores [A, H, W]`; what is
    not found is 0.
    """

    rois = Output("T")
    roi_scores = Output("T")

    def infer(self, *specs: TensorSpec) -> Any:
        sizes = self.sizes(
            {"im_info": "3", "anchors": "count, 4", "deltas": "4 * A, H, W", "scores": "A, H, W"},
            specs,
        )
        boxes = sizes.get("H", DYNAMIC) * sizes.get("W", DYNAMIC) * sizes["A"]
        count = sizes.get("count", DYNAMIC)
        self.require(
            count.agrees(boxes),
            "input 'anchors': expected {} boxes, H * W * A of the scores, got {}",
            boxes,
            count,
        )
        return PartialShape([self.post_nms_count, 4]), PartialShape([self.post_nms_count])

    def reference(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, Array]:
        boxes, values = self.in_order(anchors, deltas, scores, 1, im_info)
        values = np.where(large_enough(boxes, 1, self.min_size, self.min_size), values, 0)
        order = selected_first(values, self.pre_nms_count)
        taken = order[
            without_overlap(
                boxes[order], self.nms_threshold, self.post_nms_count, 0, touching_overlaps
            )
        ]
        rois = np.zeros((self.post_nms_count, 4), boxes.dtype)
        roi_scores = np.zeros(self.post_nms_count, values.dtype)
        rois[: len(taken)], roi_scores[: len(taken)] = boxes[taken], values[taken]
        return rois, roi_scores
