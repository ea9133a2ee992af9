"""AdaptiveAvgPool-8 and AdaptiveMaxPool-8, worked by hand from the pages' window bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.adaptive_pool import AdaptiveAvgPool8, AdaptiveMaxPool8
from uncork.types import ElementType


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


#: Five cells into three windows: [0, 2), [1, 4), [3, 5).
LINE = f32([[[1, 6, 3, 6, 5]]])
SQUARE = f32([[[[1, 2, 3], [4, 9, 6], [7, 8, 5]]]])
IMAGE = np.ones((1, 3, 32, 32), "f4")
NOTHING = np.zeros((0, 2, 5), "f4")

I64 = "does not compile with i64 places"

MEANS = [
    Sample("windows that share a cell", [LINE, np.array([3])], [f32([[[3.5, 5, 5.5]]])]),
    Sample("more windows than cells", [LINE[..., :2], np.array([3])], [f32([[[1, 3.5, 6]]])]),
    Sample("two axes", [SQUARE, np.array([2, 1])], [f32([[[[25 / 6], [39 / 6]]]])]),
    Sample("the page's example", [IMAGE, np.array([16, 16])], [np.ones((1, 3, 16, 16), "f4")]),
    Sample(
        "three axes",
        [f32(np.arange(8).reshape(1, 1, 2, 2, 2)), np.array([1, 1, 1], np.int32)],
        [f32([[[[[3.5]]]]])],
    ),
    Sample(
        "no images",
        [NOTHING, np.array([2])],
        [np.zeros((0, 2, 2), "f4")],
        openvino="not for an empty batch",
    ),
    Sample(
        "no windows",
        [LINE[..., :0], np.array([0])],
        [np.zeros((1, 1, 0), "f4")],
        openvino="not for empty tensors",
    ),
]
MAXIMA = [
    Sample(
        "windows that share a cell, the first of equals",
        [LINE, np.array([3])],
        [f32([[[6, 6, 6]]]), np.array([[[1, 1, 3]]])],
        openvino=I64,
    ),
    Sample(
        "more windows than cells",
        [LINE[..., :2], np.array([3])],
        [f32([[[1, 6, 6]]]), np.array([[[0, 1, 1]]])],
        openvino=I64,
    ),
    Sample(
        "places in the flattened axes",
        [SQUARE, np.array([2, 1])],
        [f32([[[[9], [9]]]]), np.array([[[[4], [4]]]])],
        openvino=I64,
    ),
    Sample(
        "each channel is counted from 0, i32 places",
        [f32([[[1, 2], [4, 3]]]), np.array([1])],
        [f32([[[2], [4]]]), np.array([[[1], [0]]], np.int32)],
        {"index_element_type": ElementType.i32},
    ),
    Sample(
        "a NaN wins",
        [f32([[[1, np.nan, 9, np.nan]]]), np.array([1])],
        [f32([[[np.nan]]]), np.array([[[1]]])],
        openvino="passes over a NaN",
    ),
    Sample(
        "no images",
        [NOTHING, np.array([2])],
        [np.zeros((0, 2, 2), "f4"), np.zeros((0, 2, 2), "i8")],
        openvino="not for an empty batch",
    ),
    Sample(
        "no windows",
        [LINE[..., :0], np.array([0])],
        [np.zeros((1, 1, 0), "f4"), np.zeros((1, 1, 0), "i8")],
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "rank 2", [LINE[0], np.array([1])], r"'data': expected rank 3, 4 or 5, got shape \[1,5\]"
    ),
    Refusal(
        "two sizes for one axis",
        [LINE, np.array([1, 1])],
        r"one number for each spatial axis of data \[1,1,5\], got \[1, 1\]",
    ),
    Refusal(
        "four sizes", [LINE, np.array([1] * 4)], "'output_shape': expected 1 to 3 numbers, got 4"
    ),
    Refusal("negative size", [LINE, np.array([-1])], r"output_shape\[0\] is -1, expected a size"),
    Refusal("a matrix of sizes", [LINE, np.array([[1]])], "'output_shape': expected a 1-D tensor"),
    Refusal(
        "an empty axis", [LINE[..., :0], np.array([1])], r"a spatial axis of \[1,1,0\] is empty"
    ),
    Refusal(
        "integers",
        [np.ones((1, 1, 2), "i4"), np.array([1])],
        "'data' .port 0.: expected a floating-point type",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(shapes(1, 3, 5, 1))
    counts = draw(st.lists(st.integers(0, 4), min_size=len(sizes), max_size=len(sizes)))
    data, name = draw(arrays((draw(st.integers(0, 2)), draw(st.integers(0, 2)), *sizes), FLOATS))
    return Case([data, np.array(counts, draw(st.sampled_from(["i4", "i8"])))], {}, [name])


def loop(case: Case, mean: bool) -> list[np.ndarray]:
    data, counts = plain(case, 0), [int(c) for c in case.inputs[1]]
    sizes = data.shape[2:]
    result = np.zeros((*data.shape[:2], *counts), object)
    places = np.zeros(result.shape, np.int64)
    for n, c, *place in np.ndindex(*result.shape):
        spans = [
            range(math.floor(i * s / count), math.ceil((i + 1) * s / count))
            for i, s, count in zip(place, sizes, counts, strict=True)
        ]
        cells = list(itertools.product(*spans))
        values = [data[(n, c, *cell)] for cell in cells]
        where = (n, c, *place)
        if mean:
            result[where] = sum(values) / len(values)
        else:
            result[where] = max(values)
            index = 0
            for cell, size in zip(cells[values.index(max(values))], sizes, strict=True):
                index = index * size + cell
            places[where] = index
    return [carried(result, case.types[0])] if mean else [carried(result, case.types[0]), places]


SAMPLES = [
    Samples(AdaptiveAvgPool8, MEANS, REFUSALS, cases(), lambda c: loop(c, True)),
    Samples(
        AdaptiveMaxPool8,
        MAXIMA,
        [
            *REFUSALS,
            Refusal(
                "f32 places",
                [LINE, np.array([1])],
                "expected i32 or i64, got f32",
                {"index_element_type": ElementType.f32},
            ),
        ],
        cases(),
        lambda c: loop(c, False),
    ),
]
