"""ROIAlign-3, -9 and ROIAlignRotated-15 on an image whose value at row y and column x is 10 y + x:
read anywhere, it says where.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._regions import hat, images_and_boxes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.roi_align import ROIAlign3, ROIAlign9, ROIAlignRotated15


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


PLANE = f32([[[[10 * y + x for x in range(6)] for y in range(6)]]])
FIRST = np.array([0])
BINS = {"pooled_h": 2, "pooled_w": 2, "sampling_ratio": 1, "spatial_scale": 1.0, "mode": "avg"}
ONE = {"pooled_h": 1, "pooled_w": 1, "sampling_ratio": 1, "spatial_scale": 1.0, "mode": "avg"}


def box(*numbers: float) -> np.ndarray:
    return f32([numbers])


def reads(
    name: str, region: np.ndarray, expected: object, openvino: str = "", **attributes: Any
) -> Sample:
    return Sample(
        name,
        [PLANE, region, FIRST],
        [f32([[expected]])],
        {**BINS, **attributes},
        openvino=openvino,
        atol=1e-5,
    )


EXAMPLES = [
    # middles of the bins at 1.5 and 2.5
    reads("the middle of each bin", box(1, 1, 3, 3), [[16.5, 17.5], [26.5, 27.5]]),
    reads(
        "several cells: their mean is the same",
        box(1, 1, 3, 3),
        [[16.5, 17.5], [26.5, 27.5]],
        sampling_ratio=3,
    ),
    # cells at 1.25, 1.75, 2.25, 2.75
    reads(
        "the largest",
        box(1, 1, 3, 3),
        [[19.25, 20.25], [29.25, 30.25]],
        sampling_ratio=2,
        mode="max",
    ),
    # bins of 2 x 1: two rows of cells at 1.5, 2.5 and 3.5, 4.5
    reads(
        "as many cells as a bin has",
        box(1, 1, 3, 5),
        [[26.5, 27.5], [46.5, 47.5]],
        sampling_ratio=0,
        mode="max",
    ),
    reads("spatial_scale", box(2, 2, 6, 6), [[16.5, 17.5], [26.5, 27.5]], spatial_scale=0.5),
    reads("a box of no size becomes one cell", box(1, 1, 1, 0), [[13.75, 14.25], [18.75, 19.25]]),
    # columns -2 (nothing) and 0 (the border), rows 0
    reads("more than a cell outside reads 0", box(-3, -1, 1, 1), [[0, 0], [0, 5]]),
    # places 4.75, 5.25 (the border) and 6.5 (nothing)
    reads("the far border", box(4.5, 0, 5.5, 2), [[9.75, 10], [19.75, 20]]),
    Sample(
        "the largest is at least 0",
        [-PLANE - 1, box(1, 1, 3, 3), FIRST],
        [np.zeros((1, 1, 2, 2), "f4")],
        {**BINS, "mode": "max"},
    ),
    Sample(
        "each box in its image, all channels",
        [
            f32([1, 2, 3, 4]).reshape(2, 2, 1, 1),
            f32([[0, 0, 1, 1]] * 2),
            np.array([1, 0], np.int32),
        ],
        [f32([3, 4, 1, 2]).reshape(2, 2, 1, 1)],
        ONE,
    ),
    Sample(
        "no boxes",
        [PLANE, np.zeros((0, 4), "f4"), FIRST[:0]],
        [np.zeros((0, 1, 2, 2), "f4")],
        BINS,
        openvino="not for empty tensors",
    ),
]
EXAMPLES_9 = [
    # all places by half a cell less
    reads(
        "half_pixel_for_nn", box(1, 1, 3, 3), [[11, 12], [21, 22]], aligned_mode="half_pixel_for_nn"
    ),
    # corners (2 + .5) * .5 - .5 = .75 and (6 + .5) * .5 - .5 = 2.75
    reads(
        "half_pixel",
        box(2, 2, 6, 6),
        [[13.75, 14.75], [23.75, 24.75]],
        aligned_mode="half_pixel",
        spatial_scale=0.5,
    ),
    reads(
        "a box of no size stays one when aligned",
        box(1, 1, 1, 1),
        [[5.5, 5.5], [5.5, 5.5]],
        aligned_mode="half_pixel_for_nn",
    ),
    reads(
        "and has no cells when they are counted by its size",
        box(1, 1, 1, 1),
        [[0, 0], [0, 0]],
        "divides by 0",
        aligned_mode="half_pixel_for_nn",
        sampling_ratio=0,
    ),
]
TURNED = {"pooled_h": 1, "pooled_w": 2, "sampling_ratio": 1, "spatial_scale": 1.0}
# centre (2.5, 2.5), width 2: places half a cell left and right of the centre, before turning
EXAMPLES_ROTATED = [
    Sample("not turned", [PLANE, box(3, 3, 2, 1, 0), FIRST], [f32([[[[27, 28]]]])], TURNED),
    Sample(
        "counterclockwise by a quarter: the left end is at the bottom",
        [PLANE, box(3, 3, 2, 1, math.pi / 2), FIRST],
        [f32([[[[32.5, 22.5]]]])],
        TURNED,
        rtol=1e-5,
    ),
    Sample(
        "clockwise by a quarter: the left end is at the top",
        [PLANE, box(3, 3, 2, 1, math.pi / 2), FIRST],
        [f32([[[[22.5, 32.5]]]])],
        {**TURNED, "clockwise_mode": True},
        rtol=1e-5,
    ),
    Sample(
        "spatial_scale",
        [PLANE, box(1.5, 1.5, 1, 0.5, 0), FIRST],
        [f32([[[[27, 28]]]])],
        {**TURNED, "spatial_scale": 2.0},
    ),
    Sample(
        "no boxes",
        [PLANE, np.zeros((0, 5), "f4"), FIRST[:0]],
        [np.zeros((0, 1, 1, 2), "f4")],
        TURNED,
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "image 1 of 1",
        [PLANE, box(0, 0, 1, 1), np.array([1])],
        r"batch_indices\[0\] is 1, expected 0 to 0",
        ONE,
    ),
    Refusal(
        "image -1",
        [PLANE, box(0, 0, 1, 1), np.array([-1])],
        r"batch_indices\[0\] is -1, expected 0 to 0",
        ONE,
    ),
    Refusal(
        "two boxes, one image",
        [PLANE, np.zeros((2, 4), "f4"), FIRST],
        r"an image for each box, got rois \[2,4\] and batch_indices \[1\]",
        ONE,
    ),
    Refusal(
        "boxes of 3 numbers",
        [PLANE, np.zeros((1, 3), "f4"), FIRST],
        r"'rois': expected boxes of 4 numbers \[boxes, 4\], got shape \[1,3\]",
        ONE,
    ),
    Refusal(
        "data of rank 3",
        [PLANE[0], box(0, 0, 1, 1), FIRST],
        r"'data': expected \[N, C, H, W\]",
        ONE,
    ),
    Refusal(
        "indices as a matrix",
        [PLANE, box(0, 0, 1, 1), FIRST[None]],
        "'batch_indices': expected a 1-D tensor",
        ONE,
    ),
    Refusal(
        "no bins",
        [PLANE, box(0, 0, 1, 1), FIRST],
        "'pooled_h': expected at least 1",
        {**ONE, "pooled_h": 0},
    ),
    Refusal(
        "negative ratio",
        [PLANE, box(0, 0, 1, 1), FIRST],
        "'sampling_ratio': expected at least 0",
        {**ONE, "sampling_ratio": -1},
    ),
    Refusal(
        "a box beyond memory",
        [PLANE, box(0, 0, 1e30, 1e30), FIRST],
        "more than this machine's memory",
        {**ONE, "sampling_ratio": 0},
    ),
]
REFUSALS_ROTATED = [
    Refusal(
        "boxes of 4 numbers",
        [PLANE, box(0, 0, 1, 1), FIRST],
        r"'rois': expected boxes of 5 numbers",
        TURNED,
    ),
    Refusal(
        "image 1 of 1",
        [PLANE, box(0, 0, 1, 1, 0), np.array([1])],
        r"batch_indices\[0\] is 1, expected 0 to 0",
        TURNED,
    ),
]


@st.composite
def cases(draw: st.DrawFn, version: int) -> Case:
    inputs, name = draw(images_and_boxes(2, 5 if version == 15 else 4, False, -2, 4))
    rows = len(inputs[1])
    ids = draw(st.lists(st.integers(0, len(inputs[0]) - 1), min_size=rows, max_size=rows))
    attributes: dict[str, Any] = {
        "pooled_h": draw(st.integers(1, 2)),
        "pooled_w": draw(st.integers(1, 2)),
        "sampling_ratio": draw(st.integers(0, 2)),
        "spatial_scale": draw(st.sampled_from([0.5, 1.0])),
    }
    if version == 15:
        attributes["clockwise_mode"] = draw(st.booleans())
    else:
        attributes["mode"] = draw(st.sampled_from(["max", "avg"]))
    if version == 9:
        attributes["aligned_mode"] = draw(
            st.sampled_from(["asymmetric", "half_pixel_for_nn", "half_pixel"])
        )
    return Case(
        [*inputs, np.array(ids, draw(st.sampled_from(["i4", "i8"])))], attributes, [name, name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, boxes = plain(case, 0), plain(case, 1)
    at, bins = case.attributes, (case.attributes["pooled_h"], case.attributes["pooled_w"])
    mode, scale, rotated = (
        at.get("aligned_mode", "asymmetric"),
        at["spatial_scale"],
        boxes.shape[1] == 5,
    )
    height, width = data.shape[2:]
    result = np.zeros((len(boxes), data.shape[1], *bins), object)
    for r, c, i, j in np.ndindex(*result.shape):
        if rotated:
            sides = boxes[r, 3] * scale, boxes[r, 2] * scale
            starts = -sides[0] / 2, -sides[1] / 2
        else:
            before, after = (
                (0.5 if mode == "half_pixel" else 0.0),
                (0.0 if mode == "asymmetric" else 0.5),
            )
            x1, y1, x2, y2 = ((v + before) * scale - after for v in boxes[r])
            sides, starts = (y2 - y1, x2 - x1), (y1, x1)
            if mode == "asymmetric":
                sides = max(sides[0], 1.0), max(sides[1], 1.0)
        counts = [
            at["sampling_ratio"] or max(0, math.ceil(side / n))
            for side, n in zip(sides, bins, strict=True)
        ]
        values = []
        for s in range(counts[0]):
            for t in range(counts[1]):
                y = starts[0] + sides[0] / bins[0] * (i + (s + 0.5) / counts[0])
                x = starts[1] + sides[1] / bins[1] * (j + (t + 0.5) / counts[1])
                if rotated:
                    angle = -boxes[r, 4] if at["clockwise_mode"] else boxes[r, 4]
                    y, x = (
                        y * math.cos(angle) - x * math.sin(angle) + boxes[r, 1] * scale - 0.5,
                        y * math.sin(angle) + x * math.cos(angle) + boxes[r, 0] * scale - 0.5,
                    )
                near = -1 <= y <= height and -1 <= x <= width
                values.append(
                    hat(
                        data[int(case.inputs[2][r]), c],
                        min(max(y, 0), height - 1),
                        min(max(x, 0), width - 1),
                    )
                    if near
                    else 0.0
                )
        if values:
            result[r, c, i, j] = (
                max(0.0, *values) if at.get("mode") == "max" else sum(values) / len(values)
            )
    return [carried(result, case.types[0])]


SAMPLES = [
    Samples(ROIAlign3, EXAMPLES, REFUSALS, cases(3), loop),
    Samples(ROIAlign9, EXAMPLES + EXAMPLES_9, REFUSALS, cases(9), loop),
    Samples(
        ROIAlignRotated15, EXAMPLES_ROTATED, REFUSALS_ROTATED, cases(15), loop, rtol=1e-4, atol=1e-4
    ),
]
