"""ROIPooling-1 on an image of the numbers 1 to 16."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._regions import away, hat, images_and_boxes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.roi_pooling import ROIPooling1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


IMAGE = f32(range(1, 17)).reshape(1, 1, 4, 4)
TWO = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1.0}
ONE = {"pooled_h": 1, "pooled_w": 1, "spatial_scale": 1.0}


def pools(name: str, box: tuple[float, ...], expected: object, **attributes: Any) -> Sample:
    return Sample(name, [IMAGE, f32([[0, *box]])], [f32([[expected]])], {**TWO, **attributes})


EXAMPLES = [
    pools("both corners belong to the box", (0, 0, 3, 3), [[6, 8], [14, 16]]),
    # three rows into two bins: rows 0, 1 and rows 1, 2
    pools("bins may share a row", (0, 0, 3, 2), [[6, 8], [10, 12]]),
    pools(
        "spatial_scale, halves away from zero",
        (1, 1, 5, 5),
        [[11, 12], [15, 16]],
        spatial_scale=0.5,
    ),
    pools("a box of negative size has one cell", (2, 2, 1, 1), [[11, 11], [11, 11]]),
    pools("bins outside the image give 0", (-2, 0, 1, 1), [[0, 2], [0, 6]]),
    pools("a box outside the image", (20, 20, 21, 21), [[0, 0], [0, 0]]),
    pools("bilinear: from corner to corner", (0, 0, 1, 1), [[1, 4], [13, 16]], method="bilinear"),
    # columns 1.5 and 3.6 (outside), rows 1.5 and 3.6
    pools("bilinear: outside gives 0", (0.5, 0.5, 1.2, 1.2), [[8.5, 0], [0, 0]], method="bilinear"),
    Sample(
        "bilinear: one place is the middle",
        [IMAGE, f32([[0, 0, 0, 1, 1]])],
        [f32([[[[8.5]]]])],
        {**ONE, "method": "bilinear"},
    ),
    Sample(
        "an image of -1 ends the boxes",
        [
            np.concatenate([IMAGE, -IMAGE]),
            f32([[1, 0, 0, 3, 3], [0, 0, 0, 3, 3], [-1, 0, 0, 3, 3], [0, 0, 0, 3, 3]]),
        ],
        [f32([-1, 16, 0, 0]).reshape(4, 1, 1, 1)],
        ONE,
    ),
    Sample(
        "no boxes",
        [IMAGE, np.zeros((0, 5), "f4")],
        [np.zeros((0, 1, 1, 1), "f4")],
        ONE,
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "image 1 of 1",
        [IMAGE, f32([[0, 0, 0, 1, 1], [1, 0, 0, 1, 1]])],
        r"rois\[:, 0\]\[1\] is 1.0, expected an image from 0 to 0, or -1",
        ONE,
    ),
    Refusal("half an image", [IMAGE, f32([[0.5, 0, 0, 1, 1]])], r"rois\[:, 0\]\[0\] is 0.5", ONE),
    Refusal(
        "boxes of 4 numbers",
        [IMAGE, np.zeros((1, 4), "f4")],
        "'rois': expected boxes of 5 numbers",
        ONE,
    ),
    Refusal(
        "data of rank 3",
        [IMAGE[0], np.zeros((1, 5), "f4")],
        r"'data': expected \[N, C, H, W\]",
        ONE,
    ),
    Refusal(
        "no bins",
        [IMAGE, np.zeros((1, 5), "f4")],
        "'pooled_w': expected at least 1",
        {**ONE, "pooled_w": 0},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    method = draw(st.sampled_from(["max", "bilinear"]))
    inputs, name = draw(images_and_boxes(2, 4, True, *((-2, 5) if method == "max" else (0, 1))))
    attributes = {
        "pooled_h": draw(st.integers(1, 3)),
        "pooled_w": draw(st.integers(1, 3)),
        "method": method,
    }
    return Case(
        inputs, {**attributes, "spatial_scale": draw(st.sampled_from([0.5, 1.0]))}, [name, name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, boxes = plain(case, 0), plain(case, 1)
    at, bins = case.attributes, (case.attributes["pooled_h"], case.attributes["pooled_w"])
    sizes = data.shape[2:]
    result = np.zeros((len(boxes), data.shape[1], *bins), object)
    for r, c, *place in np.ndindex(*result.shape):
        if any(b[0] == -1 for b in boxes[: r + 1]):
            continue
        image = data[int(boxes[r, 0]), c]
        x1, y1, x2, y2 = boxes[r, 1:]
        if at["method"] == "max":
            spans = []
            for i, n, size, first, last in zip(place, bins, sizes, (y1, x1), (y2, x2), strict=True):
                start = away(first * at["spatial_scale"])
                cells = max(away(last * at["spatial_scale"]) - start + 1, 1)
                spans.append(
                    [
                        p
                        for p in range(
                            start + math.floor(i * cells / n),
                            start + math.ceil((i + 1) * cells / n),
                        )
                        if 0 <= p < size
                    ]
                )
            result[(r, c, *place)] = max(
                (image[y, x] for y in spans[0] for x in spans[1]), default=0.0
            )
        else:
            where = [
                ((a + b) / 2 if n == 1 else a + (b - a) * i / (n - 1)) * (size - 1)
                for i, n, size, a, b in zip(place, bins, sizes, (y1, x1), (y2, x2), strict=True)
            ]
            result[(r, c, *place)] = hat(image, *where)
    return [carried(result, case.types[0])]


SAMPLES = [Samples(ROIPooling1, EXAMPLES, REFUSALS, cases(), loop)]
