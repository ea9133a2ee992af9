"""GatherND-5, -8. The numbered examples are those of the pages."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.gather_nd import GatherND5, GatherND8

SQUARE = np.array([[1, 2], [3, 4]], np.float32)
LONG = np.arange(1, 25, dtype=np.int32).reshape(2, 3, 4)
SIX = np.array([[[[1]], [[0]], [[2]]], [[[0]], [[2]], [[2]]]])

EXAMPLES = [
    Sample(
        "page example 1: elements",
        [SQUARE, np.array([[0, 0], [1, 0]])],
        [np.array([1, 3], np.float32)],
    ),
    Sample(
        "page example 2: slices",
        [SQUARE, np.array([[1], [0]])],
        [np.array([[3, 4], [1, 2]], np.float32)],
    ),
    Sample(
        "page example 3: leading dimensions",
        [SQUARE, np.array([[[1]], [[0]]])],
        [np.array([[[3, 4]], [[1, 2]]], np.float32)],
    ),
    Sample(
        "page example 4: batches",
        [SQUARE, np.array([[1], [0]])],
        [np.array([2, 3], np.float32)],
        {"batch_dims": 1},
    ),
    Sample(
        "page example 5: slices of batches",
        [LONG, np.array([[1], [0]])],
        [np.array([[5, 6, 7, 8], [13, 14, 15, 16]], np.int32)],
        {"batch_dims": 1},
    ),
    Sample("one tuple", [SQUARE, np.array([1, 0], np.int32)], [np.float32(3)]),
    Sample(
        "strings",
        [np.array([["a", ""], ["日本", "b"]], object), np.array([[1, 0]])],
        [np.array(["日本"], object)],
        openvino="not for strings",
    ),
    Sample(
        "negative indices",
        [SQUARE, np.array([[-1, -2], [0, -1]])],
        [np.array([3, 2], np.float32)],
        openvino="older versions refuse it",
    ),
    Sample(
        "empty tuples take everything",
        [SQUARE, np.zeros((2, 0), np.int64)],
        [np.array([[[1, 2], [3, 4]], [[1, 2], [3, 4]]], np.float32)],
        openvino="divides by the length of a tuple",
    ),
    Sample(
        "a batch of 1 stretches",
        [SQUARE, np.array([[[1], [0]]])],
        [np.array([[2, 1], [4, 3]], np.float32)],
        {"batch_dims": 1},
        openvino="asks for equal batch dimensions",
    ),
    Sample(
        "no tuples",
        [SQUARE, np.zeros((0, 1), np.int64)],
        [np.zeros((0, 2), np.float32)],
        openvino="refuses empty indices",
    ),
]
EXAMPLES_8 = [
    Sample(
        "page example 6: batches stay apart",
        [LONG, SIX],
        [np.array([[[2], [5], [11]], [[13], [19], [23]]], np.int32)],
        {"batch_dims": 2},
    ),
    Sample(
        "page example 7: three batch dimensions",
        [
            np.arange(1, 17, dtype=np.float32).reshape(1, 2, 2, 4),
            np.array([[[[1], [0]], [[3], [2]]]]),
        ],
        [np.array([[[2, 5], [12, 15]]], np.float32)],
        {"batch_dims": 3},
    ),
]
EXAMPLES_5 = [
    Sample(
        "page example 6: batches are joined",
        [LONG, SIX],
        [np.array([[2], [5], [11], [13], [19], [23]], np.int32)],
        {"batch_dims": 2},
    ),
]
REFUSALS = [
    Refusal(
        "scalar data",
        [np.float32(1), np.array([0])],
        "'data': expected at least one dimension, got a scalar",
    ),
    Refusal(
        "scalar indices",
        [SQUARE, np.int64(0)],
        "'indices': expected at least one dimension, got a scalar",
    ),
    Refusal(
        "batch_dims below 0",
        [SQUARE, np.array([0])],
        "attribute 'batch_dims': expected at least 0, got -1",
        {"batch_dims": -1},
    ),
    Refusal(
        "batch_dims too large",
        [SQUARE, np.array([0])],
        r"batch_dims 1 is not below the rank of 'indices' \[1\]",
        {"batch_dims": 1},
    ),
    Refusal(
        "long tuples",
        [SQUARE, np.array([[0, 0, 0]])],
        r"0 and 3 indices a tuple go past the rank of 'data' \[2,2\]",
    ),
    Refusal(
        "batches differ",
        [SQUARE, np.zeros((3, 1), int)],
        r"equal or 1: data \[2,2\], indices \[3,1\]",
        {"batch_dims": 1},
    ),
    Refusal(
        "too large",
        [np.zeros((2, 3)), np.array([[1, 2], [0, 3]])],
        r"indices\[1, 1\] is 3, expected -3 to 2",
    ),
    Refusal(
        "too small",
        [np.zeros((2, 3)), np.array([[-3, 0]])],
        r"indices\[0, 0\] is -3, expected -2 to 1",
    ),
    Refusal(
        "unsigned",
        [np.zeros((2, 3)), np.array([[2**63, 0]], np.uint64)],
        r"indices\[0, 0\] is 9223372036854775808, expected -2 to 1",
    ),
    Refusal("float indices", [SQUARE, np.array([[0.0]])], "expected an integer type.*got f64"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1))
    batch = draw(st.integers(0, len(shape) - 1))
    size = draw(st.integers(0, len(shape) - batch))
    middle = draw(shapes(max_rank=2, max_side=3))
    sides = shape[batch : batch + size]
    if 0 in sides:
        middle = (*middle, 0)
    lead = tuple(1 if s > 1 and draw(st.booleans()) else s for s in shape[:batch])
    columns = [draw(integer_arrays((*lead, *middle), -s, max(s - 1, 0), ("i8",))) for s in sides]
    indices = np.stack(columns, -1) if columns else np.zeros((*lead, *middle, 0), np.int64)
    data, name = draw(arrays(shape))
    return Case(
        [data, indices.astype(draw(st.sampled_from(["i2", "i4", "i8"])))],
        {"batch_dims": batch},
        [name],
    )


def loop(case: Case, joined: bool) -> list[np.ndarray]:
    data, indices = case.inputs
    batch = case.attributes.get("batch_dims", 0)
    lead = tuple(
        b if a == 1 else a for a, b in zip(data.shape[:batch], indices.shape[:batch], strict=True)
    )
    middle, size = indices.shape[batch:-1], indices.shape[-1]
    rest = data.shape[batch + size :]
    output = np.empty(lead + middle + rest, data.dtype)
    for place in itertools.product(*map(range, output.shape)):
        b, i, q = place[:batch], place[batch : batch + len(middle)], place[batch + len(middle) :]
        from_indices = tuple(0 if s == 1 else p for p, s in zip(b, indices.shape, strict=False))
        from_data = tuple(0 if s == 1 else p for p, s in zip(b, data.shape, strict=False))
        picked = [int(indices[(*from_indices, *i, k)]) for k in range(size)]
        picked = [p + data.shape[batch + k] if p < 0 else p for k, p in enumerate(picked)]
        output[place] = data[(*from_data, *picked, *q)]
    return [output.reshape((math.prod(lead), *middle, *rest)) if joined and batch else output]


SAMPLES = [
    Samples(GatherND8, EXAMPLES + EXAMPLES_8, REFUSALS, cases(), lambda c: loop(c, False)),
    Samples(GatherND5, EXAMPLES + EXAMPLES_5, REFUSALS, cases(), lambda c: loop(c, True)),
]
