"""Unique-10."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import ALL_TYPES, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.unique import Unique10
from uncork.types import ElementType

I64 = np.int64
AS_FOUND = {"sorted": False}
SMALL = {"index_element_type": ElementType.i32, "count_element_type": ElementType.i32}
DATA = np.array([2, 1, 1, 3, 4, 3], np.float32)
ROWS = np.array([[1, 0, 0], [1, 0, 0], [0, 9, 1]], np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


#: The examples of the ONNX operation of that name, and those next to them.
EXAMPLES = [
    Sample(
        "sorted",
        [DATA],
        [
            np.array([1, 2, 3, 4], np.float32),
            i64(1, 0, 3, 4),
            i64(1, 0, 0, 2, 3, 2),
            i64(2, 1, 2, 1),
        ],
    ),
    Sample(
        "as found",
        [DATA],
        [
            np.array([2, 1, 3, 4], np.float32),
            i64(0, 1, 3, 4),
            i64(0, 1, 1, 2, 3, 2),
            i64(1, 2, 2, 1),
        ],
        AS_FOUND,
    ),
    Sample(
        "rows",
        [ROWS, I64(0)],
        [np.array([[0, 9, 1], [1, 0, 0]], np.float32), i64(2, 0), i64(1, 1, 0), i64(1, 2)],
    ),
    Sample(
        "columns",
        [ROWS, np.array([-1], np.int32)],
        [
            np.array([[0, 0, 1], [0, 0, 1], [1, 9, 0]], np.float32),
            i64(2, 1, 0),
            i64(2, 1, 0),
            i64(1, 1, 1),
        ],
    ),
    Sample(
        "types of indices and counts",
        [i64(5, 5)],
        [i64(5), np.array([0], np.int32), np.array([0, 0], np.int32), np.array([2], np.int32)],
        SMALL,
    ),
    Sample("a scalar", [np.float32(7)], [np.float32([7]), i64(0), i64(0), i64(1)]),
    Sample(
        "nothing",
        [np.zeros((0,), np.float32)],
        [np.zeros((0,), np.float32), i64(), i64(), i64()],
        openvino="OpenVINO may die",
    ),
    Sample(
        "no slices",
        [np.zeros((0, 2), np.float32), I64(0)],
        [np.zeros((0, 2), np.float32), i64(), i64(), i64()],
        openvino="OpenVINO may die",
    ),
    Sample(
        "empty slices are equal",
        [np.zeros((3, 0), np.float32), I64(0)],
        [np.zeros((1, 0), np.float32), i64(0), i64(0, 0, 0), i64(3)],
        openvino="OpenVINO may die",
    ),
    Sample(
        "NaN equals nothing, 0.0 and -0.0 are equal",
        [np.array([np.nan, -0.0, np.nan, 0.0])],
        [np.array([-0.0, np.nan, np.nan]), i64(1, 0, 2), i64(1, 0, 2, 0), i64(2, 1, 1)],
        openvino="gives places that do not fit its values",
    ),
    Sample(
        "i64 in full width",
        [i64(2**40, 0, 2**40)],
        [i64(0, 2**40), i64(1, 0), i64(1, 0, 1), i64(1, 2)],
        openvino="narrows 64-bit numbers",
    ),
    Sample(
        "strings",
        [np.array(["日本", "b", "a", "b", ""], object)],
        [
            np.array(["", "a", "b", "日本"], object),
            i64(4, 2, 1, 0),
            i64(3, 2, 1, 2, 0),
            i64(1, 1, 2, 1),
        ],
        openvino="OpenVINO refuses strings",
    ),
]
REFUSALS = [
    Refusal("axis", [ROWS, I64(2)], r"axis 2 is outside -2\.\.1 for rank 2"),
    Refusal(
        "axes",
        [ROWS, np.array([0, 1])],
        r"'axis': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal(
        "a scalar with an axis",
        [np.float32(1), I64(0)],
        "'data' is a scalar: there is no axis to slice along",
    ),
    Refusal(
        "type of indices",
        [DATA],
        "'index_element_type': expected i32 or i64, got u8",
        {"index_element_type": ElementType.u8},
    ),
    Refusal(
        "type of counts",
        [DATA],
        "'count_element_type': expected i32 or i64, got f32",
        {"count_element_type": ElementType.f32},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes(max_rank=3, max_side=4)), ALL_TYPES, -0.5, 0.75))
    inputs = [data]
    if data.ndim and draw(st.booleans()):
        axis = draw(st.integers(-data.ndim, data.ndim - 1))
        inputs.append(draw(st.sampled_from([np.array(axis), np.array([axis], np.int32)])))
    return Case(inputs, draw(st.sampled_from([{}, {"sorted": True}, AS_FOUND, SMALL])), [name])


def loop(case: Case) -> list[np.ndarray]:
    data = storage.decode(case.inputs[0], case.types[0])
    slices: list[tuple[Any, ...]]
    if len(case.inputs) == 1:
        slices = [(v,) for v in data.ravel().tolist()]
    else:
        axis = int(case.inputs[1].reshape(-1)[0]) % data.ndim
        slices = [
            tuple(data[(slice(None),) * axis + (i,)].ravel().tolist())
            for i in range(data.shape[axis])
        ]
    found: list[tuple[Any, ...]] = []
    for piece in slices:
        if piece not in found:
            found.append(piece)
    if case.attributes.get("sorted", True):
        found.sort()
    firsts = [slices.index(piece) for piece in found]
    indices = case.attributes.get("index_element_type", ElementType.i64).dtype
    counts = case.attributes.get("count_element_type", ElementType.i64).dtype
    source = case.inputs[0]
    if len(case.inputs) == 1:
        values = np.empty(len(firsts), source.dtype)
        for place, i in enumerate(firsts):
            values[place] = source.ravel()[i]
    else:
        values = np.empty(
            (*source.shape[:axis], len(firsts), *source.shape[axis + 1 :]), source.dtype
        )
        for place, i in enumerate(firsts):
            before = (slice(None),) * axis
            values[(*before, place)] = source[(*before, i)]
    return [
        values,
        np.array(firsts, indices),
        np.array([found.index(piece) for piece in slices], indices),
        np.array([sum(other == piece for other in slices) for piece in found], counts),
    ]


SAMPLES = [Samples(Unique10, EXAMPLES, REFUSALS, cases(), loop)]
