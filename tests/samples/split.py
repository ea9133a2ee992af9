"""Split-1, VariadicSplit-1. The pages' examples have shapes only and are filled with numbers
here.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.split import Split1, VariadicSplit1

TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)
WORDS = np.array(["a", "", "日本"], object)
I64 = np.int64

EQUAL = [
    Sample(
        "page example: three parts",
        [TABLE, I64(0)],
        [TABLE[:2], TABLE[2:4], TABLE[4:]],
        {"num_splits": 3},
    ),
    Sample("from the end", [TABLE, np.int32(-1)], [TABLE[:, :1], TABLE[:, 1:]], {"num_splits": 2}),
    Sample("one part", [TABLE, I64(0)], [TABLE], {"num_splits": 1}),
    Sample(
        "an axis in one element",
        [TABLE, np.array([1])],
        [TABLE[:, :1], TABLE[:, 1:]],
        {"num_splits": 2},
        openvino="asks for a scalar",
    ),
    Sample(
        "strings",
        [WORDS, I64(0)],
        [WORDS[:1], WORDS[1:2], WORDS[2:]],
        {"num_splits": 3},
        openvino="not for strings",
    ),
    Sample(
        "empty parts",
        [np.zeros((0, 2)), I64(0)],
        [np.zeros((0, 2)), np.zeros((0, 2))],
        {"num_splits": 2},
    ),
]
EQUAL_REFUSALS = [
    Refusal(
        "no multiple",
        [TABLE, I64(0)],
        r"a multiple of num_splits 4 along axis 0, got data \[6,2\]",
        {"num_splits": 4},
    ),
    Refusal(
        "no parts", [TABLE, I64(0)], "'num_splits': expected at least 1, got 0", {"num_splits": 0}
    ),
    Refusal("axis", [TABLE, I64(2)], r"axis 2 is outside -2\.\.1 for rank 2", {"num_splits": 2}),
    Refusal(
        "axes",
        [TABLE, np.array([0, 1])],
        r"'axis': expected a scalar or one element, got shape \[2\]",
        {"num_splits": 2},
    ),
    Refusal("scalar", [np.float32(1), I64(0)], "'data' is a scalar", {"num_splits": 1}),
]
GIVEN = [
    Sample(
        "page example 1", [TABLE, I64(0), np.array([1, 2, 3])], [TABLE[:1], TABLE[1:3], TABLE[3:]]
    ),
    Sample(
        "page example 2: -1 takes the rest",
        [TABLE, I64(0), np.array([-1, 2])],
        [TABLE[:4], TABLE[4:]],
    ),
    Sample("-1 may take nothing", [TABLE, np.array([1]), np.array([2, -1])], [TABLE, TABLE[:, :0]]),
    Sample("an empty part", [TABLE, I64(-2), np.array([0, 6], np.int32)], [TABLE[:0], TABLE]),
    Sample(
        "strings",
        [WORDS, I64(0), np.array([2, 1])],
        [WORDS[:2], WORDS[2:]],
        openvino="not for strings",
    ),
]
GIVEN_REFUSALS = [
    Refusal(
        "too short",
        [TABLE, I64(0), np.array([1, 2])],
        r"lengths that add up to 6 \(axis 0 of data\), got \[1, 2\]",
    ),
    Refusal(
        "too long for -1",
        [TABLE, I64(0), np.array([7, -1])],
        r"lengths that add up to 6 \(axis 0 of data\), got \[7, -1\]",
    ),
    Refusal(
        "two -1", [TABLE, I64(0), np.array([-1, -1])], r"expected at most one -1, got \[-1, -1\]"
    ),
    Refusal(
        "negative", [TABLE, I64(0), np.array([8, -2])], r"lengths of at least -1, got \[8, -2\]"
    ),
    Refusal(
        "scalar lengths",
        [TABLE, I64(0), I64(6)],
        r"'split_lengths': expected a 1-D tensor, got shape \[\]",
    ),
]


@st.composite
def equal_cases(draw: st.DrawFn) -> Case:
    shape = list(draw(shapes(min_rank=1, max_side=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    parts = draw(st.integers(1, 3))
    shape[axis] *= parts
    data, name = draw(arrays(tuple(shape)))
    return Case(
        [data, I64(axis - len(shape) if draw(st.booleans()) else axis)],
        {"num_splits": parts},
        [name],
    )


@st.composite
def given_cases(draw: st.DrawFn) -> Case:
    shape = list(draw(shapes(min_rank=1, max_side=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    shape[axis] = sum(lengths)
    if draw(st.booleans()):
        lengths[draw(st.integers(0, len(lengths) - 1))] = -1
    data, name = draw(arrays(tuple(shape)))
    return Case(
        [
            data,
            I64(axis - len(shape) if draw(st.booleans()) else axis),
            np.array(lengths, np.int32),
        ],
        {},
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    data = case.inputs[0]
    axis = int(case.inputs[1]) % data.ndim
    size = data.shape[axis]
    parts = case.attributes.get("num_splits")
    lengths = [size // parts] * parts if parts else [int(n) for n in case.inputs[2]]
    lengths = [size - sum(n for n in lengths if n != -1) if n == -1 else n for n in lengths]
    outputs = []
    for k, length in enumerate(lengths):
        start = sum(lengths[:k])
        part = np.empty((*data.shape[:axis], length, *data.shape[axis + 1 :]), data.dtype)
        for place in itertools.product(*map(range, part.shape)):
            part[place] = data[(*place[:axis], place[axis] + start, *place[axis + 1 :])]
        outputs.append(part)
    return outputs


SAMPLES = [
    Samples(Split1, EQUAL, EQUAL_REFUSALS, equal_cases(), loop),
    Samples(VariadicSplit1, GIVEN, GIVEN_REFUSALS, given_cases(), loop),
]
