"""Concat-1. The page has shapes only; its examples are filled with numbers here."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.concat import Concat1

A = np.array([[1, 2], [3, 4]], np.float32)
B = np.array([[5, 6]], np.float32)

EXAMPLES = [
    Sample(
        "page example: three widths",
        [np.zeros((1, 8, 2)), np.ones((1, 16, 2)), np.full((1, 32, 2), 2.0)],
        [np.repeat([0.0, 1.0, 2.0], [16, 32, 64]).reshape(1, 56, 2)],
        {"axis": 1},
    ),
    Sample("rows", [A, B], [np.array([[1, 2], [3, 4], [5, 6]], np.float32)], {"axis": 0}),
    Sample(
        "negative axis",
        [A, A + 4],
        [np.array([[1, 2, 5, 6], [3, 4, 7, 8]], np.float32)],
        {"axis": -1},
    ),
    Sample("one input", [A], [A], {"axis": 1}),
    Sample("an empty part", [A, np.zeros((0, 2), np.float32)], [A], {"axis": 0}),
    Sample(
        "strings",
        [np.array(["a"], object), np.array(["", "日本"], object)],
        [np.array(["a", "", "日本"], object)],
        {"axis": 0},
    ),
    Sample(
        "64-bit integers",
        [np.array([2**62 + 1]), np.array([-1])],
        [np.array([2**62 + 1, -1])],
        {"axis": 0},
        openvino="narrows to 32 bits",
    ),
]
REFUSALS = [
    Refusal("axis", [A, B], r"axis 2 is outside -2\.\.1 for rank 2", {"axis": 2}),
    Refusal("ranks", [A, A[0]], r"inputs of one rank, got shapes \[2,2\], \[2\]", {"axis": 0}),
    Refusal("scalars", [np.float32(1), np.float32(2)], "the inputs are scalars", {"axis": 0}),
    Refusal(
        "dimensions",
        [A, B, A],
        r"input 1: expected dimensions \[2,2\] but for axis 1, got \[1,2\]",
        {"axis": 1},
    ),
    Refusal(
        "types", [A, B.astype(np.float64)], "expected f32 as 'tensors' has, got f64", {"axis": 0}
    ),
    Refusal("nothing", [], "input 'tensors' .port 0. is missing", {"axis": 0}),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1, max_side=3))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    first, name = draw(arrays((*shape[:axis], sizes[0], *shape[axis + 1 :])))
    others = [
        draw(arrays((*shape[:axis], size, *shape[axis + 1 :]), (name,)))[0] for size in sizes[1:]
    ]
    return Case(
        [first, *others],
        {"axis": axis - len(shape) if draw(st.booleans()) else axis},
        [name] * len(sizes),
    )


def loop(case: Case) -> list[np.ndarray]:
    axis = case.attributes["axis"] % case.inputs[0].ndim
    shape = list(case.inputs[0].shape)
    shape[axis] = sum(a.shape[axis] for a in case.inputs)
    output = np.empty(shape, case.inputs[0].dtype)
    start = 0
    for array in case.inputs:
        for place in itertools.product(*map(range, array.shape)):
            output[(*place[:axis], place[axis] + start, *place[axis + 1 :])] = array[place]
        start += array.shape[axis]
    return [output]


SAMPLES = [Samples(Concat1, EXAMPLES, REFUSALS, cases(), loop)]
