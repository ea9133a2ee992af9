"""NonZero-3."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import ALL_TYPES, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.non_zero import NonZero3
from uncork.types import ElementType

I32 = {"output_type": ElementType.i32}
EXAMPLES = [
    Sample("the page's", [np.array([[1, 0], [1, 1]])], [np.array([[0, 1, 1], [0, 0, 1]])]),
    Sample("i32", [np.array([0.0, 2, 0, -1], np.float32)], [np.array([[1, 3]], np.int32)], I32),
    Sample(
        "NaN is not 0, -0.0 is",
        [np.array([np.nan, -0.0, 0, 1e-45], np.float32)],
        [np.array([[0, 3]])],
    ),
    Sample(
        "-0.0 of bf16", [np.array([0x8000, 0x3F80], np.uint16)], [np.array([[1]])], types=["bf16"]
    ),
    Sample(
        "a scalar", [np.float32(5)], [np.zeros((0, 1), np.int64)], openvino="gives shape [1, 1]"
    ),
    Sample(
        "a scalar 0", [np.float32(0)], [np.zeros((0, 0), np.int64)], openvino="gives shape [1, 0]"
    ),
    Sample("nothing", [np.zeros((2, 0, 3), bool)], [np.zeros((3, 0), np.int64)]),
    Sample("all 0", [np.zeros((2, 2), np.int8)], [np.zeros((2, 0), np.int64)]),
    Sample(
        "2**40 is not 0",
        [np.array([2**40, 0])],
        [np.array([[0]])],
        openvino="OpenVINO narrows 64-bit numbers",
    ),
]
REFUSALS = [
    Refusal(
        "too far for i32",
        [np.zeros((2**31 + 1, 0), bool)],
        r"places in shape \[2147483649,0\] do not fit i32",
        I32,
    ),
    Refusal(
        "another output type",
        [np.zeros(1)],
        "expected i32 or i64, got u8",
        {"output_type": ElementType.u8},
    ),
    Refusal("strings", [np.array(["a"], object)], r"'data' \(port 0\): expected .* got string"),
]
TYPES = tuple(t for t in ALL_TYPES if t != "string")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes()), TYPES, -1, 1))
    return Case([data], draw(st.sampled_from([{}, I32, {"output_type": ElementType.i64}])), [name])


def loop(case: Case) -> list[np.ndarray]:
    (data,), (element_type,) = case.inputs, case.types
    found = [
        p
        for p in itertools.product(*map(range, data.shape))
        if float(storage.decode(data[p][None], element_type)[0]) != 0.0
    ]
    dtype = case.attributes.get("output_type", ElementType.i64).dtype
    return [
        np.array([[p[axis] for p in found] for axis in range(data.ndim)], dtype).reshape(
            data.ndim, len(found)
        )
    ]


SAMPLES = [Samples(NonZero3, EXAMPLES, REFUSALS, cases(), loop)]
