"""PSROIPooling-1 on images of the numbers 1 to 16, a hundred more in each channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._regions import away, hat, images_and_boxes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.psroi_pooling import PSROIPooling1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def images(channels: int) -> np.ndarray:
    return f32(
        np.arange(1, 17).reshape(1, 1, 4, 4) + 100 * np.arange(channels).reshape(1, channels, 1, 1)
    )


PLAIN = {"output_dim": 1, "spatial_scale": 1.0}
WHOLE = f32([[0, 0, 0, 3, 3]])
EXAMPLES = [
    Sample("the mean of a box", [images(1), WHOLE], [f32([[[[8.5]]]])], PLAIN),
    Sample(
        "each bin in its own channel",
        [images(4), WHOLE],
        [f32([[[[3.5, 105.5], [211.5, 313.5]]]])],
        {**PLAIN, "group_size": 2},
    ),
    Sample(
        "and each output in its own block",
        [images(8), WHOLE],
        [f32([[[[3.5, 105.5], [211.5, 313.5]], [[403.5, 505.5], [611.5, 713.5]]]])],
        {**PLAIN, "group_size": 2, "output_dim": 2},
    ),
    # from 1 * .5 to (2 + 1) * .5: cells floor(.5) = 0 to ceil(1.5) = 2
    Sample(
        "spatial_scale after rounding",
        [images(1), f32([[0, 0.5, 1.4, 2.4, 1.5]])],
        [f32([[[[3.5]]]])],
        {**PLAIN, "spatial_scale": 0.5},
    ),
    # sides of -1 + 1 become 0.1: the cell at 2
    Sample("a box of negative size", [images(1), f32([[0, 2, 2, 1, 1]])], [f32([[[[11]]]])], PLAIN),
    Sample("a box outside", [images(1), f32([[0, 9, 9, 12, 12]])], [f32([[[[0]]]])], PLAIN),
    Sample(
        "bilinear: the middle",
        [images(1), f32([[0, 0, 0, 1, 1]])],
        [f32([[[[8.5]]]])],
        {**PLAIN, "mode": "bilinear"},
    ),
    Sample(
        "bilinear: from corner to corner",
        [images(1), f32([[0, 0, 0, 1, 1]])],
        [f32([[[[1, 4], [13, 16]]]])],
        {**PLAIN, "mode": "bilinear", "group_size": 2},
    ),
    # parts left and right: columns 0, 1.5 of channel 0 and 1.5, 3 of channel 1
    Sample(
        "bilinear: the mean of the parts",
        [images(2), f32([[0, 0, 0, 1, 1]])],
        [f32([[[[(1 + 102.5) / 2, (2.5 + 104) / 2], [(13 + 114.5) / 2, (14.5 + 116) / 2]]]])],
        {**PLAIN, "mode": "bilinear", "group_size": 2, "spatial_bins_x": 2},
    ),
    # the left column lies at -0.6
    Sample(
        "bilinear: outside adds 0",
        [images(1), f32([[0, -0.2, 0, 1, 1]])],
        [f32([[[[0, 4], [0, 16]]]])],
        {**PLAIN, "mode": "bilinear", "group_size": 2},
    ),
    Sample(
        "an image of -1 ends the boxes",
        [images(1), f32([[0, 0, 0, 3, 3], [-1, 0, 0, 3, 3], [0, 0, 0, 3, 3]])],
        [f32([8.5, 0, 0]).reshape(3, 1, 1, 1)],
        PLAIN,
    ),
    Sample(
        "the page's example, smaller",
        [np.ones((1, 40 * 9, 8, 8), "f4"), f32([[0, 0.1, 0.1, 0.5, 0.5]] * 5)],
        [np.ones((5, 40, 6, 6), "f4")],
        {
            "group_size": 6,
            "mode": "bilinear",
            "output_dim": 40,
            "spatial_bins_x": 3,
            "spatial_bins_y": 3,
            "spatial_scale": 1.0,
        },
    ),
    Sample(
        "no boxes",
        [images(1), WHOLE[:0]],
        [np.zeros((0, 1, 1, 1), "f4")],
        PLAIN,
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "channels, average",
        [images(3), WHOLE],
        "'data': expected 4 channels, 4 for each of output_dim 1, got 3",
        {**PLAIN, "group_size": 2},
    ),
    Refusal(
        "channels, bilinear",
        [images(3), WHOLE],
        "'data': expected 2 channels",
        {**PLAIN, "mode": "bilinear", "spatial_bins_y": 2},
    ),
    Refusal(
        "image 1 of 1",
        [images(1), f32([[1, 0, 0, 1, 1]])],
        r"rois\[:, 0\]\[0\] is 1.0, expected an image from 0 to 0",
        PLAIN,
    ),
    Refusal(
        "boxes of 4 numbers",
        [images(1), WHOLE[:, :4]],
        "'rois': expected boxes of 5 numbers",
        PLAIN,
    ),
    Refusal(
        "no outputs",
        [images(1), WHOLE],
        "'output_dim': expected at least 1",
        {**PLAIN, "output_dim": 0},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    mode, outputs, group, parts_x, parts_y = (
        draw(st.sampled_from(["average", "bilinear"])),
        *(draw(st.integers(1, 2)) for _ in range(4)),
    )
    channels = outputs * (group**2 if mode == "average" else parts_x * parts_y)
    inputs, name = draw(
        images_and_boxes(channels, 4, True, *((-2, 5) if mode == "average" else (0, 1)))
    )
    attributes = {
        "mode": mode,
        "output_dim": outputs,
        "group_size": group,
        "spatial_bins_x": parts_x,
        "spatial_bins_y": parts_y,
    }
    return Case(
        inputs, {**attributes, "spatial_scale": draw(st.sampled_from([0.5, 1.0]))}, [name, name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, boxes = plain(case, 0), plain(case, 1)
    at: dict[str, Any] = case.attributes
    sizes, group, scale = data.shape[2:], at["group_size"], at["spatial_scale"]
    result = np.zeros((len(boxes), at["output_dim"], group, group), object)
    for r, o, *place in np.ndindex(*result.shape):
        if any(b[0] == -1 for b in boxes[: r + 1]):
            continue
        image, (x1, y1, x2, y2) = data[int(boxes[r, 0])], boxes[r, 1:]
        if at["mode"] == "average":
            spans = []
            for i, size, first, last in zip(place, sizes, (y1, x1), (y2, x2), strict=True):
                start, end = away(first) * scale, (away(last) + 1) * scale
                step = max(end - start, 0.1) / group
                spans.append(
                    [
                        p
                        for p in range(
                            math.floor(start + i * step), math.ceil(start + (i + 1) * step)
                        )
                        if 0 <= p < size
                    ]
                )
            cells = [
                image[(o * group + place[0]) * group + place[1], y, x]
                for y in spans[0]
                for x in spans[1]
            ]
            result[(r, o, *place)] = sum(cells) / len(cells) if cells else 0.0
            continue
        parts = at["spatial_bins_y"], at["spatial_bins_x"]
        total = 0.0
        for part in np.ndindex(*parts):
            where = []
            for k, n, i, size, a, b in zip(
                part, parts, place, sizes, (y1, x1), (y2, x2), strict=True
            ):
                start, end = (scale * (a + (b - a) * q / n) for q in (k, k + 1))
                where.append(
                    ((start + end) / 2 if group == 1 else start + (end - start) * i / (group - 1))
                    * (size - 1)
                )
            if all(0 <= w <= size - 1 for w, size in zip(where, sizes, strict=True)):
                total += hat(image[(part[0] * parts[1] + part[1]) * at["output_dim"] + o], *where)
        result[(r, o, *place)] = total / math.prod(parts)
    return [carried(result, case.types[0])]


SAMPLES = [Samples(PSROIPooling1, EXAMPLES, REFUSALS, cases(), loop)]
