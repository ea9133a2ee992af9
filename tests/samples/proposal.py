"""Proposal-1, -4. Hand work with one anchor a cell and deltas of 0, on images large enough to leave
boxes as they are.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS
from tests.samples._proposals import apart_from_better, cut, distinct_scores, f32, moved_box
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.proposal import Proposal1, Proposal4
from uncork.types import ElementType

UNSET = "OpenVINO leaves the scores past the last region uninitialised"
# An anchor of 4 pixels in a cell: from 0 to 3. It ends at center + 2, the 4th pixel.
BASE = {
    "base_size": 4,
    "pre_nms_topn": 10,
    "post_nms_topn": 2,
    "nms_thresh": 0.5,
    "feat_stride": 8,
    "min_size": 1,
    "ratio": [1.0],
    "scale": [1.0],
}
LARGE = f32(100, 200, 1)
# Cells beside each other, 8 apart; the first two are the ones to find, OpenVINO crashes on fewer
# than 8. Channels: no object, object.
OTHERS = [(10 - place) / 128 for place in range(2, 8)]
SCORES = f32(*[0.5] * 8, 0.25, 0.75, *OTHERS).reshape(1, 2, 1, 8)
SWAPPED = f32(*[0.5] * 8, 0.75, 0.25, *OTHERS).reshape(1, 2, 1, 8)
STILL = np.zeros((1, 4, 1, 8), np.float32)
# A heap of places 0 to 7 with equal scores is first 6 4 2 7 1 5 0 3; emptied from the back it
# leaves this order.
LIKE = [[0, 8 * n, 0, 8 * n + 4, 4] for n in (7, 4, 1, 3, 5, 0, 2, 6)]


def out(*rows: list[float], scores: list[float]) -> list[np.ndarray]:
    return [f32(*[v for r in rows for v in r]).reshape(-1, 5), f32(*scores)]


def one(*deltas: float, **more: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """A single cell."""
    return [f32(0.5, 0.5).reshape(1, 2, 1, 1), f32(*deltas).reshape(1, 4, 1, 1), LARGE], {
        **BASE,
        "post_nms_topn": 1,
        **more,
    }


def single(name: str, deltas: list[float], box: list[float], **more: Any) -> Sample:
    inputs, attributes = one(*deltas, **more)
    return Sample(name, inputs, out([0, *box], scores=[0.5]), attributes)


ALL = [
    Sample(
        "two cells, the better first",
        [SCORES, STILL, LARGE],
        out([0, 8, 0, 12, 4], [0, 0, 0, 4, 4], scores=[0.75, 0.25]),
        BASE,
    ),
    Sample(
        "one wanted",
        [SCORES, STILL, LARGE],
        out([0, 8, 0, 12, 4], scores=[0.75]),
        {**BASE, "post_nms_topn": 1},
    ),
    Sample(
        "one looked at",
        [SCORES, STILL, LARGE],
        out([0, 8, 0, 12, 4], [-1, 0, 0, 0, 0], scores=[0.75, 0]),
        {**BASE, "pre_nms_topn": 1},
        openvino="OpenVINO crashes when it may look at fewer than it gives",
    ),
    Sample(
        # 2 apart, so 5 x 5 pixels share 3 x 5: 15 / 35 = 0.43.
        "cells that overlap too much",
        [SCORES, STILL, LARGE],
        out([0, 2, 0, 6, 4], [0, 6, 0, 10, 4], scores=[0.75, 7 / 128]),
        {**BASE, "feat_stride": 2, "nms_thresh": 0.4},
    ),
    Sample(
        "cells that overlap little enough",
        [SCORES, STILL, LARGE],
        out([0, 2, 0, 6, 4], [0, 0, 0, 4, 4], scores=[0.75, 0.25]),
        {**BASE, "feat_stride": 2, "nms_thresh": 0.45},
    ),
    # The anchor's center is (2, 2) and its size 4.
    single("moved", [0.5, 1, 0, 0], [2, 4, 6, 8]),
    single("grown", [0.5, 0.5, math.log(2), math.log(0.5)], [0, 3, 8, 5]),
    single(
        "scales of deltas",
        [5, 10, math.log(2) * 2, 0],
        [0, 4, 8, 8],
        box_coordinate_scale=10.0,
        box_size_scale=2.0,
    ),
    # 16 / 4 = 4, so 2 x 8: half sizes 0.5 and 3.5 around 1.5, then a pixel late.
    single("a ratio", [0, 0, 0, 0], [1, 0, 3, 6], ratio=[4.0]),
    single("a scale", [1, 1, 0, 0], [6, 6, 14, 14], scale=[2.0]),
    single("not cut", [-1, 0, 0, 0], [-4, 0, 0, 4], clip_before_nms=False),
    single("cut after", [-0.5, 0, 0, 0], [0, 0, 2, 4], clip_before_nms=False, clip_after_nms=True),
    single("as parts of the image", [0.5, 1, 0, 0], [0.01, 0.04, 0.03, 0.08], normalize=True),
    # Anchors around the corner of the cell, -2 to 2, are first cut to 0 to 2.
    single("tensorflow", [0.5, 1, 0, 0], [1, 2, 3, 4], framework="tensorflow"),
    Sample(
        # The first coordinate goes with rows, and is cut at the height of 3.
        "tensorflow: y first",
        [SCORES.swapaxes(2, 3).copy(), STILL.swapaxes(2, 3).copy(), f32(9, 1, 1)],
        out([0, 6, 0, 9, 1], [0, 0, 0, 2, 1], scores=[0.75, 0.25]),
        {**BASE, "framework": "tensorflow"},
    ),
    Sample(
        "cut at the image",
        [SCORES, STILL, f32(4, 11, 1)],
        out([0, 8, 0, 10, 3], [0, 0, 0, 4, 3], scores=[0.75, 0.25]),
        BASE,
    ),
    Sample(
        "too small: scores of 0",
        [SCORES, STILL, LARGE],
        out(*LIKE[:2], scores=[0, 0]),
        {**BASE, "min_size": 6},
    ),
    Sample(
        "too small for the scale of one side",
        [SCORES, STILL, f32(100, 200, 1, 3)],
        out(*LIKE[:2], scores=[0, 0]),
        {**BASE, "min_size": 2},
    ),
    Sample(
        "two images",
        [np.concatenate([SCORES, SWAPPED]), np.tile(STILL, (2, 1, 1, 1)), LARGE],
        out(
            [0, 8, 0, 12, 4],
            [0, 0, 0, 4, 4],
            [1, 0, 0, 4, 4],
            [1, 8, 0, 12, 4],
            scores=[0.75, 0.25] * 2,
        ),
        BASE,
    ),
    Sample(
        "equal scores",
        [np.full((1, 2, 1, 8), 0.5, "f4"), STILL, LARGE],
        out(*LIKE, scores=[0.5] * 8),
        {**BASE, "post_nms_topn": 8},
    ),
    Sample(
        "fewer than wanted",
        [SCORES, STILL, f32(100, 4, 1)],
        out([0, 3, 0, 3, 4], [0, 0, 0, 3, 4], [-1, 0, 0, 0, 0], [0] * 5, scores=[0.75, 0.25, 0, 0]),
        {**BASE, "post_nms_topn": 4},
        openvino=UNSET,
    ),
]
REFUSALS = [
    Refusal(
        "anchors and channels",
        [SCORES, STILL, LARGE],
        r"'class_probs': expected \[N, 4, H, W\] for 2 anchors, got \[1,2,1,8\]",
        {**BASE, "scale": [1.0, 2.0]},
    ),
    Refusal(
        "channels of deltas",
        [SCORES, STILL[:, :2], LARGE],
        r"'bbox_deltas': expected \[N, 4, H, W\] for 1 anchors, got \[1,2,1,8\]",
        BASE,
    ),
    Refusal(
        "another size",
        [SCORES, STILL[..., :1], LARGE],
        r"'class_probs' \[1,2,1,8\] and 'bbox_deltas' \[1,4,1,1\] differ in N, H or W",
        BASE,
    ),
    Refusal(
        "two numbers of the image",
        [SCORES, STILL, LARGE[:2]],
        r"'image_shape': expected 3 or 4 numbers, got shape \[2\]",
        BASE,
    ),
    Refusal(
        "no image",
        [SCORES, STILL, f32(0, 9, 1)],
        r"image_shape\[0\] is 0.0, expected height and width above 0, scales of at least 0",
        BASE,
    ),
    Refusal(
        "negative scale",
        [SCORES, STILL, f32(9, 9, 1, -1)],
        r"image_shape\[3\] is -1.0, expected height and width above 0",
        BASE,
    ),
    Refusal(
        "an endless image", [SCORES, STILL, f32(9, math.inf, 1)], r"image_shape\[1\] is inf", BASE
    ),
    Refusal(
        "no base",
        [SCORES, STILL, LARGE],
        "'base_size': expected a number from 1 to 2147483647, got 0",
        {**BASE, "base_size": 0},
    ),
    Refusal(
        "a ratio of 0",
        [SCORES, STILL, LARGE],
        "'ratio': expected a list of positive numbers, got",
        {**BASE, "ratio": [0.0]},
    ),
    Refusal(
        "no scales",
        [SCORES, STILL, LARGE],
        "'scale': expected a list of positive numbers, got",
        {**BASE, "scale": []},
    ),
    Refusal(
        "scale of deltas",
        [SCORES, STILL, LARGE],
        "'box_size_scale': expected a positive number, got 0",
        {**BASE, "box_size_scale": 0.0},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    images, rows, columns = (
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 3)),
    )
    attributes: dict[str, Any] = {
        "base_size": draw(st.integers(2, 6)),
        "pre_nms_topn": draw(st.sampled_from([1, 3, 30])),
        "post_nms_topn": draw(st.integers(1, 5)),
        # Values that no ratio of small areas is just beside of once they are rounded.
        "nms_thresh": draw(st.sampled_from([0.26, 0.51])),
        "feat_stride": draw(st.integers(1, 4)),
        "min_size": 1,
        "ratio": draw(st.sampled_from([[1.0], [0.25, 4.0], [2.0]])),
        "scale": draw(st.sampled_from([[1.0], [1.0, 2.0]])),
        "box_coordinate_scale": draw(st.sampled_from([1.0, 2.0])),
        "framework": draw(st.sampled_from(["", "tensorflow"])),
        **{k: draw(st.booleans()) for k in ("clip_before_nms", "clip_after_nms", "normalize")},
    }
    anchors = len(attributes["ratio"]) * len(attributes["scale"])
    element_type = ElementType.parse(draw(st.sampled_from(FLOATS)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = 2 * anchors * rows * columns
    scores = np.array([distinct_scores(count, generator) for _ in range(images)]).reshape(
        images, 2 * anchors, rows, columns
    )
    # Sizes that are doubled or left, so that half precision does not turn small differences into
    # others.
    deltas = generator.integers(-2, 3, (images, 4 * anchors, rows, columns)) / 4
    for channel in range(4 * anchors):
        if channel % 4 >= 2:
            deltas[:, channel] = 0
    # Scales of 0 let every box be large enough.
    info = np.array(
        [draw(st.integers(4, 20)), draw(st.integers(4, 20)), 0] + [0] * draw(st.integers(0, 1))
    )
    arrays = [
        storage.encode(
            np.asarray(a, np.float64 if element_type is ElementType.f64 else np.float32),
            element_type,
        )
        for a in (scores, deltas, info)
    ]
    return Case(arrays, attributes, [element_type.name] * 3)


def loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    scores, deltas, info = (
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    )
    flow = at["framework"] == "tensorflow"
    pixel = 0 if flow else 1
    height, width = info[:2]
    if flow:
        height, width = width, height
    anchors = []
    for ratio, scale in itertools.product(at["ratio"], at["scale"]):
        w = at["base_size"] / math.sqrt(ratio)
        w = w if flow else math.floor(w + 0.5)
        h = w * ratio if flow else math.floor(w * ratio + 0.5)
        middle = 0 if flow else (at["base_size"] - 1) / 2
        sides = [(w * scale - pixel) / 2, (h * scale - pixel) / 2]
        anchors.append([middle - sides[0], middle - sides[1], middle + sides[0], middle + sides[1]])
    regions, values = [], []
    for image in range(len(scores)):
        boxes, own = [], []
        for y, x, a in itertools.product(
            range(scores.shape[2]), range(scores.shape[3]), range(len(anchors))
        ):
            shift = [at["feat_stride"] * v for v in ((y, x) if flow else (x, y))] * 2
            box = [v + s for v, s in zip(anchors[a], shift, strict=True)]
            if flow:
                box = cut(box, width, height)
            delta = deltas[image, 4 * a : 4 * a + 4, y, x] / [at["box_coordinate_scale"]] * 1
            delta[2:] = deltas[image, 4 * a + 2 : 4 * a + 4, y, x]
            box = moved_box(box, delta.tolist(), pixel)
            boxes.append(cut(box, width - pixel, height - pixel) if at["clip_before_nms"] else box)
            # A box that is no box at all, its high end before its low, has no size.
            large = all(boxes[-1][i + 2] - boxes[-1][i] + pixel >= 0 for i in (0, 1))
            own.append(scores[image, len(anchors) + a, y, x] * large)
        order = sorted(range(len(own)), key=lambda i: -own[i])[: at["pre_nms_topn"]]
        taken = apart_from_better(boxes, order, at["nms_thresh"], at["post_nms_topn"], pixel)
        rows = []
        for i in taken:
            box = cut(boxes[i], width, height) if at["clip_after_nms"] else boxes[i]
            rows.append(
                [
                    image,
                    *(
                        [v / s for v, s in zip(box, (width, height) * 2, strict=True)]
                        if at["normalize"]
                        else box
                    ),
                ]
            )
        missing = at["post_nms_topn"] - len(rows)
        regions += rows + ([[-1, 0, 0, 0, 0]] + [[0] * 5] * (missing - 1) if missing else [])
        values += [own[i] for i in taken] + [0.0] * missing
    return [np.array(regions, float).reshape(-1, 5), np.array(values, float)]


SAMPLES = [
    Samples(
        Proposal1,
        [
            Sample(
                **{
                    **vars(s),
                    "outputs": s.outputs[:1],
                    "openvino": "" if s.openvino is UNSET else s.openvino,
                }
            )
            for s in ALL
        ],
        REFUSALS,
        cases(),
        lambda c: loop(c)[:1],
    ),
    Samples(Proposal4, ALL, REFUSALS, cases(), loop),
]
