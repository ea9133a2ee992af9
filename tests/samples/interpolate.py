"""Interpolate-1, -4, -11, worked by hand along one axis, and by the page's code, one element at a
time.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.interpolate import Interpolate1, Interpolate4, Interpolate11


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


SIZES = {"shape_calculation_mode": "sizes"}
SCALES = {"shape_calculation_mode": "scales"}
HW = np.array([2, 3])
LINE = f32([[[[1, 2, 3, 4]]]])
SQUARE = f32([[[[1, 2], [3, 4]]]])
#: A square of two cells doubled by half pixels: row + column of 0, 1/4, 3/4, 1.
DOUBLED = f32([[[[1 + 2 * y + x for x in (0, 0.25, 0.75, 1)] for y in (0, 0.25, 0.75, 1)]]])
#: Keys' kernel with a = -3/4 at the distances 1/4, 3/4, 5/4, 7/4.
W1, W3, W5, W7 = 0.87890625, 0.26171875, -0.10546875, -0.03515625
HALF = [
    W7 + W3 + W1 + 2 * W5,
    W5 + W1 + 2 * W3 + 3 * W7,
    W7 + W3 + 2 * W1 + 3 * W5,
    W5 + 2 * W1 + 3 * W3 + 4 * W7,
]
#: The same kernel with a = -1/2; of four cells shrunk to two, those around the first centre lie,
#: halved, at 1/4, 1/4, 3/4 and 5/4.
P1, P3, P5 = 0.8671875, 0.2265625, -0.0703125
SHRUNK = (P1 * (1 + 2) + P3 * 3 + P5 * 4) / (2 * P1 + P3 + P5)


def line(
    name: str,
    size: int,
    expected: object,
    mode: str,
    openvino: str = "",
    data: np.ndarray = LINE,
    **attributes: Any,
) -> tuple[Any, ...]:
    """What becomes of a row when it is resized."""
    return (
        name,
        data,
        (1, size),
        np.asarray(expected, data.dtype).reshape(1, 1, 1, -1),
        {**SIZES, "mode": mode, **attributes},
        openvino,
    )


BOTH = [
    # coordinates -1/4, 1/4, 3/4 ..
    line("linear by half pixels", 8, [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4], "linear"),
    line(
        "linear_onnx by half pixels", 8, [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4], "linear_onnx"
    ),
    line(
        "asymmetric",
        8,
        [1, 1.5, 2, 2.5, 3, 3.5, 4, 4],
        "linear",
        coordinate_transformation_mode="asymmetric",
    ),
    line(
        "aligned corners",
        7,
        [1, 1.5, 2, 2.5, 3, 3.5, 4],
        "linear",
        coordinate_transformation_mode="align_corners",
    ),
    line(
        "aligned corners, one cell",
        1,
        [1],
        "linear",
        coordinate_transformation_mode="align_corners",
    ),
    # c = 0.5 * 4 - 0.5 = 1.5
    line("half pixels, one cell", 1, [2.5], "linear"),
    line(
        "pytorch's half pixels, one cell",
        1,
        [1],
        "linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    ),
    # coordinates 1, 3
    line(
        "half pixels of TensorFlow",
        2,
        [2, 4],
        "nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="floor",
    ),
    line(
        "a size that stays is copied",
        4,
        LINE,
        "linear",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    ),
    # coordinates 1/2, 5/2
    line("halves down", 2, [1, 3], "nearest"),
    line("halves up", 2, [2, 4], "nearest", nearest_mode="round_prefer_ceil"),
    line("floor", 2, [1, 3], "nearest", nearest_mode="floor"),
    line("ceil", 2, [2, 4], "nearest", nearest_mode="ceil"),
    line("simple, shrinking: ceil", 2, [2, 4], "nearest", nearest_mode="simple"),
    # coordinates -1/4, 1/4, 3/4 ..
    line(
        "simple, growing: the fraction is dropped",
        8,
        [1, 1, 1, 2, 2, 3, 3, 4],
        "nearest",
        nearest_mode="simple",
    ),
    line("nearest, growing", 8, [1, 1, 2, 2, 3, 3, 4, 4], "nearest"),
    line(
        "coordinates that should be whole are",
        21,
        np.arange(21) * 7 // 3,
        "nearest",
        data=f32(np.arange(49)).reshape(1, 1, 1, 49),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    line("cubic: border cells repeat", 8, [*HALF, *(5 - v for v in HALF[::-1])], "cubic"),
    line(
        "antialias: the triangle is stretched",
        2,
        [3 / 1.75, 5 - 3 / 1.75],
        "linear",
        "ignores antialias",
        antialias=True,
    ),
    # coordinates 1/4, 7/4; kernel values at 1/4 .. 7/4 above, and 127 * 1.1 is too much
    # the middle of the third row is 2.5, which the roundings to f32 on the way to it move up
    (
        "u8 by linear_onnx is computed in f32",
        np.array([[[[1, 0], [3, 5], [3, 2]]]], "u1"),
        (7, 3),
        np.array(
            [[[[1, 0, 0], [1, 1, 1], [2, 3, 3], [3, 4, 5], [3, 3, 4], [3, 3, 2], [3, 2, 2]]]], "u1"
        ),
        {**SIZES, "mode": "linear_onnx"},
        "",
    ),
    (
        "u8: halves to even",
        np.array([[[[0, 1, 2]]]], "u1"),
        (1, 2),
        np.array([[[[0, 2]]]], "u1"),
        {**SIZES, "mode": "linear"},
        "",
    ),
    (
        "i8 does not wrap",
        np.array([[[[127, -128]]]], "i1"),
        (1, 4),
        np.array([[[[127, 69, -70, -128]]]], "i1"),
        {**SIZES, "mode": "cubic"},
        "",
    ),
    ("two axes", SQUARE, (4, 4), DOUBLED, {**SIZES, "mode": "linear"}, ""),
    (
        "padding comes first",
        LINE,
        (2, 6),
        f32([[[[0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 0]]]]),
        {**SIZES, "mode": "nearest", "pads_begin": (0, 0, 1, 1), "pads_end": (0, 0, 0, 1)},
        "",
    ),
    (
        "pads of axes that stay, and shorter than the rank",
        LINE,
        (1, 2),
        f32([[[[0, 0]]], [[[1, 3]]]]),
        {**SIZES, "mode": "nearest", "pads_begin": (1,)},
        "refuses padding of the batch",
    ),
    (
        "nothing wanted",
        LINE,
        (1, 0),
        np.zeros((1, 1, 1, 0), "f4"),
        {**SIZES, "mode": "cubic"},
        "not for empty tensors",
    ),
    (
        "no images",
        LINE[:0],
        (2, 2),
        np.zeros((0, 1, 2, 2), "f4"),
        {**SIZES, "mode": "linear"},
        "not for empty tensors",
    ),
]
PILLOW = [
    # distances to the first centre, halved: 1/4, 1/4, 3/4, 5/4
    line(
        "bilinear_pillow: the triangle is stretched", 2, [3 / 1.75, 5 - 3 / 1.75], "bilinear_pillow"
    ),
    line(
        "bilinear_pillow, growing", 8, [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4], "bilinear_pillow"
    ),
    line("bicubic_pillow", 2, [SHRUNK, 5 - SHRUNK], "bicubic_pillow", cube_coeff=-0.5),
    line(
        "bicubic_pillow: the default of cubic means -0.5", 2, [SHRUNK, 5 - SHRUNK], "bicubic_pillow"
    ),
    line(
        "bilinear_pillow of u8",
        2,
        [2, 3],
        "bilinear_pillow",
        data=np.array([[[[1, 2, 3, 4]]]], "u1"),
    ),
]
# floor(7 * 1.5) = 10 of 7 rows; coordinates x / 1.5
SCALED = (
    "scales",
    f32(np.arange(7)).reshape(1, 1, 1, 7),
    f32([1, 1.5]),
    f32([0, 0, 1, 2, 2, 3, 4, 4, 5, 6]).reshape(1, 1, 1, 10),
)
BY_FLOOR = {
    **SCALES,
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}


def of_4(sample: tuple[Any, ...]) -> Sample:
    name, data, sizes, expected, attributes, openvino = sample
    return Sample(
        name, [data, np.array(sizes), f32([9, 9]), HW], [expected], attributes, openvino=openvino
    )


def of_11(sample: tuple[Any, ...]) -> Sample:
    name, data, sizes, expected, attributes, openvino = sample
    return Sample(name, [data, np.array(sizes), HW], [expected], attributes, openvino=openvino)


EXAMPLES_4 = [
    *map(of_4, BOTH),
    Sample("scales", [SCALED[1], np.array([9, 9]), SCALED[2], HW], [SCALED[3]], BY_FLOOR),
    Sample(
        "the page's example",
        [np.ones((1, 2, 48, 80), "f4"), np.array([24, 160]), f32([0.5, 2]), HW],
        [np.ones((1, 2, 24, 160), "f4")],
        {**SCALES, "mode": "linear", "pads_begin": (0,), "pads_end": (0,)},
    ),
    Sample(
        "21 cells by 57 / 21 are 57, though the product of the rounded quotient is less",
        [np.ones((1, 1, 1, 21), "f4"), np.array([0, 0]), f32([1, 57 / 21]), HW],
        [np.ones((1, 1, 1, 57), "f4")],
        BY_FLOOR,
    ),
    Sample(
        "a product that is whole gains nothing",
        [np.ones((1, 1, 1, 2_000_000), "u1"), np.array([0, 0]), f32([1, 0.5]), HW],
        [np.ones((1, 1, 1, 1_000_000), "u1")],
        BY_FLOOR,
        openvino="gives 1,000,002 cells",
    ),
    Sample(
        "10 cells by 0.7 are 7, as in f32",
        [f32(np.arange(10)).reshape(1, 1, 1, 10), np.array([0, 0]), f32([1, 0.7]), HW],
        [f32([0, 1, 2, 4, 5, 7, 8]).reshape(1, 1, 1, 7)],
        BY_FLOOR,
    ),
    Sample(
        "without axes",
        [SQUARE[0, 0], np.array([4, 4]), f32([1, 1])],
        [DOUBLED[0, 0]],
        {**SIZES, "mode": "linear"},
    ),
    Sample(
        "axes in any order",
        [SQUARE[0, 0], np.array([1, 4]), f32([1, 1]), np.array([1, 0])],
        [f32([[1], [1], [3], [3]])],
        {**SIZES, "mode": "nearest"},
    ),
]
EXAMPLES_11 = [
    *map(of_11, [*BOTH, *PILLOW]),
    Sample("scales", [SCALED[1], SCALED[2], HW], [SCALED[3]], BY_FLOOR),
    Sample(
        "scales of bf16",
        [LINE, np.array([0x3F80, 0x3F00], "u2"), HW],
        [f32([[[[1, 3]]]])],
        BY_FLOOR,
        types=["f32", "bf16"],
        openvino="constants of bf16 are refused",
    ),
    Sample(
        "a scale of f64",
        [f32(np.arange(10)).reshape(1, 1, 1, 10), np.array([1, 0.7]), HW],
        [f32([0, 1, 2, 4, 5, 7, 8]).reshape(1, 1, 1, 7)],
        BY_FLOOR,
        openvino="computes in f32",
    ),
    Sample(
        "without axes",
        [SQUARE[0, 0], np.array([4, 4])],
        [DOUBLED[0, 0]],
        {**SIZES, "mode": "linear"},
    ),
]
OLD = {"axes": (3,), "mode": "linear"}
EXAMPLES_1 = [
    Sample(
        "corners are aligned",
        [LINE, np.array([7])],
        [f32([1, 1.5, 2, 2.5, 3, 3.5, 4]).reshape(1, 1, 1, 7)],
        OLD,
    ),
    Sample(
        "half pixels",
        [LINE, np.array([8])],
        [f32([1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4]).reshape(1, 1, 1, 8)],
        {**OLD, "align_corners": False},
    ),
    Sample(
        "asymmetric for axes 2 and 3 of four",
        [LINE, np.array([1, 8])],
        [f32([1, 1.5, 2, 2.5, 3, 3.5, 4, 4]).reshape(1, 1, 1, 8)],
        {**OLD, "align_corners": False, "axes": (2, 3)},
    ),
    Sample(
        "nearest rounds up when it shrinks",
        [LINE, np.array([3])],
        [f32([1, 3, 4]).reshape(1, 1, 1, 3)],
        {"axes": (3,), "mode": "nearest", "align_corners": False},
    ),
    Sample(
        "cubic",
        [LINE[0, 0], np.array([8])],
        [f32([[1, 1.40625, 2, 2.5, 3, 3.59375, 4, 4.09375]])],
        {"axes": (1,), "mode": "cubic", "align_corners": False},
    ),
    Sample(
        "one number pads every axis",
        [LINE, np.array([1, 3])],
        [f32([[[[0, 0, 0]]]])],
        {
            "axes": (2, 3),
            "mode": "nearest",
            "pads_begin": (1,),
            "pads_end": (1,),
            "align_corners": True,
        },
        openvino="pads the first dimensions",
    ),
    Sample(
        "the page's example",
        [np.ones((1, 2, 48, 80), "f4"), np.array([50, 60])],
        [np.ones((1, 2, 50, 60), "f4")],
        {
            "axes": (2, 3),
            "mode": "linear",
            "align_corners": False,
            "pads_begin": (0,),
            "pads_end": (0,),
        },
    ),
]
ONE_SIZE = np.array([8])
REFUSALS_4 = [
    Refusal("no mode", [LINE, ONE_SIZE, f32([1]), ONE_SIZE], "'mode' is missing", SIZES),
    Refusal(
        "axis outside",
        [LINE, ONE_SIZE, f32([1]), np.array([4])],
        r"'axes': 4 is outside 0\.\.3",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "negative axis",
        [LINE, ONE_SIZE, f32([1]), np.array([-1])],
        r"'axes': -1 is outside 0\.\.3",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "an axis twice",
        [LINE, HW, f32([1, 1]), np.array([3, 3])],
        r"'axes': \[3, 3\] name an axis twice",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "too few sizes",
        [LINE, ONE_SIZE, f32([1]), HW],
        "'sizes': expected one number for each of 2 axes, got 1",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "no axes, two sizes",
        [LINE, HW, f32([1, 1])],
        "'sizes': expected one number for each of 4 axes, got 2",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "too many scales",
        [LINE, ONE_SIZE, f32([1, 1]), ONE_SIZE // 4],
        "'scales': expected one number for each of 1 axes",
        {**SCALES, "mode": "linear"},
    ),
    Refusal(
        "negative size",
        [LINE, -ONE_SIZE, f32([1]), ONE_SIZE // 4],
        r"sizes\[0\] is -8, expected a size",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "scale 0",
        [LINE, ONE_SIZE, f32([0]), ONE_SIZE // 4],
        r"scales\[0\] is 0.0, expected a positive number",
        {**SCALES, "mode": "linear"},
    ),
    Refusal(
        "scale NaN",
        [LINE, ONE_SIZE, f32([np.nan]), ONE_SIZE // 4],
        r"scales\[0\] is nan",
        {**SCALES, "mode": "linear"},
    ),
    Refusal(
        "an empty axis",
        [LINE[..., :0], ONE_SIZE, f32([1]), np.array([3])],
        "cannot be resized to 8 cells",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "a matrix of sizes",
        [LINE, HW[None], f32([1]), HW],
        "'sizes': expected a 1-D tensor",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "a matrix of axes",
        [LINE, HW, f32([1]), HW[None]],
        "'axes': expected a 1-D tensor",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "pads past the rank",
        [LINE, HW, f32([1]), HW],
        "'pads_end': expected at most 4 numbers",
        {**SIZES, "mode": "linear", "pads_end": (0,) * 5},
    ),
    Refusal(
        "negative pads",
        [LINE, HW, f32([1]), HW],
        "'pads_end': expected numbers of at least 0",
        {**SIZES, "mode": "linear", "pads_end": (-1,)},
    ),
    Refusal(
        "padding beyond memory",
        [LINE, HW, f32([1, 1]), HW],
        "more than this machine's memory",
        {**SIZES, "mode": "linear", "pads_end": (0, 0, 0, 2**50)},
    ),
]
REFUSALS_11 = [
    Refusal(
        "sizes as floats",
        [LINE, f32([1, 8]), HW],
        "'scales_or_sizes': expected an integer type.*by shape_calculation_mode 'sizes', got f32",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "scales as integers",
        [LINE, HW, HW],
        "expected a floating-point type.*by shape_calculation_mode 'scales', got i64",
        {**SCALES, "mode": "linear"},
    ),
    Refusal(
        "too few",
        [LINE, ONE_SIZE, HW],
        "'scales_or_sizes': expected one number for each of 2 axes, got 1",
        {**SIZES, "mode": "linear"},
    ),
    Refusal(
        "infinite scale",
        [LINE, f32([np.inf]), ONE_SIZE // 4],
        r"scales_or_sizes\[0\] is inf",
        {**SCALES, "mode": "linear"},
    ),
]
REFUSALS_1 = [
    Refusal("no axes", [LINE, ONE_SIZE], "'axes' is missing", {"mode": "linear"}),
    Refusal(
        "axis outside", [LINE, ONE_SIZE], r"'axes': \[4\] are outside data", {**OLD, "axes": (4,)}
    ),
    Refusal(
        "negative axis",
        [LINE, ONE_SIZE],
        "'axes': expected numbers of at least 0",
        {**OLD, "axes": (-1,)},
    ),
    Refusal(
        "an axis twice", [LINE, HW], r"'axes': \[3, 3\] name an axis twice", {**OLD, "axes": (3, 3)}
    ),
    Refusal(
        "two sizes for one axis",
        [LINE, HW],
        r"one number for each of the axes \[3\], got \[2, 3\]",
        OLD,
    ),
    Refusal(
        "negative size", [LINE, -ONE_SIZE], r"target_spatial_shape\[0\] is -8, expected a size", OLD
    ),
    Refusal(
        "area",
        [LINE, ONE_SIZE],
        "mode 'area': its page does not define it",
        {**OLD, "mode": "area"},
    ),
]
TRANSFORMATIONS = [
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "align_corners",
]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]


@st.composite
def cases(draw: st.DrawFn, version: int) -> Case:
    shape = draw(shapes(1, 4, 4, 1))
    pads = (
        [
            tuple(draw(st.lists(st.integers(0, 1), min_size=len(shape), max_size=len(shape))))
            for _ in "be"
        ]
        if draw(st.booleans())
        else [(0,), (0,)]
    )
    modes = {
        1: ["nearest", "linear", "cubic"],
        4: ["nearest", "linear", "linear_onnx", "cubic"],
    }.get(version, ["bilinear_pillow", "bicubic_pillow"] * 2)
    mode = draw(
        st.sampled_from(
            modes if version < 11 else [*modes, "nearest", "linear", "linear_onnx", "cubic"]
        )
    )
    axes = draw(
        st.lists(
            st.integers(0, len(shape) - 1),
            unique=True,
            min_size=1,
            max_size=2 if mode not in ("nearest", "linear_onnx") else 3,
        )
    )
    data, name = draw(
        arrays(shape, FLOATS + (INTEGERS if mode == "nearest" and version > 1 else ()))
    )
    attributes: dict[str, Any] = {
        "mode": mode,
        "pads_begin": pads[0],
        "pads_end": pads[1],
        "antialias": draw(st.booleans()),
    }
    sizes = np.array(
        draw(st.lists(st.integers(0, 7), min_size=len(axes), max_size=len(axes))),
        draw(st.sampled_from(["i4", "i8"])),
    )
    if version == 1:
        return Case(
            [data, sizes],
            {**attributes, "axes": tuple(axes), "align_corners": draw(st.booleans())},
            [name],
        )
    by_scales = draw(st.booleans())
    attributes |= SCALES if by_scales else SIZES
    attributes |= {
        "coordinate_transformation_mode": draw(st.sampled_from(TRANSFORMATIONS)),
        "nearest_mode": draw(st.sampled_from(ROUNDINGS)),
    }
    attributes["cube_coeff"] = draw(st.sampled_from([-0.75, -0.5]))
    scales = f32(
        draw(
            st.lists(
                st.sampled_from([0.3, 0.5, 0.7, 1, 1.3, 2, 2.6]),
                min_size=len(axes),
                max_size=len(axes),
            )
        )
    )
    places = np.array(axes, draw(st.sampled_from(["i4", "i8"])))
    return Case(
        [data, sizes, scales, places]
        if version == 4
        else [data, scales if by_scales else sizes, places],
        attributes,
        [name],
    )


def coordinate(x: int, mode: str, size: int, result: int, scale: Any) -> Any:
    """The page's formulas, exact where the scale is the quotient of the sizes."""
    if size == result:
        return Fraction(x)
    if mode == "align_corners":
        return Fraction(0) if result == 1 else Fraction(x * (size - 1), result - 1)
    if mode == "pytorch_half_pixel" and result == 1:
        return Fraction(0)
    if scale is None:
        half = Fraction(1, 2)
        return {
            "half_pixel": lambda: (x + half) * size / result - half,
            "pytorch_half_pixel": lambda: (x + half) * size / result - half,
            "asymmetric": lambda: Fraction(x * size, result),
            "tf_half_pixel_for_nn": lambda: (x + half) * size / result,
        }[mode]()
    one, half = np.float32(x), np.float32(0.5)
    if mode == "asymmetric":
        return Fraction(float(one / scale))
    return Fraction(
        float(
            (one + half) / scale if mode == "tf_half_pixel_for_nn" else (one + half) / scale - half
        )
    )


def keys(distance: float, a: float) -> float:
    d = abs(distance)
    if d >= 2:
        return 0.0
    return (
        (a + 2) * d**3 - (a + 3) * d**2 + 1
        if d < 1
        else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    )


def axis_weights(
    x: int, size: int, result: int, scale: Any, how: dict[str, Any], smoothed: bool
) -> list[tuple[int, float]]:
    """The cells that cell x of the output is made of, with weights."""
    mode = how["mode"]
    if size == result:
        return [(x, 1.0)]
    if mode.endswith("pillow"):
        stretch = max(1.0, size / result)
        centre = (x + 0.5) * size / result
        a = -0.5 if how["cube_coeff"] == -0.75 else how["cube_coeff"]
        kernel = (
            (lambda d: max(0.0, 1 - abs(d)))
            if mode == "bilinear_pillow"
            else (lambda d: keys(d, a))
        )
        pairs = [(cell, kernel((cell + 0.5 - centre) / stretch)) for cell in range(size)]
        total = sum(w for _, w in pairs)
        return [(cell, w / total) for cell, w in pairs]
    c = coordinate(x, how["coordinate_transformation_mode"], size, result, scale)
    factor = float(scale) if scale is not None else result / size
    if mode == "nearest":
        rounding = how["nearest_mode"]
        if rounding == "simple":
            cell = math.ceil(c) if factor < 1 else int(c)
        elif rounding in ("floor", "ceil"):
            cell = math.floor(c) if rounding == "floor" else math.ceil(c)
        else:
            cell = math.floor(c)
            rest = c - cell
            cell += rest > Fraction(1, 2) or (
                rest == Fraction(1, 2) and rounding == "round_prefer_ceil"
            )
        return [(min(max(cell, 0), size - 1), 1.0)]
    if mode == "cubic":
        low = math.floor(c)
        return [
            (min(max(low + i, 0), size - 1), keys(float(c) - low - i, how["cube_coeff"]))
            for i in range(-1, 3)
        ]
    if mode == "linear_onnx":
        inside = min(max(c, Fraction(0)), Fraction(size - 1))
        low = int(inside)
        return [(low, float(1 - (inside - low))), (min(low + 1, size - 1), float(inside - low))]
    a = factor if smoothed else 1.0
    pairs = [(cell, max(0.0, 1 - abs(a * (float(c) - cell)))) for cell in range(size)]
    total = sum(w for _, w in pairs)
    return [(cell, w / total) for cell, w in pairs if total]


def scaled(scale: Any, size: int) -> int:
    """The whole number that is at most a millionth of the size above the product, else the number
    below.
    """
    exact = Fraction(float(scale)) * size
    return (
        math.ceil(exact)
        if scale != 1 and math.ceil(exact) - exact < Fraction(size, 10**6)
        else math.floor(exact)
    )


def loop(case: Case, version: int) -> list[np.ndarray]:
    data, how = plain(case, 0), dict(case.attributes)
    begins, ends = (
        [*how[name], *[0] * data.ndim][: data.ndim] for name in ("pads_begin", "pads_end")
    )
    scales: list[Any] = []
    if version == 1:
        axes, wanted = how["axes"], case.inputs[1]
        unpadded = not any(begins) and not any(ends)
        half = how["mode"] == "linear" and unpadded and not (data.ndim == 4 and set(axes) == {2, 3})
        how["coordinate_transformation_mode"] = (
            "align_corners" if how["align_corners"] else "half_pixel" if half else "asymmetric"
        )
        how |= {"nearest_mode": "simple", "cube_coeff": -0.75, **SIZES}
    else:
        axes = case.inputs[-1].tolist()
        wanted = case.inputs[1 if version == 11 or how["shape_calculation_mode"] == "sizes" else 2]
    padded = [b + size + e for size, b, e in zip(data.shape, begins, ends, strict=True)]
    results = list(padded)
    for i, axis in enumerate(axes):
        by_sizes = how["shape_calculation_mode"] == "sizes"
        results[axis] = int(wanted[i]) if by_sizes else scaled(wanted[i], padded[axis])
        scales.append(None if by_sizes else wanted[i])
    smoothed = how["antialias"] and any(
        (results[axis] < padded[axis]) if scale is None else scale < 1
        for axis, scale in zip(axes, scales, strict=True)
    )
    along: dict[int, list[list[tuple[int, float]]]] = {}
    for axis, scale in zip(axes, scales, strict=True):
        along[axis] = [
            axis_weights(x, padded[axis], results[axis], scale, how, smoothed)
            for x in range(results[axis])
        ]
    output = np.zeros(results, object)
    for place in np.ndindex(*results):
        total = 0
        for taps in itertools.product(
            *(along[axis][x] if axis in along else [(x, 1)] for axis, x in enumerate(place))
        ):
            cell = tuple(c - b for (c, _), b in zip(taps, begins, strict=True))
            if all(0 <= c < size for c, size in zip(cell, data.shape, strict=True)):
                total += (
                    data[cell]
                    if how["mode"] == "nearest"
                    else math.prod(w for _, w in taps) * data[cell]
                )
        output[place] = total
    return [carried(output, case.types[0])]


SAMPLES = [
    Samples(Interpolate1, EXAMPLES_1, REFUSALS_1, cases(1), lambda c: loop(c, 1)),
    Samples(Interpolate4, EXAMPLES_4, REFUSALS_4, cases(4), lambda c: loop(c, 4)),
    Samples(Interpolate11, EXAMPLES_11, REFUSALS_11, cases(11), lambda c: loop(c, 11)),
]
