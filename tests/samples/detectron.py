"""The operations of Detectron models. Hand work on small boxes; the rest by loops over regions,
classes and cells.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._proposals import apart_from_better, distinct_scores, f32, moved_box
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.detectron import (
    DetectronDetectionOutput6,
    DetectronPriorGridGenerator6,
    DetectronROIFeatureExtractor6,
    DetectronTopKROIs6,
)
from uncork.types import ElementType

UNSET = "OpenVINO leaves what it does not write uninitialised"


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def wide(array: Any, element_type: ElementType) -> np.ndarray:
    return storage.encode(
        np.asarray(array, np.float64 if element_type is ElementType.f64 else np.float32),
        element_type,
    )


# ---- ExperimentalDetectronDetectionOutput

# Of pixels: A and B are 5 x 3 and share 12 of 18; C lies apart.
A, B, C = [0, 0, 4, 2], [1, 0, 5, 2], [8, 0, 12, 2]
REGIONS, INFO = rows(A, B, C), rows([50, 100, 1])
CONFIDENCE = rows([0.5, 0.25, 0.125], [0.125, 0.75, 0.5], [0.25, 0.5, 0.75])
STILL = np.zeros((3, 12), np.float32)
OUTPUT = {
    "score_threshold": 0.1, "nms_threshold": 0.5, "num_classes": 3, "post_nms_count": 9,
    "max_detections_per_image": 5, "max_delta_log_wh": 1.0, "deltas_weights": [1.0, 1.0, 1.0, 1.0],
}  # fmt: skip


def found(*detections: tuple[float, int, list[float]], count: int = 5) -> list[np.ndarray]:
    """Boxes, classes and scores, zeros behind the last."""
    boxes, classes, scores = (
        np.zeros((count, 4), "f4"),
        np.zeros(count, "i4"),
        np.zeros(count, "f4"),
    )
    for place, (score, label, box) in enumerate(detections):
        boxes[place], classes[place], scores[place] = box, label, score
    return [boxes, classes, scores]


def region(*deltas: float, box: list[float] | None = None) -> list[np.ndarray]:
    """One region and one class beside the background."""
    return [rows(box or C), rows([9] * 4 + list(deltas)), rows([0.9, 0.5]), INFO]


ONE = {**OUTPUT, "num_classes": 2, "max_detections_per_image": 1}
DETECTIONS = [
    Sample(
        "by class and score",
        [REGIONS, STILL, CONFIDENCE, INFO],
        found((0.75, 1, B), (0.5, 1, C), (0.75, 2, C), (0.5, 2, B)),
        OUTPUT,
    ),
    Sample(
        "a higher threshold",
        [REGIONS, STILL, CONFIDENCE, INFO],
        found((0.75, 1, B), (0.5, 1, C), (0.25, 1, A), (0.75, 2, C), (0.5, 2, B)),
        {**OUTPUT, "nms_threshold": 0.7, "score_threshold": 0.125},
    ),
    Sample(
        "too many: the best by score, of equal ones the first region",
        [REGIONS, STILL, CONFIDENCE, INFO],
        found((0.75, 1, B), (0.75, 2, C), (0.5, 2, B), count=3),
        {**OUTPUT, "max_detections_per_image": 3},
    ),
    Sample(
        "one of each class",
        [REGIONS, STILL, CONFIDENCE, INFO],
        found((0.75, 1, B), (0.75, 2, C)),
        {**OUTPUT, "post_nms_count": 1},
    ),
    Sample(
        "scores above the threshold only",
        [REGIONS, STILL, CONFIDENCE, INFO],
        found((0.75, 1, B), (0.75, 2, C)),
        {**OUTPUT, "score_threshold": 0.5},
    ),
    # The center of C is 8 + 2.5 and its size 5.
    Sample("moved", region(0.2, 1, 0, 0), found((0.5, 1, [9, 3, 13, 5]), count=1), ONE),
    Sample(
        "weights of deltas",
        region(2, 5, math.log(2) * 4, 0),
        found((0.5, 1, [6.5, 3, 15.5, 5]), count=1),
        {**ONE, "deltas_weights": [10.0, 5.0, 4.0, 1.0]},
    ),
    Sample(
        "grown up to a limit",
        region(0, 1, 9, 0),
        found((0.5, 1, [5.5, 3, 14.5, 5]), count=1),
        {**ONE, "max_delta_log_wh": math.log(2)},
    ),
    Sample(
        "cut at 0, not at the far end",
        region(-3, 99, 0, 0),
        found((0.5, 1, [0, 297, 0, 299]), count=1),
        ONE,
    ),
    Sample("no area, no detection", region(0, 0, 0, 0, box=[3, 0, 3, 9]), found(count=1), ONE),
    Sample(
        "nothing but background",
        [REGIONS, STILL[:, :4], CONFIDENCE[:, :1], INFO],
        found(),
        {**OUTPUT, "num_classes": 1},
    ),
    Sample(
        "no regions",
        [REGIONS[:0], STILL[:0], CONFIDENCE[:0], INFO],
        found(),
        OUTPUT,
        openvino=UNSET,
    ),
]
DETECTION_REFUSALS = [
    Refusal(
        "other regions",
        [REGIONS, STILL[:2], CONFIDENCE, INFO],
        r"'deltas': expected \[R = 3, 12 = 12\], got \[2,12\]",
        OUTPUT,
    ),
    Refusal(
        "other classes",
        [REGIONS, STILL, CONFIDENCE[:, :2], INFO],
        r"'scores': expected \[R = 3, 3 = 3\], got \[3,2\]",
        OUTPUT,
    ),
    Refusal(
        "four numbers of the image",
        [REGIONS, STILL, CONFIDENCE, rows([1, 2, 3, 4])],
        r"'im_info': expected \[1 = 1, 3 = 3\], got \[1,4\]",
        OUTPUT,
    ),
    Refusal(
        "weights",
        [REGIONS, STILL, CONFIDENCE, INFO],
        "'deltas_weights': expected 4 positive numbers",
        {**OUTPUT, "deltas_weights": [1.0, 1.0, 0.0, 1.0]},
    ),
    Refusal(
        "no classes",
        [REGIONS, STILL, CONFIDENCE, INFO],
        "'num_classes': expected a number from 1 to",
        {**OUTPUT, "num_classes": 0},
    ),
]


@st.composite
def detection_cases(draw: st.DrawFn) -> Case:
    count, classes = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    element_type = ElementType.parse(draw(st.sampled_from(FLOATS)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low = generator.integers(0, 6, (count, 2))
    deltas = generator.integers(-2, 3, (count, classes, 4)) / 4
    deltas[..., 2:] = 0
    inputs = [
        np.concatenate([low, low + generator.integers(-1, 7, low.shape)], axis=1),
        deltas.reshape(count, 4 * classes),
    ]
    inputs += [distinct_scores(count * classes, generator).reshape(count, classes), [[9, 9, 1]]]
    attributes = {
        "score_threshold": draw(st.sampled_from([0.0, 0.05])),
        # Values that no ratio of small areas is just beside of once they are rounded.
        "nms_threshold": draw(st.sampled_from([0.26, 0.51])),
        "num_classes": classes,
        "post_nms_count": draw(st.integers(0, 3)),
        "max_detections_per_image": draw(st.integers(0, 5)),
        "class_agnostic_box_regression": draw(st.booleans()),
        "max_delta_log_wh": 1.0,
        "deltas_weights": draw(st.sampled_from([[1.0] * 4, [2.0, 1.0, 1.0, 1.0]])),
    }
    return Case([wide(a, element_type) for a in inputs], attributes, [element_type.name] * 4)


def detection_loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    rois, deltas, scores, _ = (
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    )
    everything = []
    for label in range(1, at["num_classes"]):
        boxes = {}
        for r, roi in enumerate(rois.tolist()):
            delta = [
                d / w
                for d, w in zip(
                    deltas[r, 4 * label : 4 * label + 4], at["deltas_weights"], strict=True
                )
            ]
            box = moved_box(roi, delta, 1, at["max_delta_log_wh"])
            if roi[2] > roi[0] and roi[3] > roi[1] and scores[r, label] > at["score_threshold"]:
                boxes[r] = [max(0.0, v) for v in (box[0], box[1], box[2] - 1, box[3] - 1)]
        order = sorted(boxes, key=lambda r: -scores[r, label])
        everything += [
            (scores[r, label], label, boxes[r])
            for r in apart_from_better(boxes, order, at["nms_threshold"], at["post_nms_count"], 1)
        ]
    most = at["max_detections_per_image"]
    if len(everything) > most:
        everything = sorted(everything, key=lambda row: -row[0])[:most]
    return found(*everything, count=most)


# ---- ExperimentalDetectronPriorGridGenerator

PRIORS = rows([-1, -2, 1, 2], [-4, -3, 4, 3])
MAP, PICTURE = np.zeros((1, 8, 1, 2), "f4"), np.zeros((1, 3, 20, 80), "f4")


def grid(*centers: tuple[float, float]) -> np.ndarray:
    return np.concatenate([PRIORS + rows([x, y, x, y]) for x, y in centers])


GRIDS = [
    Sample("steps from the image", [PRIORS, MAP, PICTURE], [grid((20, 10), (60, 10))]),
    Sample(
        "steps that are given",
        [PRIORS, MAP, PICTURE],
        [grid((4, 1), (12, 1))],
        {"stride_x": 8.0, "stride_y": 2.0},
    ),
    Sample(
        "one step that is given",
        [PRIORS, MAP, PICTURE],
        [grid((4, 10), (12, 10))],
        {"stride_x": 8.0},
    ),
    Sample(
        "not flat",
        [PRIORS, MAP, PICTURE],
        [grid((20, 10), (60, 10)).reshape(1, 2, 2, 4)],
        {"flatten": False},
    ),
    Sample("rows first", [PRIORS, MAP.swapaxes(2, 3).copy(), PICTURE], [grid((40, 5), (40, 15))]),
    Sample(
        "fewer cells, wider steps",
        [PRIORS, MAP, PICTURE],
        [np.concatenate([grid((40, 10)), np.zeros((2, 4), "f4")])],
        {"w": 1},
        openvino=UNSET,
    ),
    Sample("no priors", [PRIORS[:0], MAP, PICTURE], [PRIORS[:0]]),
    Sample(
        "the page's shapes",
        [
            rows([0] * 4, [1] * 4, [2] * 4),
            np.zeros((1, 256, 25, 42), "f4"),
            np.zeros((1, 3, 800, 1344), "f4"),
        ],
        [
            np.array(
                [
                    [x * 32 + 16 + p, y * 32 + 16 + p] * 2
                    for y in range(25)
                    for x in range(42)
                    for p in range(3)
                ],
                "f4",
            )
        ],
        {"stride_x": 32.0, "stride_y": 32.0},
    ),
]
GRID_REFUSALS = [
    Refusal(
        "priors of 5 numbers",
        [np.zeros((2, 5), "f4"), MAP, PICTURE],
        r"'priors': expected \[P = \?, 4 = 4\], got \[2,5\]",
    ),
    Refusal(
        "a feature map of rank 3",
        [PRIORS, MAP[0], PICTURE],
        r"'feature_map': expected \[N = \?, .*, got \[8,1,2\]",
    ),
    Refusal(
        "images of another batch",
        [PRIORS, MAP, np.tile(PICTURE, (2, 1, 1, 1))],
        "'im_data': expected .N = 1, .* got .2,3,20,80.",
    ),
    Refusal(
        "more cells than there are",
        [PRIORS, MAP, PICTURE],
        "'w': expected up to 2 cells as the feature map .1,8,1,2. has, got 3",
        {"w": 3},
    ),
    Refusal(
        "negative step",
        [PRIORS, MAP, PICTURE],
        "'stride_x': expected at least 0, got -1",
        {"stride_x": -1.0},
    ),
]


@st.composite
def grid_cases(draw: st.DrawFn) -> Case:
    priors, name = draw(arrays((draw(st.integers(0, 3)), 4), FLOATS))
    sizes = [
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 9)),
    ]
    maps = [draw(arrays((1, 1, *size), (name,)))[0] for size in (sizes[:2], sizes[2:])]
    attributes = {
        "flatten": draw(st.booleans()),
        "stride_x": draw(st.sampled_from([0.0, 2.5])),
        "stride_y": draw(st.sampled_from([0.0, 1.5])),
    }
    attributes |= {"h": draw(st.integers(0, sizes[0])), "w": draw(st.integers(0, sizes[1]))}
    return Case([priors, *maps], attributes, [name] * 3)


def grid_loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    priors = storage.decode(case.inputs[0], case.types[0]).astype(float)
    (height, width), (image_height, image_width) = (a.shape[2:] for a in case.inputs[1:])
    down, across = at["h"] or height, at["w"] or width
    boxes = []
    for y, x, prior in itertools.product(range(down), range(across), priors):
        center = [
            (x + 0.5) * (at["stride_x"] or image_width / across),
            (y + 0.5) * (at["stride_y"] or image_height / down),
        ] * 2
        boxes.append([p + c for p, c in zip(prior, center, strict=True)])
    boxes += [[0.0] * 4] * (height * width * len(priors) - len(boxes))
    shape = (-1, 4) if at["flatten"] else (height, width, len(priors), 4)
    return [
        np.array(boxes, float)
        .reshape(len(boxes), 4)
        .reshape(shape if boxes else (*([0] if at["flatten"] else shape[:3]), 4))
    ]


# ---- ExperimentalDetectronROIFeatureExtractor

# A level of ones and one of twos; 16 x 16 and 8 x 8 cells of 4 and 8 pixels.
ONES, TWOS = np.ones((1, 2, 16, 16), "f4"), np.full((1, 2, 8, 8), 2, "f4")
RAMP = np.tile(np.arange(16, dtype="f4"), (16, 1))[None, None]
EXTRACT = {"output_size": 1, "sampling_ratio": 2, "pyramid_scales": [4, 8]}


def features(*values: list[Any]) -> np.ndarray:
    return np.array(values, np.float32)


EXTRACTS = [
    # 56 is the largest size of level 0: floor(2 + log2(56 / 224)) = 0.
    Sample(
        "levels by size",
        [rows([0, 0, 50, 50], [0, 0, 57, 57], [0, 0, 120, 120]), ONES, TWOS],
        [
            np.repeat(features([1], [1], [2]), 2, 1)[..., None, None],
            rows([0, 0, 50, 50], [0, 0, 57, 57], [0, 0, 120, 120]),
        ],
        {**EXTRACT, "sampling_ratio": 1},
    ),
    Sample(
        "regions without area",
        [rows([4, 4, 4, 9], [9, 9, 4, 12]), ONES, TWOS],
        [np.zeros((2, 2, 1, 1), "f4"), rows([4, 4, 4, 9], [9, 9, 4, 12])],
        EXTRACT,
    ),
    # x from 2 to 6 cells: bins of 2, read at 2.5, 3.5 and 4.5, 5.5
    Sample(
        "a ramp",
        [rows([8, 8, 24, 24]), RAMP],
        [features([[[3, 5], [3, 5]]]), rows([8, 8, 24, 24])],
        {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": [4]},
    ),
    Sample(
        "half a cell back",
        [rows([8, 8, 24, 24]), RAMP],
        [features([[[2.5, 4.5], [2.5, 4.5]]]), rows([8, 8, 24, 24])],
        {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": [4], "aligned": True},
    ),
    Sample(
        "as many samples as cells",
        [rows([8, 8, 24, 24]), RAMP],
        [features([[[4]]]), rows([8, 8, 24, 24])],
        {"output_size": 1, "sampling_ratio": 0, "pyramid_scales": [4]},
    ),
    # A region of half a cell counts as one cell: from 2 to 3, read at 2.5, or with aligned from 1.5
    # to 2.5, read at 2.
    Sample(
        "sides of at least a cell",
        [rows([8, 8, 10, 10]), RAMP],
        [features([[[2.5]]]), rows([8, 8, 10, 10])],
        {"output_size": 1, "sampling_ratio": 1, "pyramid_scales": [4]},
    ),
    Sample(
        "also with aligned",
        [rows([8, 8, 10, 10]), RAMP],
        [features([[[2]]]), rows([8, 8, 10, 10])],
        {"output_size": 1, "sampling_ratio": 1, "pyramid_scales": [4], "aligned": True},
    ),
    Sample(
        "no regions",
        [np.zeros((0, 4), "f4"), ONES],
        [np.zeros((0, 2, 1, 1), "f4"), np.zeros((0, 4), "f4")],
        EXTRACT,
    ),
]
EXTRACT_REFUSALS = [
    Refusal(
        "more levels than scales",
        [rows(A), ONES, TWOS, TWOS],
        "expected 1 to 2 levels of a pyramid, as many as 'pyramid_scales' at most, got 3",
        EXTRACT,
    ),
    Refusal("no levels", [rows(A)], "input 'pyramid' .port 1. is missing", EXTRACT),
    Refusal(
        "two images",
        [rows(A), np.tile(ONES, (2, 1, 1, 1))],
        r"'pyramid': expected levels of a single image, got shape \[2,2,16,16\]",
        EXTRACT,
    ),
    Refusal(
        "other channels",
        [rows(A), ONES, TWOS[:, :1]],
        r"'pyramid': expected 2 channels, got shape \[1,1,8,8\]",
        EXTRACT,
    ),
    Refusal(
        "a scale of 0",
        [rows(A), ONES],
        "'pyramid_scales': expected a list of positive numbers",
        {**EXTRACT, "pyramid_scales": [4, 0]},
    ),
]


@st.composite
def extract_cases(draw: st.DrawFn) -> Case:
    levels, channels, count = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(0, 3)),
    )
    name = draw(st.sampled_from(FLOATS))
    element_type = ElementType.parse(name)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low = generator.integers(-8, 30, (count, 2))
    # Sizes on either side of the levels' borders, and none on them.
    regions = np.concatenate(
        [low, low + generator.choice([-3, 5, 20, 60, 130], (count, 2))], axis=1
    )
    pyramid = [
        draw(arrays((1, channels, draw(st.integers(1, 5)), draw(st.integers(1, 5))), (name,)))[0]
        for _ in range(levels)
    ]
    attributes = {
        "output_size": draw(st.integers(1, 2)),
        "sampling_ratio": draw(st.integers(0, 2)),
        "pyramid_scales": [4, 8, 16][: draw(st.integers(levels, 3))],
        "aligned": draw(st.booleans()),
    }
    return Case([wide(regions, element_type), *pyramid], attributes, [name] * (levels + 1))


def extract_loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    regions, *pyramid = (
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    )
    size = at["output_size"]
    output = np.zeros((len(regions), pyramid[0].shape[1], size, size))

    def read(image: np.ndarray, y: float, x: float) -> float:
        height, width = image.shape
        if not (-1 <= y <= height and -1 <= x <= width):
            return 0.0
        y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
        total = 0.0
        for row, column in itertools.product(range(height), range(width)):
            total += max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column)) * image[row, column]
        return total

    for r, box in enumerate(regions.tolist()):
        area = (box[2] - box[0]) * (box[3] - box[1])
        if area <= 0:
            continue
        level = min(
            max(math.floor(2 + math.log2(math.sqrt(area) / 224 + 1e-6)), 0), len(pyramid) - 1
        )
        back = 0.5 if at["aligned"] else 0
        left, top, right, bottom = (v / at["pyramid_scales"][level] - back for v in box)
        bins = [max(right - left, 1) / size, max(bottom - top, 1) / size]
        counts = [at["sampling_ratio"] or math.ceil(b) for b in bins]
        for c, y, x in itertools.product(range(output.shape[1]), range(size), range(size)):
            values = [
                read(
                    pyramid[level][0, c],
                    top + (y + (i + 0.5) / counts[1]) * bins[1],
                    left + (x + (j + 0.5) / counts[0]) * bins[0],
                )
                for i, j in itertools.product(range(counts[1]), range(counts[0]))
            ]
            output[r, c, y, x] = sum(values) / len(values)
    return [output, regions]


# ---- ExperimentalDetectronTopKROIs

TOP = [
    Sample("the best two", [REGIONS, f32(0.25, 0.75, 0.5)], [rows(B, C)], {"max_rois": 2}),
    Sample(
        "the first of equal ones", [REGIONS, f32(0.5, 0.25, 0.5)], [rows(A, C)], {"max_rois": 2}
    ),
    Sample(
        "fewer than wanted",
        [REGIONS, f32(0.25, 0.75, 0.5)],
        [rows(B, C, A, [0] * 4)],
        {"max_rois": 4},
        openvino=UNSET,
    ),
    Sample("none wanted", [REGIONS, f32(0.25, 0.75, 0.5)], [np.zeros((0, 4), "f4")]),
]
TOP_REFUSALS = [
    Refusal(
        "other number of scores",
        [REGIONS, f32(0.25, 0.75)],
        r"'rois_probs': expected \[R = 3\], got \[2\]",
        {"max_rois": 2},
    ),
    Refusal(
        "negative number",
        [REGIONS, f32(0.25, 0.75, 0.5)],
        "'max_rois': expected a number from 0 to",
        {"max_rois": -1},
    ),
]


@st.composite
def top_cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(0, 5))
    regions, name = draw(arrays((count, 4), FLOATS))
    return Case(
        [regions, draw(arrays((count,), (name,)))[0]],
        {"max_rois": draw(st.integers(0, 6))},
        [name] * 2,
    )


def top_loop(case: Case) -> list[np.ndarray]:
    regions, scores = (
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    )
    best = sorted(range(len(regions)), key=lambda r: (-scores[r], r))[: case.attributes["max_rois"]]
    output = np.zeros((case.attributes["max_rois"], 4))
    for place, r in enumerate(best):
        output[place] = regions[r]
    return [output]


SAMPLES = [
    Samples(
        DetectronDetectionOutput6, DETECTIONS, DETECTION_REFUSALS, detection_cases(), detection_loop
    ),
    Samples(DetectronPriorGridGenerator6, GRIDS, GRID_REFUSALS, grid_cases(), grid_loop),
    Samples(
        DetectronROIFeatureExtractor6,
        EXTRACTS,
        EXTRACT_REFUSALS,
        extract_cases(),
        extract_loop,
        rtol=1e-4,
        atol=1e-4,
    ),
    Samples(DetectronTopKROIs6, TOP, TOP_REFUSALS, top_cases(), top_loop),
]
