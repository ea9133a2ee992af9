"""MulticlassNms-8, -9. Hand work on boxes with overlaps of 0.5 and 0.6, by the steps of the
page.
"""

from __future__ import annotations

import numpy as np

from tests.samples._class_selection import cases, f32, outputs, rows_of
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._suppression import intersection_over_union
from uncork.ops.multiclass_nms import MulticlassNms8, MulticlassNms9
from uncork.types import ElementType

GARBAGE = "OpenVINO leaves the counts uninitialised"
EDGE = "OpenVINO removes at the threshold itself"
LAZY = "OpenVINO compares with boxes taken earlier by the threshold of now"
# B shares 3/5 with A, D is half of C.
A, B, C, D = [0, 0, 4, 1], [1, 0, 5, 1], [6, 0, 10, 1], [8, 0, 10, 1]
BOXES = np.array([[A, B, C, D]], np.float32)
SCORES = f32(0.5, 0.75, 0.25, 0.875).reshape(1, 1, 4)
TWO = np.array([[A, B], [C, D]], np.float32)
TWO_SCORES = f32(0.5, 0.25, 0.125, 0.0, 0.625, 1, 0.75, 0.375).reshape(2, 2, 2)
# The three boxes overlap by 9/11 from one to the next, by 8/12 from the first to the last.
STAIRS = np.array([[[0, 0, 10, 1], [1, 0, 11, 1], [2, 0, 12, 1]]], np.float32)
FALLING = f32(0.875, 0.75, 0.5).reshape(1, 1, 3)


def out(
    *rows: tuple[float, float, int],
    dtype: type = np.int64,
    boxes: np.ndarray = BOXES,
    counts: tuple[int, ...] = (),
) -> list[np.ndarray]:
    return outputs(*rows, counts=counts or (len(rows),), boxes=boxes, dtype=dtype)


EXAMPLES = [
    Sample(
        "overlaps up to 0.4",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1)),
        {"iou_threshold": 0.4},
    ),
    Sample(
        "overlaps up to 0.55",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.25, 2)),
        {"iou_threshold": 0.55},
    ),
    Sample(
        "overlap of just the threshold",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.25, 2)),
        {"iou_threshold": 0.5},
        openvino=EDGE,
    ),
    Sample(
        "no overlap at all", [BOXES, SCORES], out((0, 0.875, 3), (0, 0.75, 1)), {}, openvino=EDGE
    ),
    Sample(
        "scores from the threshold",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.5, 0)),
        {"iou_threshold": 0.7, "score_threshold": 0.5},
    ),
    Sample(
        "the best three of a class run",
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1)),
        {"iou_threshold": 0.55, "nms_top_k": 3},
    ),
    Sample(
        "the best of an image",
        [BOXES, SCORES],
        out((0, 0.875, 3)),
        {"iou_threshold": 0.7, "keep_top_k": 1},
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
        "the threshold falls after the first box: 0.85 to 0.765",
        [STAIRS, FALLING],
        out((0, 0.875, 0), (0, 0.5, 2), boxes=STAIRS),
        {"iou_threshold": 0.85, "nms_eta": 0.9},
    ),
    Sample(
        "it does not fall without",
        [STAIRS, FALLING],
        out((0, 0.875, 0), (0, 0.75, 1), (0, 0.5, 2), boxes=STAIRS),
        {"iou_threshold": 0.85},
    ),
    Sample(
        "and again after the second, for boxes still left: 0.9, 0.72",
        # With 0.9 the second stays, with 0.72 it removes the third, which the first with its 0.9
        # did not.
        [STAIRS[:, ::-1], FALLING],
        out((0, 0.875, 0), (0, 0.75, 1), boxes=STAIRS[:, ::-1]),
        {"iou_threshold": 0.9 / 0.8, "nms_eta": 0.8},
    ),
    Sample(
        "the threshold at which a box passed counts, not a later one",
        # D: 0.63, which leaves C; B: 0.441, which removes A.
        [BOXES, SCORES],
        out((0, 0.875, 3), (0, 0.75, 1), (0, 0.25, 2)),
        {"iou_threshold": 0.9, "nms_eta": 0.7},
        openvino=LAZY,
    ),
    Sample(
        "pixels: 8 of 12",
        [BOXES[:, :2], f32(0.5, 0.75).reshape(1, 1, 2)],
        out((0, 0.75, 1)),
        {"normalized": False, "iou_threshold": 0.65},
    ),
    Sample(
        "pixels: more than a box without",
        [BOXES[:, :2], f32(0.5, 0.75).reshape(1, 1, 2)],
        out((0, 0.75, 1), (0, 0.5, 0)),
        {"iou_threshold": 0.65},
    ),
    Sample(
        "images in a row, i32",
        [TWO, TWO_SCORES],
        out(
            (0, 0.5, 0),
            (1, 0.125, 0),
            (0, 1, 3),
            (1, 0.75, 2),
            counts=(2, 2),
            boxes=TWO,
            dtype=np.int32,
        ),
        {"iou_threshold": 0.4, "output_type": ElementType.i32},
    ),
    Sample(
        "each image by class",
        [TWO, TWO_SCORES],
        out(
            (0, 0.5, 0),
            (0, 0.25, 1),
            (1, 0.125, 0),
            (1, 0, 1),
            (0, 1, 3),
            (0, 0.625, 2),
            (1, 0.75, 2),
            (1, 0.375, 3),
            counts=(4, 4),
            boxes=TWO,
        ),
        {"iou_threshold": 0.9, "sort_result_type": "classid"},
    ),
    Sample(
        "all by score",
        [TWO, TWO_SCORES],
        out((0, 1, 3), (1, 0.75, 2), (0, 0.5, 0), (1, 0.125, 0), counts=(2, 2), boxes=TWO),
        {"iou_threshold": 0.4, "sort_result_type": "score", "sort_result_across_batch": True},
    ),
    Sample(
        "all by class",
        [TWO, TWO_SCORES],
        out((0, 0.5, 0), (0, 1, 3), (1, 0.125, 0), (1, 0.75, 2), counts=(2, 2), boxes=TWO),
        {"iou_threshold": 0.4, "sort_result_type": "classid", "sort_result_across_batch": True},
    ),
    Sample(
        "equal scores: by class, then by box",
        [BOXES, np.full((1, 2, 4), 0.5, "f4")],
        out((0, 0.5, 0), (0, 0.5, 2), (1, 0.5, 0), (1, 0.5, 2)),
        {"iou_threshold": 0.4},
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
        "other number of boxes",
        [BOXES, SCORES[..., 1:]],
        r"'scores': expected .*num_boxes = 4\], got \[1,1,3\]",
    ),
    Refusal(
        "scores of rank 2",
        [BOXES, SCORES[0]],
        r"'scores': expected \[num_batches = 1, .*got \[1,4\]",
    ),
    Refusal(
        "eta",
        [BOXES, SCORES],
        "'nms_eta': expected a number from 0 to 1, got 1.5",
        {"nms_eta": 1.5},
    ),
    Refusal(
        "nms_top_k", [BOXES, SCORES], "'nms_top_k': expected at least -1, got -2", {"nms_top_k": -2}
    ),
    Refusal(
        "output type",
        [BOXES, SCORES],
        "'output_type': expected i32 or i64, got f32",
        {"output_type": ElementType.f32},
    ),
]
# Two classes with boxes of their own; the first image has one box of each, the second three.
OWN = np.array([[A, A, B, D], [C, C, D, A]], np.float32)
OWN_SCORES = f32(0.5, 0.75, 0.625, 0.25, 0.375, 0.125, 1, 0.875).reshape(2, 4)
# The places count boxes first, then classes; the boxes in that order:
PLACED = OWN.swapaxes(0, 1).copy()
ROISNUM = [
    Sample(
        "boxes of each class",
        [OWN, OWN_SCORES, np.array([1, 3])],
        # Second image: class 0 has A, then B gone, D; class 1 has D, A, and C gone.
        out(
            (0, 0.5, 0),
            (1, 0.375, 1),
            (1, 1, 5),
            (1, 0.875, 7),
            (0, 0.75, 2),
            (0, 0.25, 6),
            boxes=PLACED,
            counts=(2, 4),
        ),
        {"iou_threshold": 0.4},
    ),
    Sample(
        "an image without boxes",
        [OWN, OWN_SCORES, np.array([0, 4], np.int32)],
        out((1, 1, 5), (1, 0.875, 7), (0, 0.75, 2), (0, 0.25, 6), boxes=PLACED, counts=(0, 4)),
        {"iou_threshold": 0.4},
    ),
    Sample(
        "boxes of no image",
        [OWN, OWN_SCORES, np.array([1])],
        out((0, 0.5, 0), (1, 0.375, 1), boxes=PLACED),
        {"iou_threshold": 0.4},
    ),
]
ROISNUM_REFUSALS = [
    Refusal(
        "more boxes than there are",
        [OWN, OWN_SCORES, np.array([2, 3])],
        "'roisnum': expected numbers that add up to the 4 boxes, got 5",
    ),
    Refusal(
        "strict: fewer",
        [OWN, OWN_SCORES, np.array([2, 1])],
        "'roisnum': expected numbers that add up to the 4 boxes, got 3",
        strict=True,
    ),
    Refusal(
        "negative number",
        [OWN, OWN_SCORES, np.array([5, -1])],
        r"roisnum\[1\] is -1, expected 0 or more",
    ),
    Refusal(
        "scores of rank 3",
        [OWN, OWN_SCORES[None], np.array([4])],
        r"'scores': expected \[num_classes = 2, num_boxes = 4\], got \[1,2,4\]",
    ),
]


def loop(case: Case) -> list[np.ndarray]:
    at = case.attributes

    def of_class(boxes: list[list[float]], scores: list[float]) -> list[tuple[int, float]]:
        order = sorted(
            (m for m, s in enumerate(scores) if s >= at["score_threshold"]),
            key=lambda m: (-scores[m], m),
        )
        if at["nms_top_k"] >= 0:
            order = order[: at["nms_top_k"]]
        threshold, gone, taken = at["iou_threshold"], set(), []
        for n, best in enumerate(order):
            if best in gone:
                continue
            taken.append((best, scores[best]))
            if at["nms_eta"] < 1 and threshold > 0.5:
                threshold *= at["nms_eta"]
            for other in order[n + 1 :]:
                if (
                    intersection_over_union(boxes[best], boxes[other], 0 if at["normalized"] else 1)
                    > threshold
                ):
                    gone.add(other)
        return taken

    return rows_of(case, of_class, by_class=at["sort_result_type"] == "classid")


CHOICES = {"iou_threshold": [0.0, 0.26, 0.76], "nms_eta": [1.0, 0.7, 0.0]}
SAMPLES = [
    Samples(MulticlassNms8, EXAMPLES, REFUSALS, cases(CHOICES), loop),
    Samples(
        MulticlassNms9,
        EXAMPLES + ROISNUM,
        REFUSALS + ROISNUM_REFUSALS,
        cases(CHOICES, own_boxes=True),
        loop,
    ),
]
