"""MaxPool-1, -8, -14: all examples of the pages, and hand work.

Page example 1 has a slip: its second row ends in -6 (place 5), but that window also covers the 3
above it (place 2).
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, counts, each_window, geometries, inside, plain
from uncork.ops.max_pool import MaxPool1, MaxPool8, MaxPool14
from uncork.types import ElementType


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


SQUARE = [[-1, 2, 3], [4, 5, -6], [-7, 8, 9]]
OTHER = [[2, -1, 5], [6, -7, 1], [8, 2, -3]]
COUNTED = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
KERNEL = {"kernel": (2, 2), "strides": (1, 1)}
PADDED = {**KERNEL, "pads_begin": (1, 1), "pads_end": (1, 1)}
LINE = f32([[[1, 5, 3, 3, 2]]])
ONE = {"kernel": (2,), "strides": (2,)}
NO_INTEGERS = "returns uninitialised memory for integers"


def both(
    name: str,
    data: np.ndarray,
    largest: object,
    places: object,
    attributes: dict[str, object],
    openvino: str = "",
) -> Sample:
    return Sample(
        name,
        [data],
        [np.array(largest, data.dtype), np.array(places, np.int64)],
        attributes,
        openvino=openvino,
    )


EXAMPLES = [
    both(
        "page example 1: padding",
        f32([[SQUARE]]),
        [[[[-1, 2, 3, 3], [4, 5, 5, 3], [4, 8, 9, 9], [-7, 8, 9, 9]]]],
        [[[[0, 1, 2, 2], [3, 4, 4, 2], [3, 7, 8, 8], [6, 7, 8, 8]]]],
        PADDED,
    ),
    both(
        "page example 2: valid",
        f32([[[-1, 2, 3, 5, -7, 9, 1]]]),
        [[[3, 5, 5, 9, 9]]],
        [[[2, 3, 3, 5, 5]]],
        {"kernel": (3,), "strides": (1,), "auto_pad": "valid"},
    ),
    both(
        "page example 3: same_lower",
        f32([[SQUARE]]),
        [[[[-1, 2, 3], [4, 5, 5], [4, 8, 9]]]],
        [[[[0, 1, 2], [3, 4, 4], [3, 7, 8]]]],
        {**KERNEL, "auto_pad": "same_lower"},
    ),
    both(
        "page example 4: same_upper, two channels",
        f32([[SQUARE, OTHER]]),
        [[[[5, 5, 3], [8, 9, 9], [8, 9, 9]], [[6, 5, 5], [8, 2, 1], [8, 2, -3]]]],
        [[[[4, 4, 2], [7, 8, 8], [7, 8, 8]], [[12, 11, 11], [15, 16, 14], [15, 16, 17]]]],
        {**KERNEL, "auto_pad": "same_upper"},
    ),
    both(
        "page example: valid rounds up when told to",
        f32([[SQUARE]]),
        [[[[5, 3], [8, 9]]]],
        [[[[4, 2], [7, 8]]]],
        {**KERNEL, "strides": (2, 2), "auto_pad": "valid", "rounding_type": "ceil"},
    ),
    both("the first of equal cells", LINE, [[[5, 3]]], [[[1, 2]]], ONE),
    both("rounded up", LINE, [[[5, 3, 2]]], [[[1, 2, 4]]], {**ONE, "rounding_type": "ceil"}),
    both(
        "a NaN wins",
        f32([[[1, np.nan, np.nan, 3, 5, 4]]]),
        [[[np.nan, np.nan, 5]]],
        [[[1, 2, 4]]],
        ONE,
        openvino="passes over a NaN",
    ),
    both(
        "the data's own -inf wins over padding",
        f32([[[-np.inf, -np.inf]]]),
        [[[-np.inf, -np.inf]]],
        [[[0, 1]]],
        {**ONE, "pads_begin": (1,), "pads_end": (1,)},
        openvino="gives the lowest finite value",
    ),
    both(
        "windows that lie in padding",
        f32([[[-5]]]),
        [[[-np.inf, -5, -np.inf]]],
        [[[0, 0, 0]]],
        {"kernel": (1,), "strides": (1,), "pads_begin": (1,), "pads_end": (1,)},
        openvino="gives the lowest finite value",
    ),
    both(
        "i64 is exact", np.array([[[2**53, 2**53 + 1]]]), [[[2**53 + 1]]], [[[1]]], ONE, NO_INTEGERS
    ),
    both(
        "the lowest integer wins over padding",
        np.array([[[-128]]], "i1"),
        [[[-128]]],
        [[[0]]],
        {**ONE, "pads_begin": (1,)},
        NO_INTEGERS,
    ),
    both(
        "no images",
        np.zeros((0, 2, 5), "f4"),
        np.zeros((0, 2, 2)),
        np.zeros((0, 2, 2)),
        ONE,
        "refuses an empty batch",
    ),
    both(
        "nothing to slide over",
        np.zeros((1, 2, 0), "f4"),
        np.zeros((1, 2, 0)),
        np.zeros((1, 2, 0)),
        {**ONE, "auto_pad": "same_upper"},
        "refuses it",
    ),
]
EXAMPLES_8 = [
    both(
        "page example 6: dilation 2",
        f32([[COUNTED]]),
        [[[[5, 6, 5], [8, 9, 8], [5, 6, 5]]]],
        [[[[4, 5, 4], [7, 8, 7], [4, 5, 4]]]],
        {**PADDED, "dilations": (2, 2)},
    ),
    both(
        "page example 7: places counted from axis 2",
        f32(np.arange(1, 19).reshape(1, 2, 3, 3)),
        [[[[5, 6], [8, 9]], [[14, 15], [17, 18]]]],
        [[[[4, 5], [7, 8]], [[4, 5], [7, 8]]]],
        {**KERNEL, "axis": 2},
    ),
    both(
        "places counted from axis 1",
        f32(np.arange(8).reshape(2, 2, 2)),
        [[[1], [3]], [[5], [7]]],
        [[[1], [3]], [[1], [3]]],
        {**ONE, "axis": -2},
    ),
    both(
        "places counted from the last axis",
        f32([[COUNTED]]),
        [[[[5, 6], [8, 9]]]],
        [[[[1, 2], [1, 2]]]],
        {**KERNEL, "axis": -1},
        "refuses axis 3",
    ),
    Sample(
        "i32 places",
        [LINE],
        [f32([[[5, 3]]]), np.array([[[1, 2]]], np.int32)],
        {**ONE, "index_element_type": ElementType.i32},
    ),
]
EXAMPLES_14 = [
    both(
        "page example 5: ceil_torch",
        f32([[COUNTED]]),
        [[[[1, 3], [7, 9]]]],
        [[[[0, 2], [6, 8]]]],
        {**PADDED, "strides": (2, 2), "rounding_type": "ceil_torch"},
    ),
]
REFUSALS = [
    Refusal("no kernel", [LINE], "'kernel' is missing", {"strides": (2,)}),
    Refusal(
        "kernel too large",
        [LINE],
        "the kernel spans 6 cells along spatial axis 0, the padded data has 5",
        {**ONE, "kernel": (6,)},
    ),
    Refusal("data of another rank", [LINE[0]], "'data': expected rank 3 for 1 strides", ONE),
]
REFUSALS_8 = [
    Refusal(
        "axis past the rank", [LINE], r"axis 3 is outside -3\.\.2 for rank 3", {**ONE, "axis": 3}
    ),
    Refusal(
        "float places",
        [LINE],
        "'index_element_type': expected i32 or i64, got f32",
        {**ONE, "index_element_type": ElementType.f32},
    ),
]


@st.composite
def cases(draw: st.DrawFn, roundings: tuple[str, ...], since_8: bool) -> Case:
    sizes, kernel, attributes = draw(geometries(dilated=since_8))
    attributes |= {"kernel": kernel, "rounding_type": draw(st.sampled_from(roundings))}
    if since_8:
        attributes["axis"] = draw(st.integers(-len(sizes) - 2, len(sizes) + 1))
    data, name = draw(
        arrays((draw(st.integers(0, 2)), draw(st.integers(0, 2)), *sizes), FLOATS + INTEGERS)
    )
    return Case([data], attributes, [name])


def loop(case: Case, since_8: bool) -> list[np.ndarray]:
    data, attributes = plain(case, 0), case.attributes
    sizes, kernel = data.shape[2:], attributes["kernel"]
    element_type = case.types[0]
    least = (
        -math.inf
        if element_type.is_float
        else -(2 ** (element_type.bits - 1))
        if element_type.kind == "signed"
        else 0
    )
    largest = np.zeros((*data.shape[:2], *counts(sizes, kernel, attributes)), object)
    places = np.zeros(largest.shape, np.int64)
    axis = attributes.get("axis", 0) % data.ndim
    for place, window in each_window(sizes, kernel, attributes):
        for n, c in np.ndindex(*data.shape[:2]):
            best, where = least, (n, c) + (0,) * len(sizes)
            for _, under in window:
                if inside(under, sizes) and data[(n, c, *under)] > best:
                    best, where = data[(n, c, *under)], (n, c, *under)
            if best == least:  # nothing larger: the first cell of the data under the window
                where = next(((n, c, *under) for _, under in window if inside(under, sizes)), where)
            largest[(n, c, *place)] = best
            index = 0
            for dim in range(axis, data.ndim):
                index = index * data.shape[dim] + where[dim]
            places[(n, c, *place)] = index
    return [carried(largest, element_type), places][: 2 if since_8 else 1]


def without_places(samples: list[Sample]) -> list[Sample]:
    return [
        Sample(s.name, s.inputs, s.outputs[:1], s.attributes, openvino=s.openvino) for s in samples
    ]


def for_uncork(samples: list[Sample]) -> list[Sample]:
    why = "returns uninitialised memory when both outputs are used"
    return [Sample(s.name, s.inputs, s.outputs, s.attributes, openvino=why) for s in samples]


SAMPLES = [
    Samples(
        MaxPool1,
        without_places(EXAMPLES),
        REFUSALS,
        cases(("floor", "ceil"), False),
        lambda c: loop(c, False),
    ),
    Samples(
        MaxPool8,
        for_uncork(EXAMPLES + EXAMPLES_8),
        REFUSALS + REFUSALS_8,
        cases(("floor", "ceil"), True),
        lambda c: loop(c, True),
    ),
    Samples(
        MaxPool14,
        for_uncork(EXAMPLES + EXAMPLES_8 + EXAMPLES_14),
        REFUSALS + REFUSALS_8,
        cases(("floor", "ceil", "ceil_torch"), True),
        lambda c: loop(c, True),
    ),
]
