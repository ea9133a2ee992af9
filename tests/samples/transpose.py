"""Transpose-1. The page's examples have shapes only and are filled with numbers here."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.transpose import Transpose1

WIDE = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
TALL = np.array([[1, 4], [2, 5], [3, 6]], np.float32)

EXAMPLES = [
    Sample(
        "page example 1",
        [np.arange(6).reshape(2, 1, 3), np.array([2, 0, 1])],
        [np.array([[[0], [3]], [[1], [4]], [[2], [5]]])],
    ),
    Sample(
        "page example 2: an empty order reverses",
        [WIDE, np.zeros((0,), np.int64)],
        [TALL],
        openvino="cannot read an empty constant",
    ),
    Sample("as it is", [WIDE, np.array([0, 1], np.int32)], [WIDE]),
    Sample(
        "a scalar",
        [np.float32(5), np.zeros((0,), np.int64)],
        [np.float32(5)],
        openvino="cannot read an empty constant",
    ),
    Sample(
        "an empty dimension",
        [np.zeros((0, 2), np.float32), np.array([1, 0])],
        [np.zeros((2, 0), np.float32)],
    ),
    Sample(
        "strings",
        [np.array([["a", "日本"]], object), np.array([1, 0])],
        [np.array([["a"], ["日本"]], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "too few axes",
        [WIDE, np.array([0])],
        r"no axes or one for each dimension of data \[2,3\], got shape \[1\]",
    ),
    Refusal("twice", [WIDE, np.array([0, 0])], r"expected each axis of 0..1 once, got \[0, 0\]"),
    Refusal("outside", [WIDE, np.array([0, 2])], r"expected each axis of 0..1 once, got \[0, 2\]"),
    Refusal(
        "negative", [WIDE, np.array([0, -1])], r"expected each axis of 0..1 once, got \[0, -1\]"
    ),
    Refusal(
        "scalar order", [WIDE, np.int64(0)], r"'input_order': expected a 1-D tensor, got shape \[\]"
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    order = draw(st.sampled_from([[], list(draw(st.permutations(range(len(shape)))))]))
    data, name = draw(arrays(shape))
    return Case([data, np.array(order, draw(st.sampled_from(["i4", "i8", "u1"])))], {}, [name])


def loop(case: Case) -> list[np.ndarray]:
    data = case.inputs[0]
    order = [int(n) for n in case.inputs[1]] or list(range(data.ndim))[::-1]
    output = np.empty([data.shape[n] for n in order], data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        output[tuple(place[n] for n in order)] = data[place]
    return [output]


SAMPLES = [Samples(Transpose1, EXAMPLES, REFUSALS, cases(), loop)]
