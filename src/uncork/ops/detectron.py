"""The operations that Detectron models need beside others: ExperimentalDetectronDetectionOutput-6,
-PriorGridGenerator-6, -ROIFeatureExtractor-6 and -TopKROIs-6.

Pages: operation-specs/detection/experimental-detectron-detection-output-6, -prior-grid-generator-6,
-roi-feature-extractor-6, and operation-specs/sort/experimental-detectron-top-krois-6. Where a page
leaves rows undefined they are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.ops._common.boxes import best_first, touching_overlaps, without_overlap
from uncork.ops._common.proposals import moved
from uncork.ops._common.sequences import agreed_sizes
from uncork.ops._common.shapes import image_dims, suppose_pixels
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
    numbers,
)
from uncork.ops.proposal import whole
from uncork.ops.roi_align import ROIAlign3
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec

_FOUR = {"4": Dimension(4, 4)}


@register("ExperimentalDetectronDetectionOutput", 6)
class DetectronDetectionOutput6(Operation):
    """The best detections of an image: regions moved by the deltas of each class (see
    `_proposals.py`), divided by deltas_weights.

    Apart for each class but the first: regions with scores above score_threshold, without those
    that overlap a better one by more than nms_threshold, the best post_nms_count of them. Together:
    by class and falling score where there are no more than max_detections_per_image, else that many
    by falling score. Decided, as OpenVINO has it: boxes are cut at 0, not at the image's far ends
    (the page cuts there too); regions without area give nothing; class_agnostic_box_regression
    changes nothing.
    """

    rois = Input(REAL, "T")
    deltas = Input(REAL, "T")
    scores = Input(REAL, "T")
    im_info = Input(REAL, "T")
    boxes = Output("T")
    classes = Output(ElementType.i32)
    box_scores = Output("T")
    score_threshold = Attribute(number)
    nms_threshold = Attribute(number)
    num_classes = Attribute(integer, check=whole(1))
    post_nms_count = Attribute(integer, check=whole(0))
    max_detections_per_image = Attribute(integer, check=whole(0))
    class_agnostic_box_regression = Attribute(boolean, default=False)
    max_delta_log_wh = Attribute(number)
    deltas_weights: Attribute[tuple[float, ...]] = Attribute(
        numbers,
        check=lambda v: None if len(v) == 4 and all(w > 0 for w in v) else "4 positive numbers",
    )

    def infer(self, *specs: TensorSpec) -> tuple[PartialShape, PartialShape, PartialShape]:
        known = {str(n): Dimension(n, n) for n in (1, 3, 4, self.num_classes, 4 * self.num_classes)}
        layout = {
            "rois": "R, 4",
            "deltas": f"R, {4 * self.num_classes}",
            "scores": f"R, {self.num_classes}",
            "im_info": "1, 3",
        }
        agreed_sizes(self, specs, layout, known)
        most = self.max_detections_per_image
        return PartialShape([most, 4]), PartialShape([most]), PartialShape([most])

    def reference(
        self, rois: Array, deltas: Array, scores: Array, im_info: Array
    ) -> tuple[Array, Array, Array]:
        valid = (rois[:, 2] > rois[:, 0]) & (rois[:, 3] > rois[:, 1])
        weights = np.array(self.deltas_weights, deltas.dtype)
        boxes = moved(
            rois[:, np.newaxis],
            deltas.reshape(len(rois), self.num_classes, 4) / weights,
            1,
            self.max_delta_log_wh,
        )
        boxes = np.maximum(boxes - np.array([0, 0, 1, 1], boxes.dtype), 0)
        found: list[tuple[Any, int, int]] = []
        for label in range(1, self.num_classes if len(rois) else 1):
            candidates = np.flatnonzero(valid & (scores[:, label] > self.score_threshold))
            candidates = candidates[best_first(scores[candidates, label])]
            kept = without_overlap(
                boxes[candidates, label],
                self.nms_threshold,
                self.post_nms_count,
                1,
                touching_overlaps,
            )
            found += [(scores[place, label], label, place) for place in candidates[kept].tolist()]
        most = self.max_detections_per_image
        if len(found) > most:
            found = sorted(found, key=lambda row: (-row[0], row[2]))[:most]
        output = np.zeros((most, 4), boxes.dtype)
        labels, values = np.zeros(most, np.int32), np.zeros(most, scores.dtype)
        for row, (score, label, place) in enumerate(found):
            output[row], labels[row], values[row] = boxes[place, label], label, score
        return output, labels, values


@register("ExperimentalDetectronPriorGridGenerator", 6)
class DetectronPriorGridGenerator6(Operation):
    """`priors [P, 4]`, a feature map and an image, of which only height and width count, to the
    priors around each cell's center.

    Cell (y, x) has its center at ((y + 0.5) * step_y, (x + 0.5) * step_x); a step of 0 stands for
    image size / number of cells, h or w of 0 for the feature map's. A smaller grid than the feature
    map's fills the first rows of the output, one after the other.
    """

    priors = Input(REAL, "T")
    feature_map = Input(REAL, "T")
    im_data = Input(REAL, "T")
    grid = Output("T")
    flatten = Attribute(boolean, default=True)
    h = Attribute(integer, default=0, check=whole(0))
    w = Attribute(integer, default=0, check=whole(0))
    stride_x = Attribute(number, default=0.0, check=at_least(0))
    stride_y = Attribute(number, default=0.0, check=at_least(0))

    def infer(
        self, priors: TensorSpec, feature_map: TensorSpec, im_data: TensorSpec
    ) -> PartialShape:
        layout = {
            "priors": "P, 4",
            "feature_map": "N, C, H, W",
            "im_data": "N, image channels, image height, image width",
        }
        sizes = agreed_sizes(self, [priors, feature_map, im_data], layout, _FOUR)
        count, height, width = (sizes.get(name, DYNAMIC) for name in ("P", "H", "W"))
        for name, cells, limit in (("h", self.h, height), ("w", self.w, width)):
            fits = limit.covers(cells)
            self.require(
                fits,
                "attribute '{}': expected up to {} cells as the feature map {} has, got {}",
                name,
                limit,
                feature_map.shape,
                cells,
            )
        return (
            PartialShape([height * width * count, 4])
            if self.flatten
            else PartialShape([height, width, count, 4])
        )

    def reference(self, priors: Array, feature_map: Array, im_data: Array) -> Array:
        height, width = feature_map.shape[2:]
        rows, columns = self.h or height, self.w or width
        step_y = self.stride_y or im_data.shape[2] / max(1, rows)
        step_x = self.stride_x or im_data.shape[3] / max(1, columns)
        y, x = np.meshgrid(
            (np.arange(rows) + 0.5) * step_y, (np.arange(columns) + 0.5) * step_x, indexing="ij"
        )
        centers = np.stack([x, y, x, y], axis=-1).astype(priors.dtype)
        output = np.zeros((height * width * len(priors), 4), priors.dtype)
        output[: rows * columns * len(priors)] = (centers[:, :, np.newaxis] + priors).reshape(-1, 4)
        return output if self.flatten else output.reshape(height, width, len(priors), 4)


class Level(ROIAlign3):
    """A level of the pyramid: means of samples in regions. `aligned` moves a region by half a cell,
    and its sides are at least 1 in any case.
    """

    aligned = Attribute(boolean)

    def frame(self, box: Array) -> tuple[Any, Any, Any, Any]:
        kind = box.dtype.type
        left, top, right, bottom = box * kind(self.spatial_scale) - kind(0.5 if self.aligned else 0)
        return left, top, max(right - left, kind(1)), max(bottom - top, kind(1))


def level_of(size: Array) -> Array:
    """The level, before it is limited, of regions whose mean side is so many times 224."""
    return np.asarray(np.floor(2 + np.log2(size)))


@register("ExperimentalDetectronROIFeatureExtractor", 6)
class DetectronROIFeatureExtractor6(Operation):
    """ROIAlign of each region on the level of a pyramid that suits its size: `rois [R, 4]`, then
    images [1, C, H_l, W_l].

    level = floor(2 + log2(sqrt(width * height) / 224 + 1e-6)), between the first and the last
    Decided, as OpenVINO has it: a region without area has features of 0; the second output is
    `rois` as they are.
    """

    rois = Input(REAL, "T")
    pyramid = Input(REAL, "T", variadic=True)
    features = Output("T")
    ordered_rois = Output("T")
    output_size = Attribute(integer, check=whole(1))
    sampling_ratio = Attribute(integer, check=whole(0))
    pyramid_scales: Attribute[tuple[int, ...]] = Attribute(
        integers,
        check=lambda v: None if all(1 <= s < 2**31 for s in v) else "a list of positive numbers",
    )
    aligned = Attribute(boolean, default=False)

    def infer(self, rois: TensorSpec, *pyramid: TensorSpec) -> tuple[PartialShape, PartialShape]:
        count = agreed_sizes(self, [rois], {"rois": "R, 4"}, _FOUR).get("R", DYNAMIC)
        levels, scales = len(pyramid), len(self.pyramid_scales)
        self.require(
            levels <= scales,
            "expected 1 to {} levels of a pyramid, as many as 'pyramid_scales' at most, got {}",
            scales,
            levels,
        )
        channels = DYNAMIC
        for level in pyramid:
            image, own, *sides = image_dims(self, "pyramid", level)
            suppose_pixels(sides)
            self.require(
                image.agrees(1),
                "input 'pyramid': expected levels of a single image, got shape {}",
                level.shape,
            )
            channels = self.wanted(
                channels.merge(own),
                "input 'pyramid': expected {} channels, got shape {}",
                channels,
                level.shape,
            )
        return PartialShape([count, channels, self.output_size, self.output_size]), PartialShape(
            [count, 4]
        )

    def levels(self) -> list[Level]:
        """What is done on each level of the pyramid."""
        return [
            Level(
                pooled_h=self.output_size,
                pooled_w=self.output_size,
                sampling_ratio=self.sampling_ratio,
                spatial_scale=1 / scale,
                mode="avg",
                aligned=self.aligned,
            )
            for scale in self.pyramid_scales
        ]

    def reference(self, rois: Array, *pyramid: Array) -> tuple[Array, Array]:
        size, channels = self.output_size, pyramid[0].shape[1]
        features = np.zeros((len(rois), channels, size, size), rois.dtype)
        area = (rois[:, 2] - rois[:, 0]) * (rois[:, 3] - rois[:, 1])
        exact = level_of(np.sqrt(np.maximum(area, 0)) / 224 + rois.dtype.type(1e-6))
        levels = np.where(area > 0, np.clip(np.nan_to_num(exact), 0, len(pyramid) - 1), -1).astype(
            np.int64
        )
        for level, (image, align) in enumerate(zip(pyramid, self.levels(), strict=False)):
            here = levels == level
            features[here] = align.reference(image, rois[here], np.zeros(int(here.sum()), np.int64))
        return features, rois


@register("ExperimentalDetectronTopKROIs", 6)
class DetectronTopKROIs6(Operation):
    """The max_rois of `input_rois [R, 4]` with the highest `rois_probs [R]`, best first, the first
    of equal ones first.
    """

    input_rois = Input(REAL, "T")
    rois_probs = Input(REAL, "T")
    best = Output("T")
    max_rois = Attribute(integer, default=0, check=whole(0))

    def infer(self, *specs: TensorSpec) -> PartialShape:
        agreed_sizes(self, specs, {"input_rois": "R, 4", "rois_probs": "R"}, _FOUR)
        return PartialShape([self.max_rois, 4])

    def reference(self, input_rois: Array, rois_probs: Array) -> Array:
        output = np.zeros((self.max_rois, 4), input_rois.dtype)
        best = input_rois[best_first(rois_probs)[: self.max_rois]]
        output[: len(best)] = best
        return output
