"""The arithmetic of two tensors. Worked by hand; the shapes of the broadcasting examples are those
of the specification pages.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS
from tests.samples._elementwise import binary
from tests.samples._sample import Refusal, Sample
from uncork.ops.arithmetic import (
    Add,
    Atan2,
    Divide,
    FloorMod,
    Maximum,
    Minimum,
    Mod,
    Multiply,
    Power,
    SquaredDifference,
    Subtract,
)

LOWEST = np.iinfo(np.int64).min
NARROW = "OpenVINO computes 64-bit types in 32 bits"
CUT = "OpenVINO cuts towards zero"


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def no_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divisors of integers; bf16 is carried by integers too, there 1 is a tiny number."""
    return b if b.dtype.kind == "f" else np.where(b == 0, 1, b).astype(b.dtype)


def divide(a: float, b: float, m_pythondiv: bool = True) -> float:
    if isinstance(a, int):
        return a // b if m_pythondiv else int(math.copysign(abs(a) // abs(b), a * b))
    if b == 0:
        return (
            math.nan
            if a == 0 or math.isnan(a)
            else math.copysign(math.inf, a) * math.copysign(1, b)
        )
    return a / b


def mod(a: float, b: float) -> float:
    if isinstance(a, int):
        return int(math.copysign(abs(a) % abs(b), a))
    return math.fmod(a, b) if b else math.nan


def floor_mod(a: float, b: float) -> float:
    return math.nan if b == 0 else a % b


def power(a: float, b: float) -> float:
    if isinstance(a, int):
        return a**b if b >= 0 else int(1 / a**-b)
    if a == 0 and b < 0:
        odd = b % 2 == 1
        return math.copysign(math.inf, a) if odd else math.inf
    value = a**b
    return math.nan if isinstance(value, complex) else value


def no_inverse_of_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(b) if a.dtype.kind == "i" and np.any(a == 0) else b


ZERO = [
    Refusal(
        "integer division by zero",
        [i64(1, 2), np.array([[3], [0]])],
        r"'b': b\[1, 0\] is 0, expected a divisor other than 0",
    ),
]
TYPES = [
    Refusal("unequal types", [i64(1), f32(1)], r"'b' \(port 1\): expected i64 as 'a' has, got f32"),
    Refusal(
        "booleans",
        [np.array([True]), np.array([True])],
        r"'a' \(port 0\): expected one of .* got boolean",
    ),
    Refusal(
        "4-bit integers",
        [np.array([1], np.int8)] * 2,
        r"'a' \(port 0\): expected one of .* got i4",
        types=["i4", "i4"],
    ),
]

SAMPLES = [
    binary(
        Add,
        lambda a, b: a + b,
        [
            Sample("numpy broadcasting", [f32(1), f32(10, 20)], [f32(11, 21)]),
            Sample(
                "both stretch",
                [np.array([[1], [2]], np.int32), np.array([[10, 20, 30]], np.int32)],
                [np.array([[11, 21, 31], [12, 22, 32]], np.int32)],
            ),
            Sample(
                "pdpd: b stretches to a",
                [np.ones((2, 3, 4), np.float32), np.arange(3, dtype=np.float32).reshape(3, 1)],
                [np.broadcast_to(np.arange(1, 4, dtype=np.float32)[:, None], (2, 3, 4))],
                {"auto_broadcast": "pdpd"},
            ),
            Sample(
                "pdpd: from axis 0 on",
                [np.zeros((3, 3), np.float32), np.array([[1], [2], [3]], np.float32)],
                [np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3]], np.float32)],
                {"auto_broadcast": "pdpd", "auto_broadcast_axis": 0},
            ),
            Sample(
                "pdpd: axis 0 of rank 3",
                [np.zeros((2, 2, 2), np.float32), np.array([1, 2], np.float32)],
                [np.array([[[1, 1], [1, 1]], [[2, 2], [2, 2]]], np.float32)],
                {"auto_broadcast": "pdpd", "auto_broadcast_axis": 0},
            ),
            Sample(
                "pdpd: a 1 that sticks out",
                [np.zeros((2, 2), np.float32), np.array([[1], [2]], np.float32)],
                [np.array([[1, 2], [1, 2]], np.float32)],
                {"auto_broadcast": "pdpd", "auto_broadcast_axis": 1},
                openvino="OpenVINO refuses it",
            ),
            Sample(
                "pdpd: scalar", [f32(1, 2), np.float32(1)], [f32(2, 3)], {"auto_broadcast": "pdpd"}
            ),
            Sample(
                "u8 wraps",
                [np.array([200], np.uint8), np.array([100], np.uint8)],
                [np.array([44], np.uint8)],
                openvino="OpenVINO saturates",
            ),
            Sample(
                "i64 in full width",
                [i64(2**40, -(2**63)), i64(1, -1)],
                [i64(2**40 + 1, 2**63 - 1)],
                openvino=NARROW,
            ),
            Sample(
                "f16 rounded once, to even",
                [np.array([2048], np.float16), np.array([1], np.float16)],
                [np.array([2048], np.float16)],
            ),
            Sample("empty", [np.zeros((0, 3), np.float32), f32(1)], [np.zeros((0, 3), np.float32)]),
        ],
        TYPES,
    ),
    binary(
        Subtract,
        lambda a, b: a - b,
        [
            Sample(
                "u8 wraps below zero",
                [np.array([1], np.uint8), np.array([2], np.uint8)],
                [np.array([255], np.uint8)],
                openvino="OpenVINO saturates",
            ),
            Sample("by hand", [f32(1, 5), f32(3)], [f32(-2, 2)]),
        ],
    ),
    binary(
        Multiply,
        lambda a, b: a * b,
        [
            Sample("by hand", [f32(1.5, -2), f32(3)], [f32(4.5, -6)]),
            Sample(
                "u64 in full width",
                [np.array([2**63 + 3], np.uint64), np.array([2], np.uint64)],
                [np.array([6], np.uint64)],
            ),
        ],
    ),
    binary(
        Divide,
        divide,
        [
            Sample(
                "floats",
                [f32(1, -7, 1, -1, 0), f32(2, 2, 0, 0, 0)],
                [f32(0.5, -3.5, np.inf, -np.inf, np.nan)],
            ),
            Sample(
                "integers are rounded down",
                [i64(7, -7, 7, -7), i64(2, 2, -2, -2)],
                [i64(3, -4, -4, 3)],
                openvino=CUT,
            ),
            Sample(
                "or cut towards zero",
                [i64(7, -7, 7, -7, 6), i64(2, 2, -2, -2, -2)],
                [i64(3, -3, -3, 3, -3)],
                {"m_pythondiv": False},
            ),
            Sample(
                "the lowest integer by -1 wraps",
                [i64(LOWEST), i64(-1)],
                [i64(LOWEST)],
                openvino=NARROW,
            ),
            Sample(
                "... also when cut",
                [i64(LOWEST), i64(-1)],
                [i64(LOWEST)],
                {"m_pythondiv": False},
                openvino=NARROW,
            ),
            Sample(
                "beyond the digits of f64",
                [i64(2**62 + 1), i64(1)],
                [i64(2**62 + 1)],
                openvino=NARROW,
            ),
            Sample(
                "nothing is divided",
                [np.zeros((0, 1), np.int32), np.array([0], np.int32)],
                [np.zeros((0, 1), np.int32)],
            ),
        ],
        ZERO,
        attributes=st.sampled_from([{}, {"m_pythondiv": True}, {"m_pythondiv": False}]),
        mend=no_zero,
    ),
    binary(
        Mod,
        mod,
        [
            Sample(
                "the sign of the dividend",
                [i64(7, -7, 7, -7), i64(3, 3, -3, -3)],
                [i64(1, -1, 1, -1)],
            ),
            Sample("floats", [f32(5.5, -5.5, 1), f32(2, 2, 0)], [f32(1.5, -1.5, np.nan)]),
            Sample("the lowest integer by -1", [i64(LOWEST), i64(-1)], [i64(0)]),
        ],
        ZERO,
        mend=no_zero,
    ),
    binary(
        FloorMod,
        floor_mod,
        [
            Sample(
                "the sign of the divisor",
                [i64(7, -7, 7, -7), i64(3, 3, -3, -3)],
                [i64(1, 2, -2, -1)],
            ),
            Sample("floats", [f32(5.5, -5.5), f32(2, 2)], [f32(1.5, 0.5)]),
        ],
        ZERO,
        mend=no_zero,
    ),
    binary(
        Power,
        power,
        [
            Sample("floats", [f32(2, 4, -2, 0), f32(3, 0.5, 2, 0)], [f32(8, 2, 4, 1)]),
            Sample("integers", [i64(3, -2, 7), i64(4, 3, 0)], [i64(81, -8, 1)]),
            Sample(
                "integers wrap, exactly",
                [np.array([3], np.uint64), np.array([41], np.uint64)],
                [np.array([3**41 % 2**64], np.uint64)],
                openvino=NARROW,
            ),
            Sample(
                "negative exponents of integers",
                [i64(2, 1, -1, -1, -5), i64(-1, -3, -3, -2, -1)],
                [i64(0, 1, -1, 1, 0)],
            ),
        ],
        [
            Refusal(
                "0 to a negative integer power",
                [i64(1, 0), i64(-1)],
                r"'b': b\[1\] is -1, expected an exponent of at least 0 where a is 0",
            )
        ],
        mend=no_inverse_of_zero,
    ),
    binary(
        SquaredDifference,
        lambda a, b: (a - b) ** 2,
        [
            Sample("by hand", [f32(1, -2), f32(3)], [f32(4, 25)]),
            Sample(
                "unsigned",
                [np.array([1], np.uint8), np.array([3], np.uint8)],
                [np.array([4], np.uint8)],
                openvino="OpenVINO saturates",
            ),
        ],
    ),
    binary(
        Maximum,
        lambda a, b: a if a >= b else b,
        [
            Sample("by hand", [f32(1, 5), f32(3)], [f32(3, 5)]),
            Sample(
                "NaN wins",
                [f32(np.nan, 1), f32(1, np.nan)],
                [f32(np.nan, np.nan)],
                openvino="OpenVINO's answer depends on the order",
            ),
        ],
    ),
    binary(
        Minimum,
        lambda a, b: a if a <= b else b,
        [
            Sample("by hand", [f32(1, 5), f32(3)], [f32(1, 3)]),
            Sample(
                "u64 is no float",
                [np.array([2**63 + 1], np.uint64), np.array([2**63], np.uint64)],
                [np.array([2**63], np.uint64)],
                openvino=NARROW,
            ),
        ],
    ),
    binary(
        Atan2,
        lambda a, b: math.atan2(a, b),
        [
            Sample(
                "the four quarters",
                [f32(1, 1, -1, -1, 0), f32(1, -1, -1, 1, -1)],
                [f32(*(math.pi * x for x in (0.25, 0.75, -0.75, -0.25, 1)))],
                openvino="not there yet",
            )
        ],
        types=FLOATS,
        dtype=np.float32,
    ),
]
