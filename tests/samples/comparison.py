"""Comparisons of two tensors, and the questions whether a number is infinite or none. Worked by
hand.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import ALL_TYPES, FLOATS
from tests.samples._elementwise import binary, unary
from tests.samples._sample import Refusal, Sample
from uncork.ops.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    IsFinite,
    IsInf,
    IsNaN,
    Less,
    LessEqual,
    NotEqual,
)
from uncork.types import ElementType

BOOLEAN = ElementType.boolean
A = np.array([1, 2, 3], np.float32)
B = np.array([2], np.float32)
NAN = np.array([np.nan, 1], np.float32)
BIG = np.array([2**53 + 1, 5], np.int64), np.array([2**53, 5], np.int64)
NARROW = "OpenVINO computes 64-bit types in 32 bits"


def entry(operation, formula, row, nan, big, *more):
    return binary(
        operation,
        formula,
        [
            Sample("by hand", [A, B], [np.array(row)]),
            Sample(
                "NaN with itself, 1 with 1",
                [NAN, NAN],
                [np.array(nan)],
                openvino="OpenVINO says NaN > NaN" if operation in (Greater, GreaterEqual) else "",
            ),
            Sample(
                "beyond the digits of f64",
                BIG,
                [np.array(big)],
                openvino="" if operation in (Equal, NotEqual) else NARROW,
            ),
            Sample(
                "empty",
                [np.zeros((2, 0), np.int32), np.zeros((), np.int32)],
                [np.zeros((2, 0), bool)],
            ),
            *more,
        ],
        [
            Refusal(
                "unequal types", [A, BIG[0]], r"'b' \(port 1\): expected f32 as 'a' has, got i64"
            )
        ],
        types=ALL_TYPES,
        output=BOOLEAN,
    )


WORDS = np.array(["a", "b", "日本"], object)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, 1e38], np.float32)
NOT_FLOAT = [Refusal("integers", [np.array([1])], r"'data' \(port 0\): expected one of .* got i64")]
FLAGS = st.fixed_dictionaries(
    {}, optional={"detect_negative": st.booleans(), "detect_positive": st.booleans()}
)

SAMPLES = [
    entry(
        Equal,
        lambda a, b: a == b,
        [False, True, False],
        [False, True],
        [False, True],
        Sample(
            "strings",
            [WORDS, np.array(["a"], object)],
            [np.array([True, False, False])],
            openvino="OpenVINO takes no strings",
        ),
        Sample(
            "nf4 by value",
            [np.array([0, 7], np.uint8), np.array([7], np.uint8)],
            [np.array([False, True])],
            types=["nf4", "nf4"],
            openvino="OpenVINO takes no nf4",
        ),
    ),
    entry(NotEqual, lambda a, b: a != b, [True, False, True], [True, False], [True, False]),
    entry(
        Less,
        lambda a, b: a < b,
        [True, False, False],
        [False, False],
        [False, False],
        Sample(
            "strings by code points",
            [WORDS, np.array(["b"], object)],
            [np.array([True, False, False])],
            openvino="OpenVINO takes no strings",
        ),
        Sample(
            "false before true",
            [np.array([False, True]), np.array([True])],
            [np.array([True, False])],
        ),
    ),
    entry(LessEqual, lambda a, b: a <= b, [True, True, False], [False, True], [False, True]),
    entry(Greater, lambda a, b: a > b, [False, False, True], [False, False], [True, False]),
    entry(GreaterEqual, lambda a, b: a >= b, [False, True, True], [False, True], [True, True]),
    unary(
        IsNaN,
        math.isnan,
        [Sample("by hand", [SPECIAL], [np.array([True, False, False, False, False])])],
        NOT_FLOAT,
        FLOATS,
        output=BOOLEAN,
    ),
    unary(
        IsFinite,
        math.isfinite,
        [
            Sample("by hand", [SPECIAL], [np.array([False, False, False, True, True])]),
            Sample(
                "tiny numbers are finite",
                [np.array([1e-42], np.float32)],
                [np.array([True])],
                openvino="OpenVINO says no",
            ),
        ],
        NOT_FLOAT,
        FLOATS,
        output=BOOLEAN,
    ),
    unary(
        IsInf,
        lambda x, detect_negative=True, detect_positive=True: (
            math.isinf(x) and (detect_positive if x > 0 else detect_negative)
        ),
        [
            Sample("both signs", [SPECIAL], [np.array([False, True, True, False, False])]),
            Sample(
                "positive only",
                [SPECIAL],
                [np.array([False, True, False, False, False])],
                {"detect_negative": False},
            ),
            Sample(
                "negative only",
                [SPECIAL],
                [np.array([False, False, True, False, False])],
                {"detect_positive": False},
            ),
            Sample(
                "none",
                [SPECIAL],
                [np.zeros(5, bool)],
                {"detect_positive": False, "detect_negative": False},
            ),
            Sample(
                "bf16",
                [np.array([0x7F80, 0x3F80], np.uint16)],
                [np.array([True, False])],
                types=["bf16"],
            ),
        ],
        NOT_FLOAT,
        FLOATS,
        attributes=FLAGS,
        output=BOOLEAN,
    ),
]
