"""MatrixNms-8. Hand work on boxes with overlaps of 0.5 and 0.6, by the six steps of the page."""

from __future__ import annotations

import math

import numpy as np

from tests.samples._class_selection import cases, f32, outputs, rows_of
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._suppression import intersection_over_union
from uncork.ops.matrix_nms import MatrixNms8
from uncork.types import ElementType

GARBAGE = "OpenVINO leaves the counts uninitialised"
# B shares 3/5 with A, D is half of C.
A, B, C, D = [0, 0, 4, 1], [1, 0, 5, 1], [6, 0, 10, 1], [8, 0, 10, 1]
BOXES = np.array([[A, B, C, D]], np.float32)
SCORES = f32(0.5, 0.75, 0.25, 0.875).reshape(1, 1, 4)
TWO = np.array([[A, B], [C, D]], np.float32)
TWO_SCORES = f32(0.5, 0.25, 0.125, 0.0, 0.625, 1, 0.75, 0.375).reshape(2, 2, 2)
# Three in a row, each half over the next: overlaps of 1/3 and 0.
ROW = np.array([[[0, 0, 2, 1], [1, 0, 3, 1], [2, 0, 4, 1]]], np.float32)
REPEATED = np.array([[A, A, A, B]], np.float32)


def out(
    *rows: tuple[float, float, int],
    dtype: type = np.int64,
    boxes: np.ndarray = BOXES,
    counts: tuple[int, ...] = (),
) -> list[np.ndarray]:
    return outputs(*rows, counts=counts or (len(rows),), boxes=boxes, dtype=dtype)


EXAMPLES = [
    # By falling score D, B, A, C: K = 0, 0, 0.6, 0.5; scores of A and C times 1 - 0.6 and 1 - 0.5.
    Sample("linear", [BOXES, SCORES], out((0, 0.875, 3), (0, 0.75, 1), (0, 0.2, 0), (0, 0.125, 2))),
    Sample(
        "gaussian",
        [BOXES, SCORES],
        out(
            (0, 0.875, 3),
            (0, 0.75, 1),
            (0, 0.5 * math.exp(-0.72), 0),
            (0, 0.25 * math.exp(-0.5), 2),
        ),
        {"decay_function": "gaussian"},
    ),
    Sample(
        "a box that is suppressed itself suppresses less",
        # The third overlaps the second by 1/3, which has K = 1/3: (1 - 1/3) / (1 - 1/3) = 1.
        [ROW, f32(1, 0.75, 0.25).reshape(1, 1, 3)],
        out((0, 1, 0), (0, 0.5, 1), (0, 0.25, 2), boxes=ROW),
    ),
    Sample(
        "another sigma",
        [BOXES, SCORES],
        out(
            (0, 0.875, 3),
            (0, 0.75, 1),
            (0, 0.5 * math.exp(-0.36), 0),
            (0, 0.25 * math.exp(-0.25), 2),
        ),
        {"decay_function": "gaussian", "gaussian_sigma": 1.0},
    ),
    Sample(
        "repetitions fall to 0",
        [REPEATED, f32(1, 0.75, 0.5, 0.25).reshape(1, 1, 4)],
        out((0, 1, 0), (0, 0.1, 3), boxes=REPEATED),
    ),
    Sample(
        "scores above the threshold only",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1)),
        {"score_threshold": 0.5},
    ),
    Sample(
        "decayed scores above the threshold only",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.2, 0)),
        {"post_threshold": 0.125},
    ),
    Sample(
        "the best two of a class",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1)),
        {"nms_top_k": 2},
    ),
    Sample(
        "the best three of an image",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.2, 0)),
        {"keep_top_k": 3},
    ),
    Sample(
        "none of an image", [BOXES, SCORES], out(counts=(0,)), {"keep_top_k": 0}, openvino=GARBAGE
    ),
    Sample(
        "nothing but background",
        [BOXES, SCORES],
        out(counts=(0,)),
        {"background_class": 0},
        openvino=GARBAGE,
    ),
    Sample(
        "pixels",
        # A is 5 x 2 pixels and shares 4 x 2 of them with B: 8 / 12.
        [BOXES[:, :2], f32(0.5, 0.75).reshape(1, 1, 2)],
        out((0, 0.75, 1), (0, 0.5 / 3, 0)),
        {"normalized": False},
    ),
    Sample(
        "pixels that touch share an edge",
        # Both 3 x 2, the column at 2 is theirs: 2 / 10.
        [np.array([[[0, 0, 2, 1], [2, 0, 4, 1]]], np.float32), f32(0.5, 0.75).reshape(1, 1, 2)],
        out((0, 0.75, 1), (0, 0.4, 0), boxes=np.array([[0, 0, 2, 1], [2, 0, 4, 1]], np.float32)),
        {"normalized": False},
    ),
    Sample(
        "near but not touching",
        [np.array([[[0, 0, 2, 1], [2.5, 0, 4, 1]]], np.float32), f32(0.5, 0.75).reshape(1, 1, 2)],
        out((0, 0.75, 1), (0, 0.5, 0), boxes=np.array([[0, 0, 2, 1], [2.5, 0, 4, 1]], np.float32)),
        {"normalized": False},
    ),
    Sample(
        "images in a row, i32",
        [TWO, TWO_SCORES],
        out(
            (0, 0.5, 0),
            (1, 0.125, 0),
            (0, 0.1, 1),
            (0, 1, 3),
            (1, 0.75, 2),
            (0, 0.3125, 2),
            (1, 0.1875, 3),
            counts=(3, 4),
            boxes=TWO,
            dtype=np.int32,
        ),
        {"output_type": ElementType.i32},
    ),
    Sample(
        "all by score",
        [TWO, TWO_SCORES],
        out(
            (0, 1, 3),
            (1, 0.75, 2),
            (0, 0.5, 0),
            (0, 0.3125, 2),
            (1, 0.1875, 3),
            (1, 0.125, 0),
            (0, 0.1, 1),
            counts=(3, 4),
            boxes=TWO,
        ),
        {"sort_result_type": "score", "sort_result_across_batch": True},
    ),
    Sample(
        "all by class",
        [TWO, TWO_SCORES],
        out(
            (0, 0.5, 0),
            (0, 0.1, 1),
            (0, 1, 3),
            (0, 0.3125, 2),
            (1, 0.125, 0),
            (1, 0.75, 2),
            (1, 0.1875, 3),
            counts=(3, 4),
            boxes=TWO,
        ),
        {"sort_result_type": "classid", "sort_result_across_batch": True},
    ),
    Sample(
        "classid of each image: by score",
        [TWO, TWO_SCORES],
        out(
            (0, 0.5, 0),
            (1, 0.125, 0),
            (0, 0.1, 1),
            (0, 1, 3),
            (1, 0.75, 2),
            (0, 0.3125, 2),
            (1, 0.1875, 3),
            counts=(3, 4),
            boxes=TWO,
        ),
        {"sort_result_type": "classid"},
    ),
    Sample(
        "no boxes",
        [np.zeros((2, 0, 4), "f4"), np.zeros((2, 1, 0), "f4")],
        out(counts=(0, 0)),
        openvino=GARBAGE,
    ),
]
REFUSALS = [
    Refusal(
        "boxes of 5 numbers",
        [np.zeros((1, 2, 5), "f4"), SCORES],
        r"'boxes': expected .*4 = 4\], got \[1,2,5\]",
    ),
    Refusal(
        "another batch",
        [BOXES, np.zeros((2, 1, 4), "f4")],
        r"'scores': expected \[num_batches = 1, .*got \[2,1,4\]",
    ),
    Refusal(
        "nms_top_k", [BOXES, SCORES], "'nms_top_k': expected at least -1, got -2", {"nms_top_k": -2}
    ),
    Refusal(
        "keep_top_k",
        [BOXES, SCORES],
        "'keep_top_k': expected at least -1, got -9",
        {"keep_top_k": -9},
    ),
    Refusal(
        "background",
        [BOXES, SCORES],
        "'background_class': expected at least -1, got -2",
        {"background_class": -2},
    ),
    Refusal(
        "output type",
        [BOXES, SCORES],
        "'output_type': expected i32 or i64, got f32",
        {"output_type": ElementType.f32},
    ),
]


def loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    pixel = 0 if at["normalized"] else 1

    def iou(a: list[float], b: list[float]) -> float:
        apart = any(min(a[i + 2], b[i + 2]) < max(a[i], b[i]) for i in (0, 1))
        return 0.0 if apart else intersection_over_union(a, b, pixel)

    def decay(x: float, k: float) -> float:
        if at["decay_function"] == "gaussian":
            return math.exp((k * k - x * x) * at["gaussian_sigma"])
        return math.inf if k == 1 else (1 - x) / (1 - k)

    def of_class(boxes: list[list[float]], scores: list[float]) -> list[tuple[int, float]]:
        order = sorted(
            (m for m, s in enumerate(scores) if s > at["score_threshold"]),
            key=lambda m: (-scores[m], m),
        )
        if at["nms_top_k"] >= 0:
            order = order[: at["nms_top_k"]]
        k = [
            max((iou(boxes[i], boxes[j]) for i in order[:n]), default=0.0)
            for n, j in enumerate(order)
        ]
        factors = [
            min(
                (decay(iou(boxes[i], boxes[j]), k[m]) for m, i in enumerate(order[:n])), default=1.0
            )
            for n, j in enumerate(order)
        ]
        return [
            (m, scores[m] * f)
            for m, f in zip(order, factors, strict=True)
            if scores[m] * f > at["post_threshold"]
        ]

    return rows_of(case, of_class, by_class=False)


CASES = cases(
    {
        "decay_function": ["linear", "gaussian"],
        "gaussian_sigma": [2.0, 0.5],
        "post_threshold": [0.0, 0.11],
    }
)
SAMPLES = [Samples(MatrixNms8, EXAMPLES, REFUSALS, CASES, loop)]
