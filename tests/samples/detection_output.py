"""DetectionOutput-1, -8. Hand work with priors that are the boxes themselves, moved by offsets of
simple size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._suppression import intersection_over_union
from uncork import storage
from uncork.ops.detection_output import DetectionOutput1, DetectionOutput8
from uncork.types import ElementType

CENTER = "caffe.PriorBoxParameter.CENTER_SIZE"
TWICE = "OpenVINO makes the priors normal a second time"
# A and B overlap by 0.6, C lies apart.
A, B, C = [0.0, 0.0, 0.5, 0.25], [0.125, 0.0, 0.625, 0.25], [0.5, 0.5, 1.0, 0.75]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def priors(*boxes: list[float], variance: float | None = 0.5) -> np.ndarray:
    flat = [v for box in boxes for v in box]
    rows = [flat] if variance is None else [flat, [variance] * (4 * len(boxes))]
    return np.array([rows], np.float32)


def out(*rows: list[float], count: int) -> list[np.ndarray]:
    """Rows, a row that begins with -1 where there are fewer, zeros."""
    table = np.zeros((count, 7), np.float32)
    for place, row in enumerate(rows):
        table[place] = row
    if len(rows) < count:
        table[len(rows), 0] = -1
    return [table[None, None]]


STILL = np.zeros((1, 12), np.float32)
# Background, then class 1 and 2 of A, B, C.
CONFIDENCE = f32(0, 0.5, 0.25, 0, 0.75, 0, 0, 0.625, 0.125)[None]
ABC = priors(A, B, C)
SIMPLE = {"keep_top_k": [5], "nms_threshold": 0.5, "normalized": True}
AB, ABOVE = [STILL[:, :8], CONFIDENCE[:, :6]], [0.0625, 0.0, 0.5625, 0.25]

ALL = [
    Sample(
        "B beats A in class 1",
        [STILL, CONFIDENCE, ABC],
        out([0, 1, 0.75, *B], [0, 1, 0.625, *C], [0, 2, 0.25, *A], [0, 2, 0.125, *C], count=5),
        SIMPLE,
    ),
    Sample(
        "the best two of all classes, by class",
        [STILL, CONFIDENCE, ABC],
        out([0, 1, 0.75, *B], [0, 1, 0.625, *C], count=2),
        {**SIMPLE, "keep_top_k": [2]},
    ),
    Sample(
        "the best of each class before the suppression",
        [STILL, CONFIDENCE, ABC],
        out([0, 1, 0.75, *B], [0, 2, 0.25, *A], count=3),
        {**SIMPLE, "keep_top_k": [-1], "top_k": 1},
    ),
    Sample(
        "everything",
        [STILL, CONFIDENCE, ABC],
        out(
            [0, 1, 0.75, *B],
            [0, 1, 0.625, *C],
            [0, 1, 0.5, *A],
            [0, 2, 0.25, *A],
            [0, 2, 0.125, *C],
            count=9,
        ),
        {**SIMPLE, "keep_top_k": [-1], "nms_threshold": 0.7},
    ),
    Sample(
        "confidences above the threshold only",
        [STILL, CONFIDENCE, ABC],
        out([0, 1, 0.75, *B], count=5),
        {**SIMPLE, "confidence_threshold": 0.625},
    ),
    Sample(
        "nothing found",
        [STILL, CONFIDENCE, ABC],
        out(count=5),
        {**SIMPLE, "confidence_threshold": 0.9},
    ),
    Sample(
        "class 1 is the background",
        [STILL, CONFIDENCE, ABC],
        out([0, 2, 0.25, *A], [0, 2, 0.125, *C], count=5),
        {**SIMPLE, "background_label_id": 1},
    ),
    Sample(
        "offsets times variances",
        [f32(0.5, 1, -0.5, 2)[None], f32(0, 0.5)[None], priors(A)],
        out([0, 1, 0.5, 0.25, 0.5, 0.25, 1.25], count=1),
        {**SIMPLE, "keep_top_k": [1]},
    ),
    Sample(
        "cut after",
        [f32(0.5, 1, -0.5, 2)[None], f32(0, 0.5)[None], priors(A)],
        out([0, 1, 0.5, 0.25, 0.5, 0.25, 1], count=1),
        {**SIMPLE, "keep_top_k": [1], "clip_after_nms": True},
    ),
    Sample(
        "cut before",
        [f32(-0.5, 1, -0.5, 2)[None], f32(0, 0.5)[None], priors(A)],
        out([0, 1, 0.5, 0, 0.5, 0.25, 1], count=1),
        {**SIMPLE, "keep_top_k": [1], "clip_before_nms": True},
    ),
    Sample(
        "variances are in the offsets",
        [f32(0.25, 0.5, -0.25, 1)[None], f32(0, 0.5)[None], priors(A, variance=None)],
        out([0, 1, 0.5, 0.25, 0.5, 0.25, 1.25], count=1),
        {**SIMPLE, "keep_top_k": [1], "variance_encoded_in_target": True},
    ),
    Sample(
        # The center of A, (0.25, 0.125), moves by 0.5 * 0.5 * 0.5 and 0.5 * 1 * 0.25; its size
        # grows twice and three times.
        "center and size",
        [f32(0.5, 1, 2 * math.log(2), 2 * math.log(3))[None], f32(0, 0.5)[None], priors(A)],
        out([0, 1, 0.5, -0.125, -0.125, 0.875, 0.625], count=1),
        {**SIMPLE, "keep_top_k": [1], "code_type": CENTER},
    ),
    Sample(
        "priors in pixels, with a number in front",
        [
            STILL[:, :4],
            f32(0, 0.5)[None],
            f32(7, 2, 5, 4, 10, 0.5, 0.5, 0.5, 0.5, 9).reshape(1, 2, 5),
        ],
        out([0, 1, 0.5, 0.25, 0.5, 0.5, 1], count=1),
        {**SIMPLE, "keep_top_k": [1], "normalized": False, "input_width": 8, "input_height": 10},
    ),
    Sample(
        "boxes of each class",
        [f32(9, 9, 9, 9, 0.25, 0, 0.25, 0)[None], f32(0.9, 0.5)[None], priors(A)],
        out([0, 1, 0.5, *B], count=1),
        {**SIMPLE, "keep_top_k": [1], "share_location": False},
    ),
    Sample(
        "as in MXNet: the best class of each box, numbered from 0",
        [STILL, CONFIDENCE, ABC],
        out([0, 0, 0.75, *B], [0, 0, 0.625, *C], count=5),
        {**SIMPLE, "decrease_label_id": True},
    ),
    Sample(
        "as in MXNet: the best two of all, from the threshold up",
        [STILL, CONFIDENCE, ABC],
        out([0, 0, 0.75, *B], [0, 0, 0.625, *C], [0, 0, 0.5, *A], count=5),
        {**SIMPLE, "decrease_label_id": True, "nms_threshold": 0.7, "confidence_threshold": 0.5},
    ),
    Sample(
        "two images, priors of both",
        [np.tile(STILL[:, :4], (2, 1)), f32(0, 0.5, 0, 0.25).reshape(2, 2), priors(A)],
        out([0, 1, 0.5, *A], [1, 1, 0.25, *A], count=6),
        {**SIMPLE, "keep_top_k": [3]},
    ),
    Sample(
        "two images, priors of each",
        [
            np.tile(STILL[:, :4], (2, 1)),
            f32(0, 0.5, 0, 0.25).reshape(2, 2),
            np.concatenate([priors(A), priors(C)]),
        ],
        out([0, 1, 0.5, *A], [1, 1, 0.25, *C], count=2),
        {**SIMPLE, "keep_top_k": [1]},
    ),
    Sample(
        # Moved by 0.25 * 0.5, then again; B is not an object.
        "priors moved first, and boxes that are no objects",
        [
            f32(*[0.125, 0, 0.125, 0] * 2)[None],
            CONFIDENCE[:, :6],
            priors(A, B),
            f32(0.5, 0.5, 0.75, 0.25)[None],
            f32(*[0.125, 0, 0.125, 0] * 2)[None],
        ],
        out([0, 1, 0.5, *B], [0, 2, 0.25, *B], count=5),
        {**SIMPLE, "objectness_score": 0.5},
    ),
    Sample(
        "five inputs in pixels",
        [
            f32(0.5, 0, 0.5, 0)[None],
            f32(0, 0.5)[None],
            f32(7, 0, 0, 4, 2, 0.5, 0.5, 0.5, 0.5, 9).reshape(1, 2, 5),
            f32(0, 1)[None],
            STILL[:, :4],
        ],
        out([0, 1, 0.5, 0.25, 0, 0.75, 0.25], count=1),
        {**SIMPLE, "keep_top_k": [1], "normalized": False, "input_width": 8, "input_height": 8},
        openvino=TWICE,
    ),
    Sample(
        "a NaN is no confidence",
        [STILL, f32(0, 0.5, 0.25, 0, math.nan, 0, 0, math.nan, 0.125)[None], ABC],
        out([0, 1, 0.5, *A], [0, 2, 0.25, *A], [0, 2, 0.125, *C], count=5),
        SIMPLE,
    ),
]
NO_PRIORS = Sample(
    "no priors",
    [STILL[:, :0], CONFIDENCE[:, :0], ABC[..., :0]],
    out(count=5),
    {**SIMPLE, "num_classes": 3},
    openvino="OpenVINO wants at least one",
)
REFUSALS = [
    Refusal(
        "four inputs",
        [STILL, CONFIDENCE, ABC, np.zeros((1, 6), "f4")],
        "expected 3 or 5 inputs, got 4",
        SIMPLE,
    ),
    Refusal(
        "rank 3",
        [STILL[None], CONFIDENCE, ABC],
        r"'box_logits': expected rank 2, got shape \[1,1,12\]",
        SIMPLE,
    ),
    Refusal(
        "another batch",
        [STILL, np.tile(CONFIDENCE, (2, 1)), ABC],
        r"'class_preds': expected a batch of 1, got shape \[2,9\]",
        SIMPLE,
    ),
    Refusal(
        "priors of another batch",
        [STILL, CONFIDENCE, np.tile(ABC, (2, 1, 1))],
        r"'proposals': expected a batch of 1 or 1, got shape \[2,2,12\]",
        SIMPLE,
    ),
    Refusal(
        "no variances",
        [STILL, CONFIDENCE, ABC[:, :1]],
        r"'proposals': expected a second dimension of 2, got shape \[1,1,12\]",
        SIMPLE,
    ),
    Refusal(
        "priors in pixels",
        [STILL, CONFIDENCE, ABC],
        r"'proposals': expected a multiple of 5 as its last dimension, got \[1,2,12\]",
        {**SIMPLE, "normalized": False},
    ),
    Refusal(
        "other number of boxes",
        [STILL[:, :8], CONFIDENCE, ABC],
        r"'box_logits': expected numbers for 3 priors, got \[1,8\]",
        SIMPLE,
    ),
    Refusal(
        "keep nothing",
        [STILL, CONFIDENCE, ABC],
        "'keep_top_k': expected a list that begins with a number of at least -1, got",
        {**SIMPLE, "keep_top_k": []},
    ),
    Refusal(
        "top_k",
        [STILL, CONFIDENCE, ABC],
        "'top_k': expected at least -1, got -2",
        {**SIMPLE, "top_k": -2},
    ),
    Refusal(
        "size of the image",
        [STILL, CONFIDENCE, ABC],
        "'input_width': expected at least 1, got 0",
        {**SIMPLE, "input_width": 0},
    ),
]
REFUSALS_8 = [
    Refusal(
        "no priors",
        [STILL[:, :0], CONFIDENCE, ABC[..., :0]],
        "expected at least one prior, got proposals",
        SIMPLE,
    ),
    Refusal(
        "no classes",
        [STILL, CONFIDENCE[:, :0], ABC],
        "expected at least one class, got class_preds",
        SIMPLE,
    ),
    Refusal(
        "part of a class",
        [STILL, CONFIDENCE[:, :8], ABC],
        "'class_preds': expected a multiple of 3 as its last dimension",
        SIMPLE,
    ),
]


def of_three(items: list[Any]) -> list[Any]:
    """The same for version 1, which is told the number of classes."""
    changed = []
    for item in items:
        count = (
            1
            if isinstance(item, Refusal)
            else item.case.inputs[1].shape[1] * 4 // item.case.inputs[0].shape[1]
        )
        if isinstance(item, Refusal) or not item.attributes.get("share_location", True):
            count = 3 if isinstance(item, Refusal) else 2
        changed.append(
            type(item)(**{**vars(item), "attributes": {**item.attributes, "num_classes": count}})
        )
    return changed


@st.composite
def cases(draw: st.DrawFn, told: bool) -> Case:
    images, count, classes = (
        draw(st.integers(0, 2)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
    )
    attributes: dict[str, Any] = {
        "background_label_id": draw(st.integers(-1, 1)),
        "top_k": draw(st.sampled_from([-1, 0, 2])),
        "variance_encoded_in_target": draw(st.booleans()),
        "keep_top_k": (draw(st.sampled_from([-1, 0, 1, 3, 7])),),
        "code_type": draw(st.sampled_from([CENTER, CENTER.replace("CENTER_SIZE", "CORNER")])),
        "share_location": draw(st.booleans()),
        # Values that no ratio of small areas is just beside of once they are rounded.
        "nms_threshold": draw(st.sampled_from([0.26, 0.51])),
        "confidence_threshold": draw(st.sampled_from([0.0, 0.25])),
        "normalized": draw(st.booleans()),
        "objectness_score": 0.5,
        **{
            k: draw(st.booleans())
            for k in ("clip_after_nms", "clip_before_nms", "decrease_label_id")
        },
    }
    if told:
        attributes["num_classes"] = classes
    size = 4
    if not attributes["normalized"]:
        attributes |= {"input_height": 2, "input_width": 4}
        size = 5
    per = 1 if attributes["share_location"] else classes
    rows = 1 if attributes["variance_encoded_in_target"] else 2
    logits, name = draw(arrays((images, count * per * 4), FLOATS, -1, 1))
    scores, _ = draw(arrays((images, count * classes), (name,), -1, 2))
    given_priors, _ = draw(
        arrays((draw(st.sampled_from(sorted({1, images or 1}))), rows, count * size), (name,), 0, 2)
    )
    inputs = [logits, scores, given_priors]
    if draw(st.booleans()):
        inputs += [
            draw(arrays((images, count * 2), (name,), 0, 1))[0],
            draw(arrays(logits.shape, (name,), -1, 1))[0],
        ]
    return Case(inputs, attributes, [name] * len(inputs))


def loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    arrays_ = [
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    ]
    logits, scores, prior = arrays_[:3]
    size = 4 if at["normalized"] else 5
    count = prior.shape[2] // size
    classes = scores.shape[1] // count
    per = 1 if at["share_location"] else classes
    exact = np.float64 if case.types[0] is ElementType.f64 else np.float32
    everything = []

    def decoded(box: list[float], variance: list[float], offset: list[float]) -> list[float]:
        moves = [v * o for v, o in zip(variance, offset, strict=True)]
        if at["code_type"] == CENTER:
            sides = [box[2] - box[0], box[3] - box[1]]
            middle = [(box[i] + box[i + 2]) / 2 + moves[i] * sides[i] for i in (0, 1)]
            half = [math.exp(moves[i + 2]) * sides[i] / 2 for i in (0, 1)]
            result = [
                middle[0] - half[0],
                middle[1] - half[1],
                middle[0] + half[0],
                middle[1] + half[1],
            ]
        else:
            result = [b + m for b, m in zip(box, moves, strict=True)]
        return [min(max(v, 0.0), 1.0) for v in result] if at["clip_before_nms"] else result

    for image in range(len(logits)):
        own = prior[image if len(prior) > 1 else 0]
        boxes, confidence = {}, {}
        for p in range(count):
            box = own[0][p * size + size - 4 : p * size + size].tolist()
            if size == 5:
                box = [v / s for v, s in zip(box, (4, 2, 4, 2), strict=True)]
            variance = own[1][4 * p : 4 * p + 4].tolist() if len(own) == 2 else [1.0] * 4
            for c in range(per):
                place = slice((p * per + c) * 4, (p * per + c) * 4 + 4)
                start = (
                    decoded(box, variance, arrays_[4][image][place].tolist())
                    if len(arrays_) == 5
                    else box
                )
                boxes[p, c] = decoded(start, variance, logits[image][place].tolist())
            for c in range(classes):
                confidence[p, c] = scores[image][p * classes + c]
                if len(arrays_) == 5 and arrays_[3][image][2 * p + 1] < 0.5:
                    confidence[p, c] = float(c == at["background_label_id"])
        wanted: dict[int, list[int]] = {
            c: [] for c in range(classes) if c != at["background_label_id"]
        }
        if at["decrease_label_id"]:
            pairs = []
            for p in range(count):
                choice = [c for c in wanted if c > 0 and confidence[p, c] > -1]
                if choice:
                    best = max(choice, key=lambda c: (confidence[p, c], -c))
                    if confidence[p, best] >= at["confidence_threshold"]:
                        pairs.append((-confidence[p, best], p, best))
            for _, p, c in sorted(pairs)[: None if at["top_k"] < 0 else at["top_k"]]:
                wanted[c].append(p)
        else:
            for c, of_class in wanted.items():
                order = sorted(
                    (-confidence[p, c], p)
                    for p in range(count)
                    if confidence[p, c] > at["confidence_threshold"]
                )
                of_class += [p for _, p in order[: None if at["top_k"] < 0 else at["top_k"]]]
        found = []
        for c, of_class in wanted.items():
            kept: list[int] = []
            for p in of_class:
                here = [boxes[q, 0 if per == 1 else c] for q in (*kept, p)]
                if all(
                    intersection_over_union(here[-1], other) <= at["nms_threshold"]
                    for other in here[:-1]
                ):
                    kept.append(p)
            found += [(c, p) for p in kept]
        if 0 <= at["keep_top_k"][0] < len(found):
            found = sorted(
                sorted(found, key=lambda f: (-confidence[f[1], f[0]], f[1], f[0]))[
                    : at["keep_top_k"][0]
                ],
                key=lambda f: f[0],
            )
        for c, p in found:
            box = boxes[p, 0 if per == 1 else c]
            if at["clip_after_nms"]:
                box = [min(max(v, 0.0), 1.0) for v in box]
            everything.append([image, c - at["decrease_label_id"], confidence[p, c], *box])
    keep = at["keep_top_k"][0]
    total = (
        keep
        if keep > 0
        else at["top_k"] * classes
        if keep == -1 and at["top_k"] > 0
        else count * classes
    )
    table = np.zeros((total * len(logits), 7), exact)
    for place, row in enumerate(everything):
        table[place] = row
    if len(everything) < len(table):
        table[len(everything), 0] = -1
    return [table[None, None]]


SAMPLES = [
    Samples(DetectionOutput1, [*of_three(ALL), NO_PRIORS], of_three(REFUSALS), cases(True), loop),
    Samples(DetectionOutput8, ALL, REFUSALS + REFUSALS_8, cases(False), loop),
]
