"""ShuffleChannels-1. The page's example has shapes only."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.shuffle_channels import ShuffleChannels1

ROW = np.arange(6, dtype=np.float32)

EXAMPLES = [
    Sample(
        "three groups of two",
        [ROW.reshape(1, 6)],
        [np.array([[0, 2, 4, 1, 3, 5]], np.float32)],
        {"group": 3},
    ),
    Sample(
        "an axis from the end",
        [ROW.reshape(6, 1)],
        [np.array([[0], [3], [1], [4], [2], [5]], np.float32)],
        {"group": 2, "axis": -2},
    ),
    Sample("one group", [ROW.reshape(1, 6)], [ROW.reshape(1, 6)]),
    Sample(
        "strings",
        [np.array(["a", "b", "c", "d"], object)],
        [np.array(["a", "c", "b", "d"], object)],
        {"group": 2, "axis": 0},
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "no multiple",
        [ROW.reshape(1, 6)],
        r"a multiple of group 4 along axis 1, got data \[1,6\]",
        {"group": 4},
    ),
    Refusal("axis", [ROW], r"axis 1 is outside -1\.\.0 for rank 1", {"group": 2}),
    Refusal("group", [ROW.reshape(1, 6)], "'group': expected at least 1, got 0", {"group": 0}),
    Refusal("scalar", [np.float32(1)], "'data' is a scalar"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = list(draw(shapes(min_rank=1, max_rank=3, max_side=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    group = draw(st.integers(1, 3))
    shape[axis] *= group
    data, name = draw(arrays(tuple(shape)))
    return Case(
        [data], {"axis": axis - len(shape) if draw(st.booleans()) else axis, "group": group}, [name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, group = case.inputs[0], case.attributes["group"]
    axis = case.attributes["axis"] % data.ndim
    each = data.shape[axis] // group
    output = np.empty(data.shape, data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        g, k = divmod(place[axis], each)
        output[(*place[:axis], k * group + g, *place[axis + 1 :])] = data[place]
    return [output]


SAMPLES = [Samples(ShuffleChannels1, EXAMPLES, REFUSALS, cases(), loop)]
