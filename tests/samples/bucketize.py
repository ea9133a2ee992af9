"""Bucketize-3."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.bucketize import Bucketize3
from uncork.types import ElementType

LEFT = {"with_right_bound": False}
I32 = {"output_type": ElementType.i32}
DATA = np.array([[3, 50], [10, -1]], np.int32)
BUCKETS = np.array([0, 5, 10], np.int32)
WIDE = "OpenVINO compares in 32 bits"

EXAMPLES = [
    Sample("the page's", [DATA, BUCKETS], [np.array([[1, 3], [2, 0]])]),
    Sample(
        "the left edge belongs to the bucket",
        [DATA, BUCKETS],
        [np.array([[1, 3], [3, 0]], np.int32)],
        LEFT | I32,
    ),
    Sample("no boundaries", [DATA, np.zeros((0,), np.int32)], [np.zeros((2, 2), np.int64)]),
    Sample(
        "NaN",
        [np.array([np.nan, 1], np.float32), np.array([2], np.float32)],
        [np.array([1, 0])],
        openvino="puts NaN in the first",
    ),
    Sample(
        "numbers behind a NaN, among boundaries of another type",
        [np.array([np.nan, np.inf, 7, np.nan, 2.5], np.float32), np.array([0, 1, 2, 3], np.int32)],
        [np.array([4, 4, 4, 4, 3])],
        openvino="puts NaN in the first",
    ),
    Sample(
        "infinity",
        [np.array([-np.inf, np.inf], np.float32), np.array([0, np.inf], np.float32)],
        [np.array([0, 1])],
    ),
    Sample(
        "i64 with floats, exactly",
        [np.array([2**53 + 1]), np.array([2.0**53])],
        [np.array([1])],
        openvino=WIDE,
    ),
    Sample(
        "i64 with u64",
        [np.array([-1, 2**62]), np.array([0, 2**63], np.uint64)],
        [np.array([0, 1])],
        openvino=WIDE,
    ),
    Sample("a scalar", [np.float32(7), BUCKETS], [np.int64(2)]),
    Sample("a boundary twice", [np.array([1, 2]), np.array([1, 1])], [np.array([0, 2])]),
]
REFUSALS = [
    Refusal(
        "unsorted",
        [DATA, BUCKETS[::-1].copy()],
        r"buckets\[1\] is 5, expected at least the one before it",
    ),
    Refusal(
        "NaN boundary", [DATA, np.array([1, np.nan])], r"buckets\[1\] is nan, expected a number"
    ),
    Refusal(
        "a boundary twice",
        [DATA, np.array([1, 1])],
        r"buckets\[1\] is 1, expected more than the one before it",
        strict=True,
    ),
    Refusal(
        "a matrix of boundaries",
        [DATA, DATA],
        r"'buckets': expected a 1-D tensor, got shape \[2,2\]",
    ),
    Refusal(
        "another output type",
        [DATA, BUCKETS],
        "expected i32 or i64, got f32",
        {"output_type": ElementType.f32},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes(max_rank=3)), FLOATS + INTEGERS))
    buckets, other = draw(arrays((draw(st.integers(0, 5)),), FLOATS + INTEGERS))
    order = np.argsort(storage.decode(buckets, ElementType.parse(other)), kind="stable")
    return Case([data, buckets[order]], draw(st.sampled_from([{}, LEFT, I32])), [name, other])


def loop(case: Case) -> list[np.ndarray]:
    data, buckets = (storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    output = np.zeros(data.shape, case.attributes.get("output_type", ElementType.i64).dtype)
    for place in np.ndindex(*data.shape):
        value = Fraction(data[place].item())
        bounds = [Fraction(b.item()) for b in buckets]
        output[place] = sum(
            b < value or (b == value and case.attributes.get("with_right_bound") is False)
            for b in bounds
        )
    return [output]


SAMPLES = [Samples(Bucketize3, EXAMPLES, REFUSALS, cases(), loop)]
