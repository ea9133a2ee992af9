"""ScatterUpdate-3. Example 2 is the page's."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.scatter_update import ScatterUpdate3

DATA = np.array([[-1, 1, -1, 3, 4], [-1, 6, -1, 8, 9], [-1, 11, 1, 13, 14]], np.float32)
UPDATES = np.array([[1, 1], [1, 1], [1, 2]], np.float32)
I64 = np.int64

EXAMPLES = [
    Sample(
        "page example 2",
        [DATA, np.array([0, 2]), UPDATES, np.array([1])],
        [np.array([[1, 1, 1, 3, 4], [1, 6, 1, 8, 9], [1, 11, 2, 13, 14]], np.float32)],
    ),
    Sample(
        "a scalar index",
        [np.arange(3), I64(1), I64(7), I64(-1)],
        [np.array([0, 7, 2])],
        openvino="refuses it",
    ),
    Sample(
        "indices of rank 2",
        [
            np.zeros((4,), np.int32),
            np.array([[3, 0]], np.int32),
            np.array([[5, 6]], np.int32),
            I64(0),
        ],
        [np.array([6, 0, 0, 5], np.int32)],
    ),
    Sample(
        "the later update stays",
        [np.zeros(2), np.array([1, 1, 1]), np.array([5.0, 6, 7]), I64(0)],
        [np.array([0.0, 7])],
    ),
    Sample(
        "nothing to update",
        [np.arange(3), np.zeros((0,), I64), np.zeros((0,), I64), I64(0)],
        [np.arange(3)],
        openvino="refuses it",
    ),
    Sample(
        "strings",
        [np.array(["a", "b"], object), np.array([1]), np.array(["日本"], object), I64(0)],
        [np.array(["a", "日本"], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "too large",
        [np.arange(3), np.array([0, 3]), np.array([1, 2]), I64(0)],
        r"indices\[1\] is 3, expected 0 to 2",
    ),
    Refusal(
        "negative",
        [np.arange(3), np.array([-1]), np.array([1]), I64(0)],
        r"indices\[0\] is -1, expected 0 to 2",
    ),
    Refusal(
        "updates",
        [DATA, np.array([0, 2]), UPDATES, I64(0)],
        r"'updates': expected shape \[2,5\] \(axis 0\), got \[3,2\]",
    ),
    Refusal("axis", [DATA, np.array([0]), UPDATES, I64(2)], r"axis 2 is outside -2\.\.1"),
    Refusal(
        "axes",
        [DATA, np.array([0]), UPDATES, np.array([0, 1])],
        r"'axis': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal(
        "scalar data", [np.float32(1), np.array([0]), np.float32([1]), I64(0)], "'data' is a scalar"
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=3))
    axis = draw(st.integers(0, len(shape) - 1))
    some = draw(shapes(max_rank=2, max_side=3)) if shape[axis] else (0,)
    indices = draw(integer_arrays(some, 0, max(shape[axis] - 1, 0), ("i4", "i8", "u1")))
    data, name = draw(arrays(shape))
    updates, _ = draw(arrays((*shape[:axis], *some, *shape[axis + 1 :]), (name,)))
    return Case(
        [data, indices, updates, I64(axis - len(shape) if draw(st.booleans()) else axis)],
        {},
        [name, None, name],
    )


def loop(case: Case) -> list[np.ndarray]:
    data, indices, updates, axis = case.inputs
    along = int(axis) % data.ndim
    output = data.copy()
    for place in itertools.product(*map(range, updates.shape)):
        lead, i, rest = (
            place[:along],
            place[along : along + indices.ndim],
            place[along + indices.ndim :],
        )
        output[(*lead, int(indices[i]), *rest)] = updates[place]
    return [output]


SAMPLES = [Samples(ScatterUpdate3, EXAMPLES, REFUSALS, cases(), loop)]
