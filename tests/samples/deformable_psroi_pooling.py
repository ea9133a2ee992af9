"""DeformablePSROIPooling-1 on images whose value at row y and column x is 10 y + x, a hundred more
in each channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._regions import away, hat, images_and_boxes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.deformable_psroi_pooling import DeformablePSROIPooling1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def images(channels: int) -> np.ndarray:
    plane = np.arange(6) + 10 * np.arange(6)[:, None]
    return f32(plane + 100 * np.arange(channels).reshape(1, channels, 1, 1))


PLAIN = {"output_dim": 1, "spatial_scale": 1.0}
# from 0.5 to 3.5
BOX = f32([[0, 1, 1, 3, 3]])
EXAMPLES = [
    Sample("a bin is read at its corner", [images(1), BOX], [f32([[[[5.5]]]])], PLAIN),
    # places 0.5, 2 along both axes
    Sample(
        "the mean of several places",
        [images(1), BOX],
        [f32([[[[13.75]]]])],
        {**PLAIN, "spatial_bins_x": 2, "spatial_bins_y": 2},
    ),
    Sample(
        "each bin in its own channel",
        [images(4), BOX],
        [f32([[[[5.5, 107], [220.5, 322]]]])],
        {**PLAIN, "group_size": 2},
    ),
    # moved by .5 * 1 * 3 cells in x, by .25 * 3 in y
    Sample(
        "offsets", [images(1), BOX, f32([[[[0.5]], [[0.25]]]])], [f32([[[[10 * 1.25 + 2]]]])], PLAIN
    ),
    Sample(
        "trans_std scales them",
        [images(1), BOX, f32([[[[0.5]], [[0.25]]]])],
        [f32([[[[5.5]]]])],
        {**PLAIN, "trans_std": 0.0},
    ),
    Sample(
        "parts of the offsets are shared by bins",
        [images(4), BOX, f32([[[[1]], [[0]]]])],
        # x 3.5 and 5 for both rows of bins
        [f32([[[[8.5, 110], [223.5, 325]]]])],
        {**PLAIN, "group_size": 2},
    ),
    Sample(
        "each class of outputs has its own offsets",
        [images(2), BOX, f32([[[[1]], [[0]], [[0]], [[1]]]])],
        [f32([[[[8.5]], [[135.5]]]])],
        {**PLAIN, "output_dim": 2},
    ),
    # x from -1.5 to 2.5: places -1.5 (does not count), -1/6 (the border) and 7/6; y from -0.5
    Sample(
        "places outside do not count",
        [images(1), f32([[0, -1, 0, 2, -1]])],
        [f32([[[[7 / 12]]]])],
        {**PLAIN, "spatial_bins_x": 3},
        atol=1e-5,
    ),
    Sample("a bin outside gives 0", [images(1), f32([[0, 9, 9, 9, 9]])], [f32([[[[0]]]])], PLAIN),
    Sample(
        "an image of -1 ends the boxes",
        [images(1), f32([BOX[0], [-1, 1, 1, 3, 3], BOX[0]])],
        [f32([5.5, 0, 0]).reshape(3, 1, 1, 1)],
        PLAIN,
    ),
    Sample(
        "the page's example, smaller",
        [np.ones((1, 18, 7, 4), "f4"), f32([[0, 0, 0, 32, 32]] * 3)],
        [np.ones((3, 2, 3, 3), "f4")],
        {
            "spatial_scale": 0.0625,
            "output_dim": 2,
            "group_size": 3,
            "spatial_bins_x": 4,
            "spatial_bins_y": 4,
            "trans_std": 0.0,
            "part_size": 3,
        },
    ),
    Sample(
        "no boxes",
        [images(1), BOX[:0]],
        [np.zeros((0, 1, 1, 1), "f4")],
        PLAIN,
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "channels",
        [images(3), BOX],
        "'data': expected 4 channels by output_dim and group_size, got 3",
        {**PLAIN, "group_size": 2},
    ),
    Refusal(
        "offsets of another part_size",
        [images(1), BOX, np.zeros((1, 2, 2, 2), "f4")],
        r"'offsets': expected shape \[1,2 \* classes,1,1\], got",
        PLAIN,
    ),
    Refusal(
        "offsets of two boxes",
        [images(1), BOX, np.zeros((2, 2, 1, 1), "f4")],
        "'offsets': expected shape",
        PLAIN,
    ),
    Refusal(
        "half a class",
        [images(1), BOX, np.zeros((1, 3, 1, 1), "f4")],
        "two channels for each class.*got 3",
        PLAIN,
    ),
    Refusal(
        "more classes than outputs",
        [images(1), BOX, np.zeros((1, 4, 1, 1), "f4")],
        "classes that divide output_dim 1, got 4",
        PLAIN,
    ),
    Refusal(
        "image 1 of 1", [images(1), f32([[1, 0, 0, 1, 1]])], r"rois\[:, 0\]\[0\] is 1.0", PLAIN
    ),
    Refusal(
        "no parts", [images(1), BOX], "'part_size': expected at least 1", {**PLAIN, "part_size": 0}
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    outputs, group, parts_x, parts_y, part = (draw(st.integers(1, 2)) for _ in range(5))
    inputs, name = draw(images_and_boxes(outputs * group**2, 4, True, -2, 5))
    if draw(st.booleans()):
        classes = draw(st.sampled_from([1, outputs]))
        inputs.append(draw(arrays((len(inputs[1]), 2 * classes, part, part), (name,), -1, 1))[0])
    attributes = {
        "output_dim": outputs,
        "group_size": group,
        "spatial_bins_x": parts_x,
        "spatial_bins_y": parts_y,
        "part_size": part,
        "spatial_scale": draw(st.sampled_from([0.5, 1.0])),
        "trans_std": draw(st.sampled_from([0.5, 1.0])),
    }
    return Case(inputs, attributes, [name] * len(inputs))


def loop(case: Case) -> list[np.ndarray]:
    data, boxes = plain(case, 0), plain(case, 1)
    offsets = plain(case, 2) if len(case.inputs) > 2 else None
    at: dict[str, Any] = case.attributes
    (height, width), group, scale = data.shape[2:], at["group_size"], at["spatial_scale"]
    result = np.zeros((len(boxes), at["output_dim"], group, group), object)
    for r, o, i, j in np.ndindex(*result.shape):
        if any(b[0] == -1 for b in boxes[: r + 1]):
            continue
        x1, y1, x2, y2 = boxes[r, 1:]
        left, top = away(x1) * scale - 0.5, away(y1) * scale - 0.5
        sides = (
            max((away(x2) + 1) * scale - 0.5 - left, 0.1),
            max((away(y2) + 1) * scale - 0.5 - top, 0.1),
        )
        x, y = left + j * sides[0] / group, top + i * sides[1] / group
        if offsets is not None:
            kind = o // (at["output_dim"] // (offsets.shape[1] // 2))
            row, column = i * at["part_size"] // group, j * at["part_size"] // group
            x += offsets[r, 2 * kind, row, column] * at["trans_std"] * sides[0]
            y += offsets[r, 2 * kind + 1, row, column] * at["trans_std"] * sides[1]
        values = []
        for s in range(at["spatial_bins_y"]):
            for t in range(at["spatial_bins_x"]):
                v, u = (
                    y + s * sides[1] / group / at["spatial_bins_y"],
                    x + t * sides[0] / group / at["spatial_bins_x"],
                )
                if -0.5 <= v <= height - 0.5 and -0.5 <= u <= width - 0.5:
                    values.append(
                        hat(
                            data[int(boxes[r, 0]), (o * group + i) * group + j],
                            min(max(v, 0), height - 1),
                            min(max(u, 0), width - 1),
                        )
                    )
        result[r, o, i, j] = sum(values) / len(values) if values else 0.0
    return [carried(result, case.types[0])]


SAMPLES = [Samples(DeformablePSROIPooling1, EXAMPLES, REFUSALS, cases(), loop)]
