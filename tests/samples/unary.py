"""Functions of one number. The loops use Python's math module; worked examples come from the pages
and from well-known values.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS
from tests.samples._elementwise import NUMBERS, unary
from tests.samples._sample import Refusal, Sample
from uncork.ops import unary as ops

PI = math.pi
LOWEST = np.iinfo(np.int64).min
NARROW = "OpenVINO computes 64-bit types in 32 bits"


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def no_number(type_name: str, value: int, fine: int = 1) -> Refusal:
    return Refusal(
        f"no integer: {value}",
        [i32(fine, value)],
        rf"'data': data\[1\] is {value}, expected a value whose {type_name} is a number of that",
    )


TYPES = [
    Refusal("booleans", [np.array([True])], r"'data' \(port 0\): expected one of .* got boolean"),
    Refusal(
        "4-bit floats",
        [np.array([1], np.uint8)],
        r"'data' \(port 0\): expected one of .* got nf4",
        types=["nf4"],
    ),
]
FLOAT_ONLY = [
    Refusal("integers", [i64(1)], r"'data' \(port 0\): expected a floating-point type .* got i64")
]


def circle(negative: int) -> list[Refusal]:
    """Refused angles; of `negative` the function lies near -1 or below."""
    return [
        *TYPES,
        Refusal(
            "an angle without digits",
            [i64(1, -(2**60))],
            r"data\[1\] is -1152921504606846976, expected an integer below 9,007,199,254,740,992",
        ),
        Refusal(
            "negative, unsigned",
            [np.array([0, negative], np.uint8)],
            rf"data\[1\] is {negative}, expected a value whose \w+ is a number of that",
        ),
    ]


SIGNED = (*FLOATS, "i8", "i16", "i32", "i64")
HALVES = [-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5]


def real(operation, formula, samples, refusals=(), types=NUMBERS, low=-4, high=4):
    """A real function, of integers too: the nearest integer, where it is one."""

    def rounded(x):
        value = formula(x)
        return math.floor(value + 0.5) if isinstance(x, int) else value

    return unary(operation, rounded, samples, refusals, types, low, high)


def or_nan(formula):
    def guarded(x):
        try:
            return formula(x)
        except ValueError:
            return math.nan

    return guarded


def log(x):
    return -math.inf if x == 0 else math.log(x) if x > 0 else math.nan


def atanh(x):
    return math.copysign(math.inf, x) if abs(x) == 1 else or_nan(math.atanh)(x)


def inverse_erf(x):
    """By bisection."""
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    low, high = -7.0, 7.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < x else (low, middle)
    return (low + high) / 2


SAMPLES = [
    unary(
        ops.Abs,
        abs,
        [
            Sample("floats", [f32(-1.5, 0, 2, -np.inf)], [f32(1.5, 0, 2, np.inf)]),
            Sample(
                "the lowest integer stays", [i64(LOWEST, -3)], [i64(LOWEST, 3)], openvino=NARROW
            ),
            Sample("unsigned", [np.array([200], np.uint8)], [np.array([200], np.uint8)]),
        ],
        TYPES,
        NUMBERS,
    ),
    unary(
        ops.Negative,
        lambda x: -x,
        [
            Sample("floats", [f32(-1.5, 2)], [f32(1.5, -2)]),
            Sample(
                "the lowest integer stays", [i64(LOWEST, -3)], [i64(LOWEST, 3)], openvino=NARROW
            ),
            Sample(
                "unsigned wraps",
                [np.array([1, 0], np.uint8)],
                [np.array([255, 0], np.uint8)],
                openvino="the page wants signed types",
            ),
        ],
        TYPES,
        NUMBERS,
    ),
    unary(
        ops.Sign,
        lambda x: (x > 0) - (x < 0),
        [
            Sample("floats", [f32(-1.5, 0, 2, np.nan, np.inf)], [f32(-1, 0, 1, np.nan, 1)]),
            Sample("integers", [i64(LOWEST, 0, 3)], [i64(-1, 0, 1)], openvino=NARROW),
        ],
        TYPES,
        NUMBERS,
    ),
    unary(
        ops.Floor,
        math.floor,
        [
            Sample("floats", [f32(-1.5, 1.5, -0.1)], [f32(-2, 1, -1)]),
            Sample("integers stay", [i64(2**62 + 1)], [i64(2**62 + 1)], openvino=NARROW),
        ],
        TYPES,
        NUMBERS,
    ),
    unary(
        ops.Ceiling,
        math.ceil,
        [
            Sample("floats", [f32(-1.5, 1.5, 0.1)], [f32(-1, 2, 1)]),
            Sample("integers stay", [i64(2**62 + 1)], [i64(2**62 + 1)], openvino=NARROW),
        ],
        TYPES,
        NUMBERS,
    ),
    unary(
        ops.Round,
        lambda x, mode="half_to_even": (
            x if isinstance(x, int) else round(x) if mode == "half_to_even" else half_away(x)
        ),
        [
            Sample("page example: half_to_even", [f32(*HALVES)], [f32(-4, -2, -2, 0, 1, 2, 2, 2)]),
            Sample(
                "page example: half_away_from_zero",
                [f32(*HALVES)],
                [f32(-5, -2, -2, 1, 1, 2, 2, 3)],
                {"mode": "half_away_from_zero"},
            ),
            Sample(
                "the number below one half",
                [f32(0.49999997)],
                [f32(0)],
                {"mode": "half_away_from_zero"},
                openvino="OpenVINO says 1",
            ),
            Sample(
                "large and infinite",
                [f32(8388609, np.inf)],
                [f32(8388609, np.inf)],
                {"mode": "half_away_from_zero"},
            ),
            Sample("integers stay", [i64(2**62 + 1)], [i64(2**62 + 1)], openvino=NARROW),
        ],
        TYPES,
        NUMBERS,
        attributes=st.sampled_from([{}, {"mode": "half_to_even"}, {"mode": "half_away_from_zero"}]),
    ),
    unary(
        ops.Exp,
        math.exp,
        [Sample("by hand", [f32(0, 1, -np.inf, 100)], [f32(1, math.e, 0, np.inf)])],
        FLOAT_ONLY,
    ),
    real(
        ops.Log,
        log,
        [
            Sample("by hand", [f32(1, math.e, 0, np.inf)], [f32(0, 1, -np.inf, np.inf)]),
            Sample(
                "f64",
                [np.array([1e-300])],
                [np.array([-690.7755278982137])],
                rtol=1e-14,
                openvino="OpenVINO computes f64 in f32",
            ),
            Sample("integers", [i32(1, 3, 100)], [i32(0, 1, 5)]),
        ],
        [*TYPES, no_number("Log", 0), no_number("Log", -1)],
        types=FLOATS,
        low=0,
    ),
    real(
        ops.Sqrt,
        or_nan(math.sqrt),
        [
            Sample("page example 1", [f32(4, 7, 9, 10)], [f32(2, 2.6457512, 3, 3.1622777)]),
            Sample("page example 2: integers", [i32(4, 7, 9, 10)], [i32(2, 3, 3, 3)]),
            Sample("negative", [f32(-1)], [f32(np.nan)]),
            Sample(
                "64 bits, just below and above r + 1/2",
                [np.array([2**64 - 1, 10**18 + 10**9, 10**18 + 10**9 + 1], np.uint64)],
                [np.array([2**32, 10**9, 10**9 + 1], np.uint64)],
                openvino=NARROW,
            ),
        ],
        [
            *TYPES,
            no_number("Sqrt", -1),
            Refusal(
                "no integer: i64", [i64(4, -4)], r"data\[1\] is -4, expected a value whose Sqrt is"
            ),
        ],
        low=0,
        high=100,
    ),
    real(
        ops.Erf,
        math.erf,
        [
            Sample(
                "tables",
                [f32(0, 0.5, -1, 3, np.inf)],
                [f32(0, 0.5204999, -0.8427008, 0.99997791, 1)],
            ),
            Sample("f64", [np.array([0.5])], [np.array([0.5204998778130465])], rtol=1e-15),
            Sample("integers", [i32(-3, 0, 1)], [i32(-1, 0, 1)]),
        ],
        TYPES,
    ),
    unary(
        ops.ErfInv,
        inverse_erf,
        [
            Sample(
                "page: special values",
                [f32(0, 1, -1, 1.5, -2)],
                [f32(0, np.inf, -np.inf, np.nan, np.nan)],
            ),
            Sample("tables", [f32(0.5204999, -0.8427008)], [f32(0.5, -1)], rtol=1e-5),
            Sample(
                "f64, at the very end",
                [np.array([1 - 2.0**-53, 1e-20])],
                [np.array([5.863584748755168, 8.862269254527581e-21])],
                rtol=1e-14,
                atol=0,
                openvino="OpenVINO computes f64 in f32",
            ),
        ],
        FLOAT_ONLY,
        low=-1,
        high=1,
    ),
    real(
        ops.Sin,
        math.sin,
        [
            Sample("by hand", [f32(0, PI / 2, -PI / 6)], [f32(0, 1, -0.5)]),
            Sample("integers", [i32(2, 0, -2)], [i32(1, 0, -1)]),
        ],
        circle(4),
        types=SIGNED,
    ),
    real(
        ops.Cos,
        math.cos,
        [Sample("by hand", [f32(0, PI / 3, PI)], [f32(1, 0.5, -1)])],
        circle(4),
        types=SIGNED,
    ),
    real(
        ops.Tan,
        math.tan,
        [Sample("by hand", [f32(0, PI / 4, -PI / 4)], [f32(0, 1, -1)])],
        circle(2),
        types=SIGNED,
        low=-1,
        high=1,
    ),
    real(
        ops.Asin,
        or_nan(math.asin),
        [Sample("by hand", [f32(0, 1, -0.5)], [f32(0, PI / 2, -PI / 6)])],
        [*TYPES, no_number("Asin", 2)],
        low=-1,
        high=1,
    ),
    real(
        ops.Acos,
        or_nan(math.acos),
        [Sample("by hand", [f32(0, 1, -0.5)], [f32(PI / 2, 0, PI * 2 / 3)])],
        [*TYPES, no_number("Acos", 2)],
        low=-1,
        high=1,
    ),
    real(
        ops.Atan,
        math.atan,
        [Sample("by hand", [f32(0, 1, -np.inf)], [f32(0, PI / 4, -PI / 2)])],
        TYPES,
    ),
    real(
        ops.Sinh,
        math.sinh,
        [Sample("by hand", [f32(0, 1, -1)], [f32(0, 1.1752012, -1.1752012)])],
        [*TYPES, no_number("Sinh", 100)],
    ),
    real(
        ops.Cosh,
        math.cosh,
        [Sample("by hand", [f32(0, 1, -1)], [f32(1, 1.5430806, 1.5430806)])],
        [*TYPES, no_number("Cosh", 100)],
    ),
    real(
        ops.Tanh,
        math.tanh,
        [
            Sample("by hand", [f32(0, 1, -np.inf)], [f32(0, 0.76159416, -1)]),
            Sample("integers", [i32(-2, 0, 1)], [i32(-1, 0, 1)]),
        ],
        TYPES,
    ),
    real(
        ops.Asinh,
        math.asinh,
        [Sample("by hand", [f32(0, 1, -1)], [f32(0, 0.8813736, -0.8813736)])],
        TYPES,
    ),
    real(
        ops.Acosh,
        or_nan(math.acosh),
        [Sample("by hand", [f32(1, 2, 0)], [f32(0, 1.316958, np.nan)])],
        [*TYPES, no_number("Acosh", 0)],
        low=1,
    ),
    real(
        ops.Atanh,
        atanh,
        [Sample("by hand", [f32(0, 0.5, 1)], [f32(0, 0.54930615, np.inf)])],
        [*TYPES, no_number("Atanh", 1, fine=0)],
        types=FLOATS,
        low=-0.875,
        high=1,
    ),
]
