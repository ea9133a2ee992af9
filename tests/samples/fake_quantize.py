"""FakeQuantize-1 and FakeConvert-13. Worked by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._elementwise import numbers, of_type, stretched, stretching_shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.fake_quantize import FakeConvert, FakeQuantize
from uncork.types import ElementType

E4M3, E5M2 = ElementType.f8e4m3, ElementType.f8e5m2


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def scalars(*values: float) -> list[np.ndarray]:
    return [np.array(v, np.float32) for v in values]


X = f32(-1, 0, 0.9, 1.1, 2.4, 4, 9)


@st.composite
def quantize_cases(draw: st.DrawFn) -> Case:
    shape, limit_shape = draw(stretching_shapes(one_way=True))
    # Limits and values on a grid of powers of two: every step of the formula is exact, so no tie
    # depends on rounding.
    x, name = draw(arrays(shape, FLOATS))
    low, high = draw(st.sampled_from([(-2.0, 2.0), (0.0, 4.0), (2.0, -2.0), (1.0, 1.0)]))
    limits = [
        np.full(limit_shape if draw(st.booleans()) else (), v, np.float32)
        for v in (low, high, -8.0, 8.0)
    ]
    limits = [storage_of(v, name) for v in limits]
    return Case([x, *limits], {"levels": draw(st.sampled_from([2, 3, 5, 17]))}, [name] * 5)


def storage_of(values: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers in the carrier of a float type."""
    if name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(ElementType.parse(name).dtype)


def quantize_loop(case: Case) -> list[np.ndarray]:
    x, *limits = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    steps = case.attributes["levels"] - 1
    values = []
    for place in itertools.product(*map(range, x.shape)):
        v = x[place]
        il, ih, ol, oh = (limit[stretched(place, limit.shape)] for limit in limits)
        if v <= min(il, ih):
            values.append(ol)
        elif v > max(il, ih):
            values.append(oh)
        else:
            values.append(round((v - il) / (ih - il) * steps) / steps * (oh - ol) + ol)
    return [of_type(values, x.shape, case.types[0])]


def nearest_f8(v: float, mantissa: int, least_exponent: int, largest: float) -> float:
    """To nearest, ties to even, by the spacing of the numbers around v."""
    v = max(-largest, min(largest, v))
    exponent = max(math.frexp(v)[1] - 1, least_exponent) if v else least_exponent
    spacing = 2.0 ** (exponent - mantissa)
    return round(v / spacing) * spacing


@st.composite
def convert_cases(draw: st.DrawFn) -> Case:
    shape, other = draw(stretching_shapes(one_way=True))
    data, name = draw(arrays(shape, ("f32", "f16", "bf16"), -40, 40))
    scale = storage_of(np.full(other, draw(st.sampled_from([1, 4, 16])), np.float32), name)
    inputs = [data, scale]
    if draw(st.booleans()):
        inputs.append(
            storage_of(np.full(other, draw(st.sampled_from([-2, 0, 8])), np.float32), name)
        )
    return Case(
        inputs, {"destination_type": draw(st.sampled_from([E4M3, E5M2]))}, [name] * len(inputs)
    )


def convert_loop(case: Case) -> list[np.ndarray]:
    data, scale, *rest = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    small = (3, -6, 448.0) if case.attributes["destination_type"] is E4M3 else (2, -14, 57344.0)
    values = []
    for place in itertools.product(*map(range, data.shape)):
        s = scale[stretched(place, scale.shape)]
        o = rest[0][stretched(place, rest[0].shape)] if rest else 0.0
        values.append((nearest_f8(data[place] * s - o, *small) + o) / s)
    return [of_type(values, data.shape, case.types[0])]


ONE = np.array(1, np.float32)
LIMITS = scalars(0, 4, 0, 4)
SAMPLES = [
    Samples(
        FakeQuantize,
        [
            Sample("five levels", [X, *LIMITS], [f32(0, 0, 1, 1, 2, 4, 4)], {"levels": 5}),
            Sample(
                "another output range",
                [X, *scalars(0, 4, -10, 10)],
                [f32(-10, -10, -5, -5, 0, 10, 10)],
                {"levels": 5},
            ),
            Sample(
                "output turned round",
                [X, *scalars(0, 4, 4, 0)],
                [f32(4, 4, 3, 3, 2, 0, 0)],
                {"levels": 5},
            ),
            Sample(
                "binarisation: equal limits",
                [X, *scalars(1, 1, -1, 1)],
                [f32(-1, -1, -1, 1, 1, 1, 1)],
                {"levels": 2},
            ),
            Sample(
                "halves go to the even level",
                [f32(0.5, 1.5, 2.5), *LIMITS],
                [f32(0, 2, 2)],
                {"levels": 5},
            ),
            Sample(
                "levels that are whole numbers are so exactly",
                [np.arange(-128, 128, dtype=np.float32) / 100, *scalars(-1.28, 1.27, -128, 127)],
                [np.arange(-128, 128, dtype=np.float32)],
                {"levels": 256},
                rtol=0,
                atol=0,
            ),
            Sample(
                "limits for each channel",
                [
                    np.full((1, 2, 2), 1.2, np.float32),
                    f32(0, 0)[:, None],
                    f32(4, 2)[:, None],
                    f32(0, 0)[:, None],
                    f32(4, 2)[:, None],
                ],
                [np.array([[[1, 1], [1, 1]]], np.float32)],
                {"levels": 5},
            ),
            Sample(
                "pdpd from the channels on",
                [np.full((1, 2, 2), 1.2, np.float32), f32(0, 0), f32(4, 2), f32(0, 0), f32(4, 2)],
                [np.array([[[1, 1], [1, 1]]], np.float32)],
                {"levels": 5, "auto_broadcast": "pdpd", "auto_broadcast_axis": 1},
            ),
            Sample("NaN", [f32(np.nan), *LIMITS], [f32(np.nan)], {"levels": 5}),
            Sample(
                "empty",
                [np.zeros((0, 2), np.float32), *LIMITS],
                [np.zeros((0, 2), np.float32)],
                {"levels": 5},
            ),
        ],
        [
            Refusal(
                "one level", [X, *LIMITS], "'levels': expected at least 2, got 1", {"levels": 1}
            ),
            Refusal(
                "X may not stretch",
                [f32(1), f32(0, 0), *LIMITS[1:]],
                r"fit by numpy broadcasting to 'X', got 'X' \[1\], 'input_low' \[2\]",
                {"levels": 2},
            ),
            Refusal(
                "a limit that does not fit",
                [X, *LIMITS[:3], f32(1, 2)],
                r"to 'X', got 'X' \[7\], 'output_high' \[2\]",
                {"levels": 2},
            ),
            Refusal(
                "shapes differ with none",
                [X, *LIMITS],
                r"fit by no broadcasting",
                {"levels": 2, "auto_broadcast": "none"},
            ),
            Refusal(
                "integers",
                [np.array([1])] * 5,
                r"'X' \(port 0\): expected a floating-point type .* got i64",
                {"levels": 2},
            ),
        ],
        quantize_cases(),
        quantize_loop,
    ),
    Samples(
        FakeConvert,
        [
            Sample(
                "f8e4m3",
                [f32(1.05, 1.0625, 1.1875, 17, 0.001), ONE],
                [f32(1, 1, 1.25, 16, 0.001953125)],
                {"destination_type": E4M3},
            ),
            Sample(
                "f8e5m2",
                [f32(1.1, 1.125, 1.375, 9), ONE],
                [f32(1, 1, 1.5, 8)],
                {"destination_type": E5M2},
            ),
            Sample(
                "f8e4m3 saturates",
                [f32(1e6, -470, np.inf), ONE],
                [f32(448, -448, 448)],
                {"destination_type": E4M3},
            ),
            Sample(
                "f8e5m2 saturates",
                [f32(1e6, -60000, -np.inf), ONE],
                [f32(57344, -57344, -57344)],
                {"destination_type": E5M2},
            ),
            Sample(
                "NaN",
                [f32(np.nan), ONE],
                [f32(np.nan)],
                {"destination_type": E4M3},
                openvino="OpenVINO makes it a number",
            ),
            Sample("scale", [f32(500, 100), f32(0.5)], [f32(512, 96)], {"destination_type": E4M3}),
            Sample(
                "scale and shift",
                [f32(10), f32(2), f32(1)],
                [f32(10.5)],
                {"destination_type": E4M3},
            ),
            Sample(
                "scale for each row",
                [np.ones((2, 1), np.float32), np.array([[1], [1.1]], np.float32)],
                [np.array([[1], [1.125 / 1.1]], np.float32)],
                {"destination_type": E4M3},
            ),
        ],
        [
            Refusal(
                "another type",
                [X, ONE],
                "'destination_type': expected f8e4m3 or f8e5m2, got i8",
                {"destination_type": ElementType.i8},
            ),
            Refusal(
                "f64",
                [X.astype(np.float64), np.float64(1)],
                r"'data' \(port 0\): expected one of f32, f16, bf16, got f64",
                {"destination_type": E4M3},
            ),
            Refusal(
                "scale that does not fit",
                [X, f32(1, 2)],
                r"fit by numpy broadcasting to 'data', got 'data' \[7\], 'scale' \[2\]",
                {"destination_type": E4M3},
            ),
            Refusal(
                "shift unlike scale",
                [X, ONE, f32(1)],
                r"input 'shift': expected the shape of scale, \[\], got \[1\]",
                {"destination_type": E4M3},
            ),
        ],
        convert_cases(),
        convert_loop,
    ),
]
