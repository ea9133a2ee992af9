"""Reverse-1. The page's example has shapes only."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.reverse import Reverse1

DATA = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
INDEX, MASK = {"mode": "index"}, {"mode": "mask"}
BACK = np.array([[3, 2, 1], [6, 5, 4]], np.float32)

EXAMPLES = [
    Sample("one axis", [DATA, np.array([1])], [BACK], INDEX),
    Sample("mask", [DATA, np.array([False, True])], [BACK], MASK),
    Sample(
        "both axes",
        [DATA, np.array([1, 0], np.int32)],
        [np.array([[6, 5, 4], [3, 2, 1]], np.float32)],
        INDEX,
    ),
    Sample("an axis from the end", [DATA, np.array([-1])], [BACK], INDEX, openvino="refuses it"),
    Sample(
        "no axis",
        [DATA, np.zeros((0,), np.int64)],
        [DATA],
        INDEX,
        openvino="cannot read an empty constant",
    ),
    Sample("no axis in the mask", [DATA, np.array([False, False])], [DATA], MASK),
    Sample("an axis twice", [DATA, np.array([1, 1])], [BACK], INDEX),
    Sample(
        "strings",
        [np.array(["a", "日本"], object), np.array([0])],
        [np.array(["日本", "a"], object)],
        INDEX,
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal("axis", [DATA, np.array([2])], r"axis 2 is outside -2\.\.1 for rank 2", INDEX),
    Refusal(
        "length of the mask",
        [DATA, np.array([True])],
        r"a boolean for each dimension of data \[2,3\], got shape \[1\]",
        MASK,
    ),
    Refusal(
        "booleans as axes",
        [DATA, np.array([True, False])],
        "'axis': expected an integer type in mode index, got boolean",
        INDEX,
    ),
    Refusal(
        "axes as a mask",
        [DATA, np.array([0, 1])],
        "'axis': expected boolean in mode mask, got i64",
        MASK,
    ),
    Refusal(
        "scalar axis", [DATA, np.int64(0)], r"'axis': expected a 1-D tensor, got shape \[\]", INDEX
    ),
    Refusal(
        "strict: twice",
        [DATA, np.array([1, -1])],
        r"'axis': \[1, -1\] name an axis twice",
        INDEX,
        strict=True,
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    chosen = [draw(st.booleans()) for _ in shape]
    data, name = draw(arrays(shape))
    if draw(st.booleans()):
        return Case([data, np.array(chosen, bool)], MASK, [name])
    axes = [a - len(shape) if draw(st.booleans()) else a for a, c in enumerate(chosen) if c]
    return Case([data, np.array(draw(st.permutations(axes)), np.int64)], INDEX, [name])


def loop(case: Case) -> list[np.ndarray]:
    data, axis = case.inputs
    back = (
        list(axis)
        if case.attributes == MASK
        else [k in axis or k - data.ndim in axis for k in range(data.ndim)]
    )
    output = np.empty(data.shape, data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        output[
            tuple(s - 1 - p if b else p for p, s, b in zip(place, data.shape, back, strict=True))
        ] = data[place]
    return [output]


SAMPLES = [Samples(Reverse1, EXAMPLES, REFUSALS, cases(), loop)]
