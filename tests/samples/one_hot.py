"""OneHot-1, -16. The numbered examples are the pages'."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.one_hot import OneHot1, OneHot16

I64 = np.int64
LAST = {"axis": -1}
GRID = np.array([[0, 3, 1], [1, 2, 4]])
NORMALIZE = {"axis": -1, "negative_indices_mode": "normalize"}
STRINGS = [np.array("on", object), np.array("", object)]

EXAMPLES = [
    Sample(
        "page example 1",
        [np.array([0, 3, 1, 2]), I64(3), I64(1), I64(2)],
        [np.array([[1, 2, 2], [2, 2, 2], [2, 1, 2], [2, 2, 1]])],
        LAST,
    ),
    Sample(
        "page example 2",
        [GRID, I64(3), np.float32(1), np.float32(0)],
        [
            np.array(
                [[[1, 0, 0], [0, 0, 1], [0, 0, 0]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float32
            )
        ],
        {"axis": 1},
    ),
    Sample(
        "a scalar index",
        [I64(1), I64(3), True, False],
        [np.array([False, True, False])],
        {"axis": 0},
    ),
    Sample(
        "the first axis",
        [np.array([1, 0]), I64(2), I64(1), I64(0)],
        [np.array([[0, 1], [1, 0]])],
        {"axis": -2},
    ),
    Sample("depth 0", [np.array([1, 0]), I64(0), I64(1), I64(0)], [np.zeros((2, 0), I64)], LAST),
    Sample(
        "a negative index is none",
        [np.array([-1, 1]), I64(2), I64(1), I64(0)],
        [np.array([[0, 0], [0, 1]])],
        LAST,
    ),
    Sample(
        "2**32 is not 0",
        [np.array([2**32]), I64(2), I64(1), I64(0)],
        [np.array([[0, 0]])],
        LAST,
        openvino="narrows indices to 32 bits",
    ),
    Sample(
        "u64",
        [np.array([2**63, 1], np.uint64), I64(2), I64(1), I64(0)],
        [np.array([[0, 0], [0, 1]])],
        LAST,
        openvino="narrows indices to 32 bits",
    ),
    Sample(
        "strings",
        [np.array([1]), I64(2), *STRINGS],
        [np.array([["", "on"]], object)],
        LAST,
        openvino="not for strings",
    ),
    Sample(
        "bits of bf16",
        [np.array([0]), I64(2), np.uint16(0x7FC1), np.uint16(0x8000)],
        [np.array([[0x7FC1, 0x8000]], np.uint16)],
        LAST,
        types=[None, None, "bf16", "bf16"],
        output_types=["bf16"],
    ),
]
ONLY_16 = [
    Sample(
        "page example 1: from the end",
        [np.array([0, -5, -2, 2]), I64(3), I64(1), I64(2)],
        [np.array([[1, 2, 2], [2, 2, 2], [2, 1, 2], [2, 2, 1]])],
        NORMALIZE,
    ),
    Sample(
        "i8 from the end",
        [np.array([-1], np.int8), I64(200), I64(1), I64(0)],
        [np.eye(200, dtype=I64)[-1:]],
        NORMALIZE,
        openvino="takes i32 and i64",
    ),
    Sample(
        "u8 of a large depth",
        [np.array([255], np.uint8), I64(256), I64(1), I64(0)],
        [np.eye(256, dtype=I64)[-1:]],
        NORMALIZE,
        openvino="takes i32 and i64",
    ),
]
REFUSALS = [
    Refusal(
        "axis",
        [np.array([0]), I64(2), I64(1), I64(0)],
        r"axis 2 is outside -2\.\.1 for rank 2",
        {"axis": 2},
    ),
    Refusal(
        "depth",
        [np.array([0]), I64(-2), I64(1), I64(0)],
        r"'depth' is -2, expected at least 0",
        LAST,
    ),
    Refusal(
        "depths",
        [np.array([0]), np.array([2]), I64(1), I64(0)],
        r"'depth': expected a scalar, got shape \[1\]",
        LAST,
    ),
    Refusal(
        "values",
        [np.array([0]), I64(2), I64(1), np.array([0, 1])],
        r"'off_value': expected a scalar, got shape \[2\]",
        LAST,
    ),
    Refusal(
        "types",
        [np.array([0]), I64(2), I64(1), np.float32(0)],
        r"'off_value' \(port 3\): expected i64 as 'on_value' has, got f32",
        LAST,
    ),
    Refusal(
        "too much",
        [np.array([0]), I64(2**60), I64(1), I64(0)],
        "more than this machine's memory",
        LAST,
    ),
]
NEGATIVE = Refusal(
    "negative",
    [np.array([0, -1]), I64(2), I64(1), I64(0)],
    r"indices\[1\] is -1, expected at least 0",
    LAST,
    strict=True,
)
MODE = Refusal(
    "mode",
    [np.array([0]), I64(2), I64(1), I64(0)],
    "'negative_indices_mode': expected ignore_negative or normalize",
)


@st.composite
def cases(draw: st.DrawFn, modes: tuple[str, ...]) -> Case:
    depth = draw(st.integers(0, 4))
    indices = draw(
        integer_arrays(
            draw(shapes(max_rank=3, max_side=3)), -depth - 1, depth + 1, ("i1", "i4", "i8")
        )
    )
    axis = draw(st.integers(-indices.ndim - 1, indices.ndim))
    values, name = draw(arrays((2,)))
    on, off = (np.array(values[i], values.dtype) for i in range(2))
    mode = draw(st.sampled_from(modes))
    return Case(
        [indices, I64(depth), on, off],
        {"axis": axis} | ({"negative_indices_mode": mode} if mode else {}),
        [None, None, name, name],
    )


def loop(case: Case) -> list[np.ndarray]:
    indices, depth, on, off = case.inputs
    axis = case.attributes["axis"] % (indices.ndim + 1)
    output = np.empty((*indices.shape[:axis], int(depth), *indices.shape[axis:]), on.dtype)
    for place in itertools.product(*map(range, output.shape)):
        index = int(indices[(*place[:axis], *place[axis + 1 :])])
        if case.attributes.get("negative_indices_mode") == "normalize" and index < 0:
            index += int(depth)
        output[place] = on[()] if index == place[axis] else off[()]
    return [output]


SAMPLES = [
    Samples(OneHot1, EXAMPLES, [*REFUSALS, NEGATIVE], cases(("",)), loop),
    Samples(
        OneHot16, EXAMPLES + ONLY_16, REFUSALS, cases(("", "ignore_negative", "normalize")), loop
    ),
]
