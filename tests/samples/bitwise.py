"""Logic and shifts on the bits of integers, worked by hand."""

from __future__ import annotations

import numpy as np

from tests.samples._arrays import INTEGERS
from tests.samples._elementwise import binary, unary
from tests.samples._sample import Refusal, Sample
from uncork.ops.bitwise import (
    BitwiseAnd,
    BitwiseLeftShift,
    BitwiseNot,
    BitwiseOr,
    BitwiseRightShift,
    BitwiseXor,
)

WHOLE = (*INTEGERS, "boolean")
A = np.array([[0b1100], [-1]], np.int32)
B = np.array([0b1010, 0], np.int32)
FLOATS = [
    Refusal("floats", [np.ones(1), np.ones(1)], r"'a' \(port 0\): expected one of i64.* got f64")
]
NEGATIVE = [
    Refusal(
        "negative places",
        [np.array([1]), np.array([[1], [-1]])],
        r"'b': b\[1, 0\] is -1, expected at least 0 places",
    )
]
UNDEFINED = "the page leaves it undefined"


def i8(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


SAMPLES = [
    binary(
        BitwiseAnd,
        lambda a, b: a & b,
        [Sample("by hand", [A, B], [np.array([[0b1000, 0], [0b1010, 0]], np.int32)])],
        FLOATS,
        types=WHOLE,
    ),
    binary(
        BitwiseOr,
        lambda a, b: a | b,
        [Sample("by hand", [A, B], [np.array([[0b1110, 0b1100], [-1, -1]], np.int32)])],
        FLOATS,
        types=WHOLE,
    ),
    binary(
        BitwiseXor,
        lambda a, b: a ^ b,
        [Sample("by hand", [A, B], [np.array([[0b0110, 0b1100], [-11, -1]], np.int32)])],
        FLOATS,
        types=WHOLE,
    ),
    unary(
        BitwiseNot,
        lambda x: not x if isinstance(x, bool) else ~x,
        [
            Sample("integers", [np.array([0, 5, -1], np.int32)], [np.array([-1, -6, 0], np.int32)]),
            Sample("u8", [np.array([0, 5], np.uint8)], [np.array([255, 250], np.uint8)]),
            Sample("booleans", [np.array([False, True])], [np.array([True, False])]),
        ],
        [Refusal("floats", [np.ones(1)], r"'data' \(port 0\): expected one of i64.* got f64")],
        types=WHOLE,
    ),
    binary(
        BitwiseLeftShift,
        lambda a, b: a << b,
        [
            Sample(
                "by hand",
                [np.array([1, 3, -1], np.int32), np.array([4, 1, 2], np.int32)],
                [np.array([16, 6, -4], np.int32)],
            ),
            Sample(
                "bits are shifted out",
                [i8(-128, 1, 3), i8(1, 7, 8)],
                [i8(0, -128, 0)],
                openvino=UNDEFINED,
            ),
            Sample(
                "u64",
                [np.array([2**63 + 1], np.uint64), np.array([1], np.uint64)],
                [np.array([2], np.uint64)],
            ),
            Sample(
                "nothing to shift",
                [np.zeros((0, 1), np.int32), np.array([-1], np.int32)],
                [np.zeros((0, 1), np.int32)],
            ),
        ],
        NEGATIVE,
        types=INTEGERS,
        high=70,
        low_b=0,
    ),
    binary(
        BitwiseRightShift,
        lambda a, b: a >> b,
        [
            Sample(
                "by hand",
                [np.array([16, 7, -7], np.int32), np.array([4, 1, 1], np.int32)],
                [np.array([1, 3, -4], np.int32)],
            ),
            Sample(
                "all bits are shifted out",
                [i8(-128, 127), i8(8, 100)],
                [i8(-1, 0)],
                openvino=UNDEFINED,
            ),
            Sample(
                "u64",
                [np.array([2**63], np.uint64), np.array([63], np.uint64)],
                [np.array([1], np.uint64)],
                openvino="not in 64 bits",
            ),
        ],
        NEGATIVE,
        types=INTEGERS,
        low=-100,
        high=100,
        low_b=0,
    ),
]
