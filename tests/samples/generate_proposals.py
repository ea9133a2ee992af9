"""GenerateProposals-9, ExperimentalDetectronGenerateProposalsSingleImage-6. Hand work on boxes with
overlaps of 0.5 and 0.6.
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
from uncork.ops.generate_proposals import GenerateProposals9, GenerateProposalsSingleImage6
from uncork.types import ElementType

ETA = "OpenVINO wants nms_eta of 1"
# B shares 3/5 of its union with A, D is half of C; all of height 2.
A, B, C, D = [0, 0, 4, 2], [1, 0, 5, 2], [6, 0, 10, 2], [8, 0, 10, 2]
# One cell with four anchors, then 2 x 2 cells with one.
ONE_CELL, FOUR_CELLS = (
    f32(*A, *B, *C, *D).reshape(1, 1, 4, 4),
    f32(*A, *B, *C, *D).reshape(2, 2, 1, 4),
)
SCORES = f32(0.5, 0.75, 0.25, 0.875)
STILL = np.zeros((1, 16, 1, 1), np.float32)
IMAGE = f32(50, 100, 1)[None]
BASE = {"min_size": 0.0, "nms_threshold": 0.55, "pre_nms_count": 10, "post_nms_count": 10}


def given(
    scores: np.ndarray = SCORES, deltas: np.ndarray = STILL, image: np.ndarray = IMAGE
) -> list[np.ndarray]:
    return [image, ONE_CELL, deltas, scores.reshape(1, 4, 1, 1)]


def out(
    *rows: tuple[float, list[float]], counts: tuple[int, ...] = (), dtype: Any = np.int64
) -> list[np.ndarray]:
    boxes = f32(*[v for _, box in rows for v in box]).reshape(-1, 4)
    return [boxes, f32(*[s for s, _ in rows]), np.array(counts or (len(rows),), dtype)]


def single(*deltas: float) -> list[np.ndarray]:
    """One anchor of 4 x 2 at (6, 4)."""
    return [
        IMAGE,
        f32(6, 4, 10, 6).reshape(1, 1, 1, 4),
        f32(*deltas).reshape(1, 4, 1, 1),
        f32(0.5).reshape(1, 1, 1, 1),
    ]


EXAMPLES = [
    Sample("B beats A", given(), out((0.875, D), (0.75, B), (0.25, C)), BASE),
    Sample(
        "overlaps of 0.6 stay too",
        given(),
        out((0.875, D), (0.75, B), (0.5, A), (0.25, C)),
        {**BASE, "nms_threshold": 0.65},
    ),
    Sample("the best two", given(), out((0.875, D), (0.75, B)), {**BASE, "post_nms_count": 2}),
    Sample("of the best three", given(), out((0.875, D), (0.75, B)), {**BASE, "pre_nms_count": 3}),
    # Scales of height and width: the sides of D are 2, the others 4 wide.
    Sample(
        "too narrow",
        given(image=f32(50, 100, 0, 1)[None]),
        out((0.75, B), (0.25, C)),
        {**BASE, "min_size": 2.5},
    ),
    Sample("nothing high enough", given(), out(counts=(0,)), {**BASE, "min_size": 2.5}),
    # The order of scores and deltas is that of the anchors, cell by cell.
    Sample(
        "four cells",
        [IMAGE, FOUR_CELLS, STILL.reshape(1, 4, 2, 2), SCORES.reshape(1, 1, 2, 2)],
        out((0.875, D), (0.75, B), (0.25, C)),
        BASE,
    ),
    Sample("moved", single(0.25, 0.5, 0, 0), out((0.5, [7, 5, 11, 7])), BASE),
    Sample("grown", single(0, 0, math.log(2), math.log(0.5)), out((0.5, [4, 4.5, 12, 5.5])), BASE),
    Sample(
        "grown no more than 1000 / 16 times",
        [f32(500, 1000, 1)[None], *single(0, 0, 9, 0)[1:]],
        out((0.5, [0, 4, 133, 6])),
        BASE,
    ),
    Sample(
        "cut to the image",
        [f32(5, 9, 1)[None], *single(0, 0, 0, 0)[1:]],
        out((0.5, [6, 4, 9, 5])),
        BASE,
    ),
    # Of pixels the anchor is 5 x 3 with its center at (8.5, 5.5).
    Sample(
        "moved, of pixels",
        single(0.2, 1, 0, 0),
        out((0.5, [7, 7, 11, 9])),
        {**BASE, "normalized": False},
    ),
    Sample(
        "cut to the image, of pixels",
        [f32(5, 9, 1)[None], *single(0, 0, 0, 0)[1:]],
        out((0.5, [6, 4, 8, 4])),
        {**BASE, "normalized": False},
    ),
    # 4 x 3 of 5 x 3 pixels: 12 / 18; 3 x 3 of 5 x 3: 9 / 15.
    Sample(
        "overlaps of pixels", given(), out((0.875, D), (0.75, B)), {**BASE, "normalized": False}
    ),
    Sample(
        "two images, i32",
        [
            np.tile(IMAGE, (2, 1)),
            ONE_CELL,
            np.tile(STILL, (2, 1, 1, 1)),
            np.stack([SCORES, SCORES[::-1]]).reshape(2, 4, 1, 1),
        ],
        out(
            (0.875, D),
            (0.75, B),
            (0.25, C),
            (0.875, A),
            (0.75, C),
            (0.5, D),
            counts=(3, 3),
            dtype=np.int32,
        ),
        {**BASE, "roi_num_type": ElementType.i32},
    ),
    # 0.65 for D, then 0.65 * 0.8 = 0.52 for B, which removes A, then 0.416: but C had passed D's
    # 0.52.
    Sample(
        "the threshold falls",
        given(),
        out((0.875, D), (0.75, B), (0.25, C)),
        {**BASE, "nms_threshold": 0.65, "nms_eta": 0.8},
        openvino=ETA,
    ),
    Sample(
        "nothing wanted",
        given(),
        out(counts=(0,)),
        {**BASE, "post_nms_count": 0},
        openvino="OpenVINO wants post_nms_count above 0",
    ),
    Sample(
        "no images",
        [IMAGE[:0], ONE_CELL, STILL[:0], SCORES.reshape(1, 4, 1, 1)[:0]],
        [*out()[:2], np.zeros(0, "i8")],
        BASE,
    ),
]
REFUSALS = [
    Refusal(
        "two numbers of the image",
        [IMAGE[:, :2], *given()[1:]],
        r"'im_info': expected 3 or 4 numbers an image, got \[1,2\]",
        BASE,
    ),
    Refusal(
        "other anchors",
        [IMAGE, ONE_CELL[:, :, :3], *given()[2:]],
        r"'deltas': expected \[N = 1, 4 \* A = 12, H = 1, W = 1\], got \[1,16,1,1\]",
        BASE,
    ),
    Refusal(
        "another size",
        [IMAGE, FOUR_CELLS, STILL.reshape(1, 4, 2, 2), SCORES.reshape(1, 1, 1, 4)],
        "'scores': expected .N = 1, A = 1, H = 2, W = 2., got",
        BASE,
    ),
    Refusal(
        "negative size",
        given(),
        "'min_size': expected a number of at least 0, got -1",
        {**BASE, "min_size": -1.0},
    ),
    Refusal(
        "negative count",
        given(),
        "'pre_nms_count': expected a number from 0 to 2147483647, got -1",
        {**BASE, "pre_nms_count": -1},
    ),
    Refusal(
        "eta", given(), "'nms_eta': expected a number from 0 to 1, got 2", {**BASE, "nms_eta": 2.0}
    ),
    Refusal(
        "type of counts",
        given(),
        "'roi_num_type': expected i32 or i64, got f32",
        {**BASE, "roi_num_type": ElementType.f32},
    ),
]


def alone(scores: np.ndarray = SCORES, image: np.ndarray = IMAGE) -> list[np.ndarray]:
    return [image[0], ONE_CELL.reshape(4, 4), STILL[0], scores.reshape(4, 1, 1)]


def filled(*rows: tuple[float, list[float]], count: int = 3) -> list[np.ndarray]:
    rows = (*rows, *[(0.0, [0.0] * 4)] * (count - len(rows)))
    return out(*rows)[:2]


# Anchors are of pixels, but overlaps are counted without the last pixel; C ends at 10, a pixel
# before the image.
FIXED = {**BASE, "post_nms_count": 3}
NARROW = f32(*[0] * 14, math.log(0.5), 0).reshape(16, 1, 1)
ALONE = [
    Sample("B beats A", alone(), filled((0.875, D), (0.75, B), (0.25, C)), FIXED),
    Sample(
        "fewer than wanted",
        alone(),
        filled((0.875, D), (0.75, B), (0.25, C), count=5),
        {**FIXED, "post_nms_count": 5},
    ),
    Sample(
        "the best two",
        alone(),
        filled((0.875, D), (0.75, B), count=2),
        {**FIXED, "post_nms_count": 2},
    ),
    Sample(
        "of the best three", alone(), filled((0.875, D), (0.75, B)), {**FIXED, "pre_nms_count": 3}
    ),
    Sample(
        "moved",
        [
            IMAGE[0],
            f32(6, 4, 10, 6)[None],
            f32(0.2, 1, 0, 0).reshape(4, 1, 1),
            f32(0.5).reshape(1, 1, 1),
        ],
        filled((0.5, [7, 7, 11, 9]), count=1),
        {**FIXED, "post_nms_count": 1},
    ),
    Sample(
        "cut to the image",
        alone(image=f32(2, 10, 1)[None]),
        filled((0.875, [8, 0, 9, 1]), (0.75, [1, 0, 5, 1]), (0.25, [6, 0, 9, 1])),
        FIXED,
    ),
    Sample(
        "four cells",
        [IMAGE[0], FOUR_CELLS.reshape(4, 4), STILL.reshape(4, 2, 2), SCORES.reshape(1, 2, 2)],
        filled((0.875, D), (0.75, B), (0.25, C)),
        FIXED,
    ),
    # The 3 pixels of D become 1.5 around 9.5, less than 2: a score of 0.
    Sample(
        "too narrow",
        [*alone()[:2], NARROW, alone()[3]],
        filled((0.75, B), (0.25, C), (0, [8.75, 0, 9.25, 2])),
        {**FIXED, "min_size": 2.0},
    ),
    Sample(
        "nothing wanted",
        alone(),
        filled(count=0),
        {**FIXED, "post_nms_count": 0},
        openvino="OpenVINO crashes",
    ),
]
ALONE_REFUSALS = [
    Refusal(
        "four numbers of the image",
        [f32(1, 2, 3, 4), *alone()[1:]],
        r"'im_info': expected \[3 = 3\], got \[4\]",
        FIXED,
    ),
    Refusal(
        "other number of anchors",
        [alone()[0], alone()[1][:3], *alone()[2:]],
        "'anchors': expected 4 boxes, H . W . A of the scores, got 3",
        FIXED,
    ),
    Refusal(
        "other number of deltas",
        [*alone()[:2], STILL[0, :12], alone()[3]],
        r"'deltas': expected \[4 \* A = 16, H = 1, W = 1\], got \[12,1,1\]",
        FIXED,
    ),
    Refusal(
        "negative count",
        alone(),
        "'post_nms_count': expected a number from 0 to 2147483647, got -1",
        {**FIXED, "post_nms_count": -1},
    ),
]


@st.composite
def cases(draw: st.DrawFn, batched: bool) -> Case:
    images, anchors, rows, columns = (
        draw(st.integers(0, 2)) if batched else 1,
        draw(st.integers(1, 3)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 3)),
    )
    attributes: dict[str, Any] = {
        # Sizes of boxes are multiples of 1/8, or what the image leaves of them.
        "min_size": draw(st.sampled_from([0.0, 1.3])) if batched else 0.0,
        # Values that no ratio of small areas is just beside of once they are rounded.
        "nms_threshold": draw(st.sampled_from([0.26, 0.51, 0.76])),
        "pre_nms_count": draw(st.sampled_from([0, 1, 3, 30])),
        "post_nms_count": draw(st.integers(0, 5)),
    }
    if batched:
        attributes |= {
            "normalized": draw(st.booleans()),
            "nms_eta": draw(st.sampled_from([1.0, 0.7])),
        }
        attributes["roi_num_type"] = draw(st.sampled_from([ElementType.i32, ElementType.i64]))
    element_type = ElementType.parse(draw(st.sampled_from(FLOATS)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low = generator.integers(0, 6, (rows, columns, anchors, 2))
    boxes = np.concatenate([low, low + 2 * generator.integers(0, 4, low.shape)], axis=-1)
    deltas = generator.integers(-2, 3, (images, 4 * anchors, rows, columns)) / 4
    for channel in range(4 * anchors):
        if channel % 4 >= 2:
            deltas[:, channel] = 0
    count = anchors * rows * columns
    scores = np.array([distinct_scores(count, generator) for _ in range(images)]).reshape(
        images, anchors, rows, columns
    )
    info = np.concatenate(
        [
            generator.integers(4, 12, (images, 2)),
            np.ones((images, draw(st.integers(1, 2)) if batched else 1)),
        ],
        axis=1,
    )
    inputs = (
        [info, boxes, deltas, scores]
        if batched
        else [info[0], boxes.reshape(-1, 4), deltas[0], scores[0]]
    )
    wide = np.float64 if element_type is ElementType.f64 else np.float32
    return Case(
        [storage.encode(np.asarray(a, wide), element_type) for a in inputs],
        attributes,
        [element_type.name] * 4,
    )


def loop(case: Case, batched: bool) -> list[np.ndarray]:
    at = case.attributes
    info, anchors, deltas, scores = (
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    )
    if not batched:
        info, deltas, scores = info[None], deltas[None], scores[None]
        anchors = anchors.reshape(*scores.shape[2:], scores.shape[1], 4)
    pixel = 0 if at.get("normalized", not batched) and batched else 1
    regions, values, counts = [], [], []
    for image in range(len(info)):
        boxes, own = [], []
        for y, x, a in itertools.product(*map(range, anchors.shape[:3])):
            box = moved_box(
                anchors[y, x, a].tolist(),
                deltas[image, 4 * a : 4 * a + 4, y, x].tolist(),
                pixel,
                math.log(1000 / 16),
            )
            boxes.append(
                cut(
                    [box[0], box[1], box[2] - pixel, box[3] - pixel],
                    info[image, 1] - pixel,
                    info[image, 0] - pixel,
                )
            )
            own.append(scores[image, a, y, x])
        order = sorted(range(len(own)), key=lambda i: -own[i])[: at["pre_nms_count"]]
        order = [
            i
            for i in order
            if all(boxes[i][axis + 2] - boxes[i][axis] + pixel >= at["min_size"] for axis in (0, 1))
        ]
        overlap_pixel = pixel if batched else 0
        taken = apart_from_better(
            boxes,
            order,
            at["nms_threshold"],
            at["post_nms_count"],
            overlap_pixel,
            at.get("nms_eta", 1.0),
        )
        regions += [boxes[i] for i in taken]
        values += [own[i] for i in taken]
        counts.append(len(taken))
    if batched:
        return [
            np.array(regions, float).reshape(-1, 4),
            np.array(values, float),
            np.array(counts, at["roi_num_type"].dtype),
        ]
    missing = at["post_nms_count"] - len(values)
    return [
        np.array(regions + [[0.0] * 4] * missing, float).reshape(-1, 4),
        np.array(values + [0.0] * missing, float),
    ]


SAMPLES = [
    Samples(GenerateProposals9, EXAMPLES, REFUSALS, cases(True), lambda c: loop(c, True)),
    Samples(
        GenerateProposalsSingleImage6, ALONE, ALONE_REFUSALS, cases(False), lambda c: loop(c, False)
    ),
]
