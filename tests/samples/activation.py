"""Activation functions. The loops compute the pages' formulas with Python's math module; worked
examples are hand work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import (
    NUMBERS,
    numbers,
    of_type,
    stretched,
    stretching_shapes,
    unary,
)
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops import activation as ops


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def clamp(x: float, min: float, max: float) -> float:
    if isinstance(x, int):
        min, max = math.ceil(min), math.floor(max)
    return max if x > max else min if x < min else x


def hard(x: float) -> float:
    return sorted((0, x + 3, 6))[1] / 6


def gelu(x: float, approximation_mode: str = "erf") -> float:
    if approximation_mode == "erf":
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))
    return x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FLOAT_ONLY = [
    Refusal(
        "integers", [np.array([1])], r"'data' \(port 0\): expected a floating-point type .* got i64"
    )
]
GELU = [Sample("tables", [f32(0, 1, -1, 3, -100)], [f32(0, 0.8413447, -0.15865526, 2.9959502, 0)])]


@st.composite
def parametric(draw: st.DrawFn, count: int, least: int) -> Case:
    """Data and one-element parameters, the last of which may be absent down to `least` of them."""
    data, name = draw(arrays(draw(shapes(max_rank=3)), FLOATS))
    given = draw(st.integers(least, count))
    parameters = [
        draw(arrays(draw(st.sampled_from([(), (1,)])), (name,), 0, 2))[0] for _ in range(given)
    ]
    return Case([data, *parameters], {}, [name] * (given + 1))


def parametric_loop(formula: Callable[..., float]) -> Callable[[Case], list[np.ndarray]]:
    def compute(case: Case) -> list[np.ndarray]:
        data, *parameters = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
        values = [formula(x, *(p.ravel()[0] for p in parameters)) for x in data.ravel()]
        return [of_type(values, data.shape, case.types[0])]

    return compute


def not_one(operation: str, *inputs: Any) -> Refusal:
    return Refusal(
        "a parameter of two elements",
        inputs,
        rf"input '{operation}': expected a scalar or one element, got shape \[2\]",
    )


@st.composite
def prelu_cases(draw: st.DrawFn) -> Case:
    if draw(st.booleans()):
        shape = draw(shapes(min_rank=2, max_rank=4, max_side=3))
        slope_shape: tuple[int, ...] = (shape[1],)
    else:
        shape, slope_shape = draw(stretching_shapes(one_way=True))
    data, name = draw(arrays(shape, NUMBERS))
    return Case([data, draw(arrays(slope_shape, (name,)))[0]], {}, [name, name])


def prelu_loop(case: Case) -> list[np.ndarray]:
    data, slope = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    channels = slope.ndim == 1 and data.ndim > 1 and slope.shape[0] == data.shape[1]
    values = []
    for place in np.ndindex(*data.shape):
        x = data[place]
        values.append(
            x if x >= 0 else x * slope[(place[1],) if channels else stretched(place, slope.shape)]
        )
    return [of_type(values, data.shape, case.types[0])]


CONSTANT = "OpenVINO wants constant parameters"
GRID = np.array([[-1, 2, -3], [-4, -5, 6]], np.float32)
SAMPLES = [
    unary(
        ops.ReLU,
        lambda x: x if x > 0 else 0,
        [
            Sample(
                "floats",
                [f32(-1, 0, 2, np.nan)],
                [f32(0, 0, 2, np.nan)],
                openvino="OpenVINO gives 0 for NaN",
            ),
            Sample("integers", [np.array([-3, 4], np.int32)], [np.array([0, 4], np.int32)]),
        ],
        [
            Refusal(
                "booleans", [np.array([True])], r"'data' \(port 0\): expected one of .* got boolean"
            )
        ],
        NUMBERS,
    ),
    Samples(
        ops.PReLU,
        [
            Sample("page: one slope", [f32(-2, 3), f32(0.5)], [f32(-1, 3)]),
            Sample(
                "page: a slope for each channel",
                [GRID, f32(1, 0.5, 2)],
                [np.array([[-1, 2, -6], [-4, -2.5, 6]], np.float32)],
            ),
            Sample(
                "channels are the second dimension, not the last",
                [np.full((1, 2, 2), -1, np.float32), f32(1, 2)],
                [np.array([[[-1, -1], [-2, -2]]], np.float32)],
            ),
            Sample(
                "else numpy's rule: the last dimension",
                [np.full((1, 2, 3), -1, np.float32), f32(1, 2, 3)],
                [np.array([[[-1, -2, -3], [-1, -2, -3]]], np.float32)],
            ),
        ],
        [
            Refusal(
                "a slope that does not fit",
                [GRID, f32(1, 2)],
                r"fit by numpy broadcasting to 'data', got 'data' \[2,3\], 'slope' \[2\]",
            )
        ],
        prelu_cases(),
        prelu_loop,
    ),
    unary(
        ops.Elu,
        lambda x, alpha: x if x > 0 else alpha * (math.exp(x) - 1),
        [Sample("by hand", [f32(1, 0, -1, -1000)], [f32(1, 0, -1.264241, -2)], {"alpha": 2.0})],
        [
            Refusal("alpha is missing", [f32(1)], "attribute 'alpha' is missing"),
            Refusal(
                "integers",
                [np.array([1])],
                r"'data' \(port 0\): expected a floating-point type",
                {"alpha": 1.0},
            ),
        ],
        attributes=st.fixed_dictionaries({"alpha": st.sampled_from([0.0, 0.5, 1.0])}),
    ),
    Samples(
        ops.Selu,
        [
            Sample(
                "by hand",
                [f32(1, 0, -1), f32(2), f32(3)],
                [f32(3, 0, -3.7927234)],
                openvino=CONSTANT,
            )
        ],
        [not_one("alpha", f32(1), f32(1, 2), f32(1)), not_one("scale", f32(1), f32(1), f32(1, 2))],
        parametric(2, 2),
        parametric_loop(
            lambda x, alpha, scale: scale * (x if x > 0 else alpha * (math.exp(x) - 1))
        ),
    ),
    Samples(
        ops.HardSigmoid,
        [
            Sample(
                "by hand",
                [f32(-10, 0, 1, 10), np.float32(0.25), np.float32(0.5)],
                [f32(0, 0.5, 0.75, 1)],
                openvino=CONSTANT,
            )
        ],
        [not_one("alpha", f32(1), f32(1, 2), f32(1)), not_one("beta", f32(1), f32(1), f32(1, 2))],
        parametric(2, 2),
        parametric_loop(lambda x, alpha, beta: max(0, min(1, alpha * x + beta))),
    ),
    Samples(
        ops.Swish,
        [
            Sample("without beta", [f32(0, 1, -1, -1000)], [f32(0, 0.7310586, -0.26894143, 0)]),
            Sample("with beta", [f32(0.5, -0.5), np.float32(2)], [f32(0.3655293, -0.13447071)]),
        ],
        [not_one("beta", f32(1), f32(1, 2))],
        parametric(1, 0),
        parametric_loop(lambda x, beta=1.0: x * sigmoid(beta * x)),
    ),
    unary(
        ops.Sigmoid,
        sigmoid,
        [Sample("no overflow", [f32(0, 1, -1000, 1000)], [f32(0.5, 0.7310586, 0, 1)])],
        FLOAT_ONLY,
    ),
    unary(
        ops.HSigmoid,
        hard,
        [Sample("by hand", [f32(-4, -1.5, 0, 4)], [f32(0, 0.25, 0.5, 1)])],
        FLOAT_ONLY,
        low=-5,
        high=5,
    ),
    unary(
        ops.HSwish,
        lambda x: x * hard(x),
        [Sample("by hand", [f32(-4, -1.5, 0, 4)], [f32(0, -0.375, 0, 4)])],
        FLOAT_ONLY,
        low=-5,
        high=5,
    ),
    unary(
        ops.SoftPlus,
        softplus,
        [Sample("no overflow", [f32(0, 1, -1000, 1000)], [f32(0.6931472, 1.3132617, 0, 1000)])],
        FLOAT_ONLY,
    ),
    unary(
        ops.Mish,
        lambda x: x * math.tanh(softplus(x)),
        [Sample("no overflow", [f32(0, 1, -1, 1000)], [f32(0, 0.8650984, -0.30340147, 1000)])],
        FLOAT_ONLY,
    ),
    unary(
        ops.SoftSign,
        lambda x: x / (1 + abs(x)),
        [Sample("by hand", [f32(0, 1, -3)], [f32(0, 0.5, -0.75)])],
        FLOAT_ONLY,
    ),
    unary(ops.Gelu2, gelu, GELU, FLOAT_ONLY),
    unary(
        ops.Gelu7,
        gelu,
        [
            *GELU,
            Sample(
                "tanh",
                [f32(0, 1, -1)],
                [f32(0, 0.841192, -0.158808)],
                {"approximation_mode": "tanh"},
            ),
        ],
        FLOAT_ONLY,
        attributes=st.sampled_from(
            [{}, {"approximation_mode": "erf"}, {"approximation_mode": "tanh"}]
        ),
    ),
    unary(
        ops.Clamp,
        clamp,
        [
            Sample(
                "floats",
                [f32(-5, 0.5, 5, np.nan)],
                [f32(-1, 0.5, 2.5, np.nan)],
                {"min": -1, "max": 2.5},
                openvino="OpenVINO clamps NaN",
            ),
            Sample(
                "integers: bounds go inwards",
                [np.array([-3, 0, 3], np.int32)],
                [np.array([-1, 0, 2], np.int32)],
                {"min": -1.5, "max": 2.5},
            ),
            Sample(
                "bounds beyond the type",
                [np.array([0, 200], np.uint8)],
                [np.array([0, 200], np.uint8)],
                {"min": -math.inf, "max": 1e300},
            ),
            Sample(
                "integers without a whole number between the bounds: the maximum",
                [np.array([-5, 5], np.int32)],
                [np.array([0, 0], np.int32)],
                {"min": 0.25, "max": 0.75},
            ),
            Sample(
                "64 bits",
                [np.array([2**62 + 1, -(2**62) - 1])],
                [np.array([2**62 + 1, 0])],
                {"min": 0, "max": math.inf},
                openvino="OpenVINO computes 64-bit types in 32 bits",
            ),
        ],
        [
            Refusal(
                "min above max",
                [f32(1)],
                "expected min not above max, got min 2.0 and max 1.0",
                {"min": 2, "max": 1},
            ),
            Refusal(
                "min is missing",
                [f32(1)],
                "attribute 'min' is missing: expected a number",
                {"max": 1},
            ),
        ],
        NUMBERS,
        attributes=st.sampled_from(
            [{"min": -1.5, "max": 1.25}, {"min": 0.0, "max": 6.0}, {"min": 1.0, "max": 1.0}]
        ),
    ),
]
