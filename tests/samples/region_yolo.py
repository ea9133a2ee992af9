"""RegionYolo-1. The page has shapes only; expected values follow from YOLO's formulas by hand:
sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.region_yolo import RegionYolo1
from uncork.storage import decode

L = math.log(3)
#: One region of x, y, width, height, objectness and two classes; two cells.
CELLS = np.array([[0, L], [L, 0], [5, 6], [7, 8], [0, -L], [L, 2], [0, 2]], np.float32).reshape(
    1, 7, 1, 2
)
ALIKE = [[0.5, 0.75], [0.75, 0.5], [5, 6], [7, 8], [0.5, 0.25]]
#: softmax(ln 3, 0) = 3/4, 1/4
SOFT = np.array([*ALIKE, [0.75, 0.5], [0.25, 0.5]], np.float32).reshape(1, 7, 1, 2)
S = 1 / (1 + math.exp(-2))
SINGLE = np.array([*ALIKE, [0.75, S], [0.5, S]], np.float32).reshape(1, 7, 1, 2)


def how(**more: object) -> dict[str, object]:
    return {"axis": 1, "end_axis": 3, "coords": 4, "classes": 2, "num": 1, **more}


EXAMPLES = [
    Sample(
        "version 2: softmax over the classes, one row for each image",
        [CELLS],
        [SOFT.reshape(1, 14)],
        how(),
    ),
    Sample("version 3: each class alone", [CELLS], [SINGLE], how(do_softmax=False, mask=[0])),
    Sample("the mask counts, not num", [CELLS], [SINGLE], how(do_softmax=False, mask=[5], num=9)),
    Sample("some axes become one", [CELLS], [SOFT.reshape(1, 7, 2)], how(axis=-2, end_axis=-1)),
    Sample(
        "two images of two regions",
        [np.concatenate([np.concatenate([CELLS, CELLS[..., ::-1]], 1)] * 2)],
        [np.concatenate([np.concatenate([SINGLE, SINGLE[..., ::-1]], 1)] * 2)],
        how(do_softmax=False, mask=[0, 1]),
    ),
    Sample(
        "the page's shapes: version 3",
        [np.zeros((1, 255, 2, 2), np.float32)],
        [
            np.tile(np.repeat(np.array([0.5, 0, 0.5], np.float32), [2, 2, 81]), 3).reshape(
                1, 255, 1, 1
            )
            * np.ones((1, 1, 2, 2), np.float32)
        ],
        {
            "axis": 1,
            "end_axis": 3,
            "coords": 4,
            "classes": 80,
            "num": 6,
            "do_softmax": False,
            "mask": [0, 1, 2],
        },
    ),
    Sample("no images", [CELLS[:0]], [np.zeros((0, 14), np.float32)], how()),
]
REFUSALS = [
    Refusal("rank", [CELLS[0]], r"'data': expected \[N, C, H, W\], got shape \[7,1,2\]", how()),
    Refusal(
        "channels",
        [CELLS[:, :6]],
        r"'data': expected 7 channels for 1 regions, got shape \[1,6,1,2\]",
        how(),
    ),
    Refusal(
        "channels of a mask",
        [CELLS],
        r"'data': expected 14 channels for 2 regions",
        how(do_softmax=False, mask=[0, 1]),
    ),
    Refusal("axis", [CELLS], "axis 4 is outside -4..3", how(axis=4)),
    Refusal(
        "end before",
        [CELLS],
        "expected end_axis not before axis, got axis 2 and end_axis 1",
        how(axis=2, end_axis=1),
    ),
    Refusal("classes", [CELLS], "'classes': expected at least 0, got -1", how(classes=-1)),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    soft = draw(st.booleans())
    coords, classes, regions = (
        draw(st.integers(0, 5)),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
    )
    axis = draw(st.integers(0, 3))
    shape = (
        draw(st.integers(0, 2)),
        regions * (coords + 1 + classes),
        draw(st.integers(0, 2)),
        draw(st.integers(1, 2)),
    )
    data, name = draw(arrays(shape, ("f16", "bf16", "f32", "f64")))
    attributes = {
        "axis": axis,
        "end_axis": draw(st.integers(axis, 3)),
        "coords": coords,
        "classes": classes,
        "num": regions,
    }
    return Case([data], {**attributes, "do_softmax": soft, "mask": [7] * regions}, [name])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def loop(case: Case) -> list[np.ndarray]:
    a = case.attributes
    (spec,) = case.specs()
    data = decode(spec.value, spec.element_type).astype(np.float64)
    size = a["coords"] + 1 + a["classes"]
    result = data.copy()
    for n, channel, y, x in np.ndindex(*data.shape):
        region, entry = divmod(channel, size)
        value = data[n, channel, y, x]
        if (
            entry < min(2, a["coords"])
            or entry == a["coords"]
            or (entry > a["coords"] and not a["do_softmax"])
        ):
            result[n, channel, y, x] = sigmoid(value)
        elif entry > a["coords"]:
            others = [
                data[n, region * size + a["coords"] + 1 + i, y, x] for i in range(a["classes"])
            ]
            result[n, channel, y, x] = 1 / sum(math.exp(other - value) for other in others)
    if a["do_softmax"]:
        shape = list(data.shape)
        shape[a["axis"] : a["end_axis"] + 1] = [math.prod(shape[a["axis"] : a["end_axis"] + 1])]
        result = result.reshape(shape)
    return [result]


SAMPLES = [Samples(RegionYolo1, EXAMPLES, REFUSALS, cases(), loop)]
