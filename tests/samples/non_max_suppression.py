"""NonMaxSuppression-1, -3, -4, -5, -9. The pages have no worked values: everything is hand work on
boxes of simple areas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._suppression import all_outputs, cases, intersection_over_union
from uncork import storage
from uncork.ops.non_max_suppression import (
    NonMaxSuppression1,
    NonMaxSuppression3,
    NonMaxSuppression4,
    NonMaxSuppression5,
    NonMaxSuppression9,
)
from uncork.types import ElementType

EDGE = "OpenVINO removes at the threshold itself"
SCORE_EDGE = "OpenVINO takes scores above the threshold only"
GARBAGE = "OpenVINO leaves the count uninitialised"

# Along x: A and B share 3/5 of their union, C lies apart, D is the right half of C.
A, B, C, D = [0, 0, 1, 4], [0, 1, 1, 5], [0, 6, 1, 10], [0, 8, 1, 10]
IMAGE = np.array([[A, B, C, D]], np.float32)
SCORES = np.array([[[0.5, 0.75, 0.25, 0.875]]], np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def limits(
    most: int, iou: float, score: float = 0.0, sigma: float | None = None, dtype: Any = np.float32
) -> list[Any]:
    thresholds = [np.array(iou, dtype), np.array(score, dtype)]
    return [np.array(most), *thresholds, *([] if sigma is None else [np.array(sigma, dtype)])]


def rows(*triples: tuple[float, float, float], dtype: Any = np.int64) -> np.ndarray:
    return np.array(triples, dtype).reshape(-1, 3)


def taken(*boxes: int, dtype: Any = np.int64) -> np.ndarray:
    """Rows of the only class of the only image."""
    return rows(*[(0, 0, b) for b in boxes], dtype=dtype)


def outputs(*pairs: tuple[int, float]) -> list[np.ndarray]:
    """All three outputs for one class of one image."""
    return [
        taken(*[b for b, _ in pairs]),
        rows(*[(0, 0, s) for _, s in pairs], dtype=np.float32),
        np.array([len(pairs)]),
    ]


ALL = [
    Sample("B beats A, D beats C", [IMAGE, SCORES, *limits(4, 0.4)], [taken(3, 1)]),
    Sample(
        "overlaps of 0.5 and 0.6 under a high threshold",
        [IMAGE, SCORES, *limits(4, 0.7)],
        [taken(3, 1, 0, 2)],
    ),
    Sample(
        "an overlap of just the threshold stays",
        [IMAGE, SCORES, *limits(4, 0.5)],
        [taken(3, 1, 2)],
        openvino=EDGE,
    ),
    Sample("at most two of a class", [IMAGE, SCORES, *limits(2, 0.7)], [taken(3, 1)]),
    Sample("scores from 0.6", [IMAGE, SCORES, *limits(4, 0.7, 0.6)], [taken(3, 1)]),
    Sample(
        "a score of just the threshold is taken",
        [IMAGE, SCORES, *limits(4, 0.7, 0.5)],
        [taken(3, 1, 0)],
        openvino=SCORE_EDGE,
    ),
    Sample(
        "removed boxes do not come back below a threshold of 0",
        [IMAGE, SCORES, *limits(4, 0.4, -1.0)],
        [taken(3, 1)],
    ),
    Sample(
        "a threshold of 0 leaves one box of a class", [IMAGE, SCORES, *limits(4, 0.0)], [taken(3)]
    ),
    Sample(
        "equal scores: the first box",
        [IMAGE, np.full((1, 1, 4), 0.5, "f4"), *limits(4, 0.4)],
        [taken(0, 2)],
    ),
    Sample(
        "counts per class in i32",
        [IMAGE, SCORES, np.array(1, "i4"), *limits(4, 0.4)[1:]],
        [taken(3)],
    ),
    Sample("no limit given: no boxes", [IMAGE, SCORES], [taken()]),
    Sample("a negative limit: no boxes", [IMAGE, SCORES, *limits(-1, 0.4)], [taken()]),
    Sample(
        "corners the other way round",
        [
            np.array([[[1, 4, 0, 0], [0, 5, 1, 1], [1, 6, 0, 10], D]], np.float32),
            SCORES,
            *limits(4, 0.4),
        ],
        [taken(3, 1)],
    ),
    Sample(
        "centers and sizes",
        [
            np.array(
                [[[2, 0.5, 4, 1], [3, 0.5, 4, 1], [8, 0.5, 4, 1], [9, 0.5, 2, 1]]], np.float32
            ),
            SCORES,
            *limits(4, 0.4),
        ],
        [taken(3, 1)],
        {"box_encoding": "center"},
    ),
    Sample(
        "a box without area overlaps nothing",
        [
            np.array([[A, [0, 2, 1, 2]]], np.float32),
            f32(0.5, 0.25).reshape(1, 1, 2),
            *limits(4, 0.4),
        ],
        [taken(0, 1)],
    ),
    Sample(
        "classes and images apart, all sorted together",
        [
            np.array([[A, B], [A, C]], np.float32),
            f32(0.5, 0.25, 0.125, 0.75, 0.375, 0.625, 0.875, 1).reshape(2, 2, 2),
            *limits(2, 0.4),
        ],
        [rows((1, 1, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 0), (1, 0, 0))],
    ),
    Sample(
        "classes and images apart, not sorted",
        [
            np.array([[A, B], [A, C]], np.float32),
            f32(0.5, 0.25, 0.125, 0.75, 0.375, 0.625, 0.875, 1).reshape(2, 2, 2),
            *limits(2, 0.4),
        ],
        [rows((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0))],
        {"sort_result_descending": False},
    ),
    Sample(
        "a NaN is not taken",
        [IMAGE, f32(np.nan, 0.5, 0.25, 0.125).reshape(1, 1, 4), *limits(4, 0.4)],
        [taken(1, 2)],
    ),
    Sample(
        "f64",
        [IMAGE.astype("f8"), SCORES.astype("f8"), *limits(4, 0.4)],
        [taken(3, 1)],
        openvino="OpenVINO has no f64 here",
    ),
    Sample("f16 boxes", [IMAGE.astype("f2"), SCORES.astype("f2"), *limits(4, 0.4)], [taken(3, 1)]),
    Sample(
        "thresholds of one element",
        [IMAGE, SCORES, np.array([4], "i4"), f32(0.4), f32(0.3)],
        [taken(3, 1)],
        openvino="OpenVINO wants scalars below version 5",
    ),
    Sample(
        "no boxes",
        [np.zeros((1, 0, 4), "f4"), np.zeros((1, 2, 0), "f4"), *limits(4, 0.4)],
        [taken()],
    ),
]
I32 = [
    Sample(
        "i32 indices",
        [IMAGE, SCORES, *limits(4, 0.4)],
        [taken(3, 1, dtype=np.int32)],
        {"output_type": ElementType.i32},
    ),
]
# exp(-0.5 * 0.6**2 / 0.5) = 0.697676, times 0.5; exp(-0.5 * 0.5**2 / 0.5) = 0.778801, times 0.25.
SOFT = [
    Sample(
        "scores of overlapping boxes fall",
        [IMAGE, SCORES, *limits(4, 0.7, 0.0, 0.5)],
        outputs((3, 0.875), (1, 0.75), (0, 0.348838), (2, 0.1947)),
    ),
    Sample(
        "and out of the race",
        [IMAGE, SCORES, *limits(4, 0.7, 0.2, 0.5)],
        outputs((3, 0.875), (1, 0.75), (0, 0.348838)),
    ),
    Sample(
        "bf16 thresholds",
        [
            IMAGE,
            SCORES,
            np.array(4),
            *(storage.encode(f32(v)[0], ElementType.bf16) for v in (0.75, 0.0, 0.5)),
        ],
        outputs((3, 0.875), (1, 0.75), (0, 0.348838), (2, 0.1947)),
        types=["f32", "f32", None, "bf16", "bf16", "bf16"],
    ),
    Sample(
        "f64 scores",
        [IMAGE.astype("f8"), SCORES.astype("f8"), *limits(4, 0.4)],
        [taken(3, 1), rows((0, 0, 0.875), (0, 0, 0.75), dtype="f8"), np.array([2])],
        openvino="OpenVINO has no f64 here",
    ),
]
SOFT_9 = Sample(
    "the threshold does not matter",
    [IMAGE, SCORES, *limits(4, 0.55, 0.0, 0.5)],
    outputs((3, 0.875), (1, 0.75), (0, 0.348838), (2, 0.1947)),
)
SOFT_5 = Sample(
    "past the threshold nothing stays",
    [IMAGE, SCORES, *limits(4, 0.55, 0.0, 0.5)],
    outputs((3, 0.875), (1, 0.75), (2, 0.1947)),
    openvino="OpenVINO runs version 9 instead",
)
REFUSALS = [
    Refusal(
        "boxes of 3 numbers",
        [IMAGE[..., :3], SCORES, *limits(4, 0.4)],
        r"'boxes': expected \[num_batches = \?, .*4 = 4\], got \[1,4,3\]",
    ),
    Refusal(
        "other number of boxes",
        [IMAGE, SCORES[..., :3], *limits(4, 0.4)],
        r"'scores': expected .*num_boxes = 4\], got \[1,1,3\]",
    ),
    Refusal(
        "two limits",
        [IMAGE, SCORES, np.array([1, 2])],
        "'max_output_boxes_per_class': expected a scalar or one element",
    ),
    Refusal(
        "two thresholds",
        [IMAGE, SCORES, np.array(4), f32(1, 2)],
        r"'iou_threshold': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal(
        "integer scores",
        [IMAGE, SCORES.astype("i4")],
        "'scores' .port 1.: expected a floating-point type",
    ),
    Refusal(
        "unlike types",
        [IMAGE, SCORES.astype("f2")],
        "'scores' .port 1.: expected f32 as 'boxes' has, got f16",
    ),
    Refusal(
        "strict: a negative limit",
        [IMAGE, SCORES, np.array(-1)],
        "'max_output_boxes_per_class' is -1, expected 0 or more",
        strict=True,
    ),
]
TYPE_REFUSALS = [
    Refusal(
        "output type",
        [IMAGE, SCORES],
        "'output_type': expected i32 or i64, got f32",
        {"output_type": ElementType.f32},
    ),
]
SOFT_REFUSALS = [
    Refusal(
        "negative sigma",
        [IMAGE, SCORES, *limits(4, 0.4, 0.0, -1.0)],
        "soft_nms_sigma is -1.0, expected 0 or more",
    ),
    Refusal(
        "negative sigma of bf16",
        [
            IMAGE,
            SCORES,
            np.array(4),
            *(storage.encode(f32(v), ElementType.bf16) for v in (0.5, 0.0, -2.0)),
        ],
        r"soft_nms_sigma\[0\] is -2.0, expected 0 or more",
        types=["f32", "f32", None, "bf16", "bf16", "bf16"],
    ),
]


def loop(case: Case, soft_limited: bool = False) -> list[np.ndarray]:
    boxes = storage.decode(case.inputs[0], case.types[0]).astype(float).tolist()
    if case.attributes.get("box_encoding") == "center":
        corners = [
            [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in image]
            for image in boxes
        ]
    else:
        corners = [
            [[*map(min, box[:2], box[2:]), *map(max, box[:2], box[2:])] for box in image]
            for image in boxes
        ]
    return all_outputs(case, corners, intersection_over_union, soft_limited)


def with_scores(sample: Sample) -> Sample:
    """The same sample with the outputs that versions 5 and 9 add."""
    indices = np.asarray(sample.outputs[0])
    scores = storage.decode(sample.case.inputs[1], sample.case.types[1])
    dtype = np.float64 if scores.dtype == np.float64 else np.float32
    triples = [(b, c, scores[b, c, box]) for b, c, box in indices]
    more = [np.array(triples, dtype).reshape(-1, 3), np.array([len(indices)], indices.dtype)]
    openvino = (
        ""
        if "wants scalars" in sample.openvino
        else sample.openvino or (GARBAGE if not len(indices) else "")
    )
    return Sample(
        sample.name,
        sample.inputs,
        [indices, *more],
        sample.attributes,
        sample.types,
        openvino=openvino,
    )


ENCODING = {"box_encoding": ["corner", "center"], "sort_result_descending": [True, False]}
TYPED = {**ENCODING, "output_type": [ElementType.i32, ElementType.i64]}
LATER = [with_scores(s) for s in ALL + I32] + SOFT
SAMPLES = [
    Samples(NonMaxSuppression1, ALL, REFUSALS, cases(4, 2, ENCODING), lambda c: loop(c)[:1]),
    Samples(
        NonMaxSuppression3,
        ALL + I32,
        REFUSALS + TYPE_REFUSALS,
        cases(4, 2, TYPED),
        lambda c: loop(c)[:1],
    ),
    Samples(
        NonMaxSuppression4,
        ALL + I32,
        REFUSALS + TYPE_REFUSALS,
        cases(4, 2, TYPED),
        lambda c: loop(c)[:1],
    ),
    Samples(
        NonMaxSuppression5,
        [*LATER, SOFT_5],
        REFUSALS + TYPE_REFUSALS + SOFT_REFUSALS,
        cases(4, 3, TYPED),
        lambda c: loop(c, True),
    ),
    Samples(
        NonMaxSuppression9,
        [*LATER, SOFT_9],
        REFUSALS + TYPE_REFUSALS + SOFT_REFUSALS,
        cases(4, 3, TYPED),
        loop,
    ),
]
