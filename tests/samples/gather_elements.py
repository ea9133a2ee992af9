"""GatherElements-6. The numbered examples are those of the page."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.gather_elements import GatherElements6

SQUARE = np.array([[1, 2], [3, 4]], np.float32)

EXAMPLES = [
    Sample(
        "page example 1",
        [SQUARE, np.array([[0, 1], [0, 0]])],
        [np.array([[1, 4], [1, 2]], np.float32)],
        {"axis": 0},
    ),
    Sample(
        "page example 2: more indices than data",
        [np.array([[1, 7], [4, 3]], np.int32), np.array([[1, 1, 0], [1, 0, 1]], np.int32)],
        [np.array([[7, 7, 1], [3, 4, 3]], np.int32)],
        {"axis": 1},
    ),
    Sample(
        "page example 3: fewer indices than data",
        [np.arange(1, 10, dtype=np.float32).reshape(3, 3), np.array([[1, 0, 1], [1, 2, 0]])],
        [np.array([[4, 2, 6], [4, 8, 3]], np.float32)],
        {"axis": 0},
    ),
    Sample(
        "negative indices and axis",
        [SQUARE, np.array([[-1], [-2]])],
        [np.array([[2], [3]], np.float32)],
        {"axis": -1},
    ),
    Sample(
        "strings",
        [np.array(["a", "", "日本"], object), np.array([2, 0])],
        [np.array(["日本", "a"], object)],
        {"axis": 0},
        openvino="not for strings",
    ),
    Sample(
        "bf16 moves its bits",
        [np.array([0x7FC1, 0xFF81], np.uint16), np.array([1, 0])],
        [np.array([0xFF81, 0x7FC1], np.uint16)],
        {"axis": 0},
        types=["bf16"],
        output_types=["bf16"],
        openvino="may quieten a NaN",
    ),
    Sample(
        "nothing gathered",
        [np.zeros((0, 2), np.float32), np.zeros((0, 2), np.int64)],
        [np.zeros((0, 2), np.float32)],
        {"axis": 0},
        openvino="refuses empty data",
    ),
]
REFUSALS = [
    Refusal(
        "axis", [SQUARE, np.array([[0, 0]])], r"axis 2 is outside -2\.\.1 for rank 2", {"axis": 2}
    ),
    Refusal("scalar", [np.float32(1), np.int64(0)], "is a scalar", {"axis": 0}),
    Refusal(
        "ranks", [SQUARE, np.array([0])], r"one rank: data \[2,2\], indices \[1\]", {"axis": 0}
    ),
    Refusal(
        "dimensions",
        [SQUARE, np.array([[0], [0], [0]])],
        r"equal but for axis 1: data \[2,2\], indices \[3,1\]",
        {"axis": 1},
    ),
    Refusal(
        "too large",
        [SQUARE, np.array([[0, 0], [0, 2]])],
        r"indices\[1, 1\] is 2, expected -2 to 1",
        {"axis": 0},
    ),
    Refusal(
        "too small",
        [SQUARE, np.array([[0, -3]], np.int32)],
        r"indices\[0, 1\] is -3, expected -2 to 1",
        {"axis": 0},
    ),
    Refusal(
        "64-bit", [SQUARE, np.array([[2**32, 0]])], r"indices\[0, 0\] is 4294967296", {"axis": 0}
    ),
    Refusal(
        "empty axis",
        [np.zeros((0, 1)), np.array([[0]])],
        "is 0, expected none at all: the axis is empty",
        {"axis": 0},
    ),
    Refusal(
        "type of indices",
        [SQUARE, np.array([[0, 0]], np.uint8)],
        r"expected one of i64, i32, got u8",
        {"axis": 0},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1))
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(0, 4)) if shape[axis] else 0
    indices = draw(
        integer_arrays(
            (*shape[:axis], count, *shape[axis + 1 :]), -shape[axis], max(shape[axis] - 1, 0)
        )
    )
    data, name = draw(arrays(shape))
    return Case(
        [data, indices], {"axis": axis - len(shape) if draw(st.booleans()) else axis}, [name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, indices = case.inputs
    axis = case.attributes["axis"] % data.ndim
    output = np.empty(indices.shape, data.dtype)
    for place in itertools.product(*map(range, indices.shape)):
        index = int(indices[place])
        index += data.shape[axis] if index < 0 else 0
        output[place] = data[(*place[:axis], index, *place[axis + 1 :])]
    return [output]


SAMPLES = [Samples(GatherElements6, EXAMPLES, REFUSALS, cases(), loop)]
