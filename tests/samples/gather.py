"""Gather-1, -7, -8. The numbered examples are those of the specification page of Gather-8."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.gather import Gather1, Gather7, Gather8

I64 = np.int64
ROW = np.array([1, 2, 3, 4, 5], np.int32)
BATCHES = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], np.float32)
SHORT_1D = "OpenVINO reads past short 1-D integer data"

EXAMPLES = [
    Sample("page example 1", [ROW, np.array([0, 0, 4]), I64(0)], [np.array([1, 1, 5], np.int32)]),
    Sample(
        "page example 2: batch_dims 1",
        [BATCHES, np.array([[0, 0, 4], [4, 0, 0]]), I64(1)],
        [np.array([[1, 1, 5], [10, 6, 6]], np.float32)],
        {"batch_dims": 1},
    ),
    Sample(
        "page example 3: batch_dims 2",
        [
            np.arange(1, 21, dtype=np.float32).reshape(2, 2, 5),
            np.array([[[0, 0, 4], [4, 0, 0]], [[1, 2, 4], [4, 3, 2]]]),
            I64(2),
        ],
        [np.array([[[1, 1, 5], [10, 6, 6]], [[12, 13, 15], [20, 19, 18]]], np.float32)],
        {"batch_dims": 2},
    ),
    Sample(
        "page example 4: axis after the batch dimensions",
        [
            np.arange(1, 41, dtype=np.float32).reshape(2, 1, 5, 4),
            np.array([[1, 2, 4], [4, 3, 2]]),
            I64(2),
        ],
        [
            np.array(
                [
                    [[[5, 6, 7, 8], [9, 10, 11, 12], [17, 18, 19, 20]]],
                    [[[37, 38, 39, 40], [33, 34, 35, 36], [29, 30, 31, 32]]],
                ],
                np.float32,
            )
        ],
        {"batch_dims": 1},
    ),
    Sample(
        "rows between the batch dimensions and the axis",
        [
            np.arange(24, dtype=np.float32).reshape(2, 2, 3, 2),
            np.array([[2, 0], [1, 1]]),
            I64(2),
        ],
        [
            np.array(
                [
                    [[[4, 5], [0, 1]], [[10, 11], [6, 7]]],
                    [[[14, 15], [14, 15]], [[20, 21], [20, 21]]],
                ],
                np.float32,
            )
        ],
        {"batch_dims": 1},
    ),
    Sample(
        "single numbers between the batch dimensions and the axis",
        [
            np.arange(12, dtype=np.float32).reshape(2, 2, 3),
            np.array([[2, 0], [1, 1]]),
            I64(2),
        ],
        [np.array([[[2, 0], [5, 3]], [[7, 7], [10, 10]]], np.float32)],
        {"batch_dims": 1},
    ),
    Sample(
        "page example 5: negative batch_dims",
        [BATCHES, np.array([[0, 0, 4], [4, 0, 0]]), I64(1)],
        [np.array([[1, 1, 5], [10, 6, 6]], np.float32)],
        {"batch_dims": -1},
    ),
]
ONLY_8 = [
    Sample(
        "page example 6: negative indices",
        [ROW, np.array([0, -2, -1]), I64(0)],
        [np.array([1, 4, 5], np.int32)],
    ),
    Sample(
        "page example 7: out of range gives zeros",
        [ROW, np.array([3, 10, -20]), I64(0)],
        [np.array([4, 0, 0], np.int32)],
        openvino=SHORT_1D,
    ),
    Sample(
        "64-bit ids are not narrowed",
        [np.array([[1.0], [2.0]], np.float32), np.array([2**32 + 1, 1, -(2**32)]), I64(0)],
        [np.array([[0.0], [2.0], [0.0]], np.float32)],
        openvino="OpenVINO narrows ids to 32 bits",
    ),
    Sample(
        "scalar index drops the axis",
        [BATCHES, I64(-1), np.array([0])],
        [np.array([6, 7, 8, 9, 10], np.float32)],
    ),
    Sample(
        "strings out of range are empty",
        [np.array(["a", "日本", ""], object), np.array([1, 7]), I64(0)],
        [np.array(["日本", ""], object)],
    ),
    Sample(
        "zeros of nf4 are no codes of 0",
        [np.array([[15, 7], [3, 9]], np.uint8), np.array([0, 5]), I64(0)],
        [np.array([[15, 7], [7, 7]], np.uint8)],
        types=["nf4"],
        output_types=["nf4"],
        openvino="OpenVINO takes no nf4",
    ),
    Sample(
        "f8e8m0 has no zero: its least number",
        [np.array([127, 130], np.uint8), np.array([1, 5]), I64(0)],
        [np.array([130, 0], np.uint8)],
        types=["f8e8m0"],
        output_types=["f8e8m0"],
        openvino="OpenVINO takes no f8e8m0",
    ),
    Sample(
        "bf16 moves its bits, NaN payload included",
        [np.array([0x3F80, 0x7FC1, 0xFF81], np.uint16), np.array([2, 1]), I64(0)],
        [np.array([0xFF81, 0x7FC1], np.uint16)],
        types=["bf16"],
        output_types=["bf16"],
        openvino="OpenVINO may quieten a NaN",
    ),
    Sample(
        "empty data axis",
        [np.zeros((0, 2), np.float32), np.array([0, 1]), I64(0)],
        [np.zeros((2, 2), np.float32)],
        openvino="OpenVINO returns uninitialised memory",
    ),
    Sample(
        "empty indices",
        [np.ones((2, 5), np.float32), np.zeros((0,), np.int64), I64(1)],
        [np.zeros((2, 0), np.float32)],
        openvino="OpenVINO dies of a division by zero",
    ),
]
BELOW_8 = [
    Sample(
        "a negative index gives zeros",
        [BATCHES, np.array([0, -1]), I64(1)],
        [np.array([[1, 0], [6, 0]], np.float32)],
    ),
]
REFUSALS = [
    Refusal(
        "axis past the rank",
        [BATCHES, np.array([0]), I64(2)],
        r"axis 2 is outside -2\.\.1 for rank 2",
    ),
    Refusal(
        "two axes",
        [BATCHES, np.array([0]), np.array([0, 1])],
        r"'axis': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal("scalar data", [np.float32(1), np.array([0]), I64(0)], "is a scalar"),
    Refusal(
        "float ids",
        [ROW, np.array([0.0]), I64(0)],
        r"'indices' \(port 1\): expected an integer type.*got f64",
    ),
    Refusal(
        "strict: too large",
        [BATCHES, np.array([[0, 2]]), I64(0)],
        r"indices\[0, 1\] is 2, expected (-2|0) to 1",
        strict=True,
    ),
]
BATCH_REFUSALS = [
    Refusal(
        "batch_dims past the rank",
        [BATCHES, np.array([0]), I64(0)],
        "batch_dims 2 is outside 0..1",
        {"batch_dims": 2},
    ),
    Refusal(
        "axis inside the batch",
        [BATCHES, np.array([[0], [0]]), I64(0)],
        "axis 0 lies within the first 1",
        {"batch_dims": 1},
    ),
    Refusal(
        "unequal batches",
        [BATCHES, np.array([[0]]), I64(1)],
        "must be equal: data .2,5., indices .1,1.",
        {"batch_dims": 1},
    ),
]


@st.composite
def cases(draw: st.DrawFn, batched: bool) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=4))
    axis = draw(st.integers(0, len(shape) - 1))
    batch = draw(st.integers(0, axis)) if batched else 0
    rest = draw(shapes(max_rank=2))
    size = shape[axis]
    indices = draw(integer_arrays((*shape[:batch], *rest), -size - 2, size + 1))
    if draw(st.booleans()):
        axis -= len(shape)
    attributes = (
        {"batch_dims": batch - indices.ndim if batch and draw(st.booleans()) else batch}
        if batched
        else {}
    )
    data, type_name = draw(arrays(shape))
    return Case(
        [data, indices, draw(st.sampled_from([I64(axis), np.array([axis], np.int32)]))],
        attributes,
        [type_name],
    )


def loop(case: Case, counts_from_end: bool) -> list[np.ndarray]:
    """output[p.., i.., q..] = data[p.., indices[p_batch, i..], q..], one element at a time."""
    data, indices, axis = case.inputs
    along = int(axis.reshape(-1)[0]) % data.ndim
    batch = case.attributes.get("batch_dims", 0) % indices.ndim if indices.ndim else 0
    batch = indices.ndim if case.attributes.get("batch_dims", 0) == indices.ndim else batch
    shape = data.shape[:along] + indices.shape[batch:] + data.shape[along + 1 :]
    output = np.empty(shape, data.dtype)
    free = indices.ndim - batch
    for place in itertools.product(*map(range, shape)):
        p, i, q = place[:along], place[along : along + free], place[along + free :]
        index = int(indices[(*p[:batch], *i)])
        if index < 0 and counts_from_end:
            index += data.shape[along]
        inside = 0 <= index < data.shape[along]
        output[place] = data[(*p, index, *q)] if inside else case.zero
    return [output]


SAMPLES = [
    Samples(
        Gather8, EXAMPLES + ONLY_8, REFUSALS + BATCH_REFUSALS, cases(True), lambda c: loop(c, True)
    ),
    Samples(
        Gather7,
        EXAMPLES + BELOW_8,
        REFUSALS + BATCH_REFUSALS,
        cases(True),
        lambda c: loop(c, False),
    ),
    Samples(Gather1, EXAMPLES[:1] + BELOW_8, REFUSALS, cases(False), lambda c: loop(c, False)),
]
