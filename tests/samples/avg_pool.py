"""AvgPool-1, -14, -16: the pages' shapes on ones, and hand work."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import (
    axis_windows,
    carried,
    counts,
    each_window,
    geometries,
    inside,
    plain,
)
from uncork.ops.avg_pool import AvgPool1, AvgPool14, AvgPool16


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


LINE = f32([[[1, 2, 3, 4, 5]]])
TWO = {"kernel": (2,), "strides": (2,), "exclude_pad": True}
INCLUDED = {**TWO, "exclude_pad": False}
IMAGE = np.ones((1, 3, 32, 32), "f4")
PAGE = {
    "exclude_pad": True,
    "kernel": (5, 5),
    "strides": (2, 2),
    "pads_begin": (1, 1),
    "pads_end": (1, 1),
}


def ends_with_pad(size: int, first: float, last: float) -> np.ndarray:
    """Means of ones where the first and the last window have some cells of padding."""
    line = np.ones(size)
    line[0], line[-1] = first, last
    return np.broadcast_to(np.outer(line, line), (1, 3, size, size)).astype("f4")


EXAMPLES = [
    Sample("rounded down", [LINE], [f32([[[1.5, 3.5]]])], TWO),
    Sample(
        "rounded up: cells past the data do not count",
        [LINE],
        [f32([[[1.5, 3.5, 5]]])],
        {**INCLUDED, "rounding_type": "ceil"},
    ),
    Sample("without padding", [LINE], [f32([[[1, 2.5, 4.5]]])], {**TWO, "pads_begin": (1,)}),
    Sample("with padding", [LINE], [f32([[[0.5, 2.5, 4.5]]])], {**INCLUDED, "pads_begin": (1,)}),
    # windows [. 1 2] [2 3 4] [4 . past]: the last one has one cell of padding and one past it
    Sample(
        "padding counts, cells past it do not",
        [f32([[[1, 2, 3, 4]]])],
        [f32([[[1, 3, 2]]])],
        {**INCLUDED, "kernel": (3,), "pads_begin": (1,), "pads_end": (1,), "rounding_type": "ceil"},
        openvino="counts the whole kernel where there is padding (torch and ONNX do as we)",
    ),
    Sample(
        "a window with no cell at all gives 0",
        [LINE],
        [f32([[[1.5, 4, 0]]])],
        {
            "kernel": (3,),
            "strides": (3,),
            "pads_begin": (1,),
            "pads_end": (1,),
            "rounding_type": "ceil",
            "exclude_pad": True,
        },
        openvino="gives NaN",
    ),
    Sample(
        "same_upper: the odd cell at the end",
        [LINE],
        [f32([[[1.5, 3.5, 5]]])],
        {**TWO, "auto_pad": "same_upper"},
    ),
    Sample(
        "same_lower: the odd cell at the start",
        [LINE],
        [f32([[[1, 2.5, 4.5]]])],
        {**TWO, "auto_pad": "same_lower"},
    ),
    Sample(
        "same_lower, padding counts",
        [LINE],
        [f32([[[0.5, 2.5, 4.5]]])],
        {**INCLUDED, "auto_pad": "same_lower"},
    ),
    Sample(
        "the page's example 3",
        [IMAGE],
        [np.ones((1, 3, 10, 10), "f4")],
        {**PAGE, "strides": (3, 3)},
    ),
    Sample(
        "the page's example 4", [IMAGE], [ends_with_pad(15, 0.8, 1)], {**PAGE, "exclude_pad": False}
    ),
    Sample(
        "the page's example 5: valid",
        [IMAGE],
        [np.ones((1, 3, 14, 14), "f4")],
        {**PAGE, "auto_pad": "valid"},
    ),
    Sample(
        "valid rounds up too, when it is told to",
        [LINE],
        [f32([[[1.5, 3.5, 5]]])],
        {**TWO, "auto_pad": "valid", "rounding_type": "ceil"},
    ),
    Sample(
        "integers: the nearest, halves to even",
        [np.array([[[1, 2, -3, -4, 7, 8, 3, -4]]], np.int32)],
        [np.array([[[2, -4, 8, 0]]], np.int32)],
        TWO,
    ),
    Sample("u8 is summed wide", [np.array([[[255, 254]]], "u1")], [np.array([[[254]]], "u1")], TWO),
    Sample(
        "i64 is exact",
        [np.array([[[2**61 + 2, 2**61]]])],
        [np.array([[[2**61 + 1]]])],
        TWO,
        openvino="computes in f32",
    ),
    Sample(
        "no images",
        [np.zeros((0, 2, 5), "f4")],
        [np.zeros((0, 2, 2), "f4")],
        TWO,
        openvino="refuses an empty batch",
    ),
    Sample(
        "nothing to slide over with same_upper",
        [np.zeros((1, 2, 0), "f4")],
        [np.zeros((1, 2, 0), "f4")],
        {**TWO, "auto_pad": "same_upper"},
        openvino="refuses an empty tensor",
    ),
]
TORCH = {"rounding_type": "ceil_torch"}
EXAMPLES_14 = [
    # the third window would start in the padding
    Sample(
        "ceil_torch leaves out a window that starts past the data",
        [f32([[[1, 2, 3]]])],
        [f32([[[1, 2.5]]])],
        {**TWO, **TORCH, "pads_begin": (1,), "pads_end": (1,)},
    ),
    Sample(
        "ceil_torch keeps one that starts in it", [LINE], [f32([[[1.5, 3.5, 5]]])], {**TWO, **TORCH}
    ),
]
EXAMPLES_16 = [
    Sample("every second cell", [LINE], [f32([[[2, 4]]])], {**TWO, "dilations": (2,)}),
    Sample(
        "the page's last example: dilation 2",
        [IMAGE],
        [ends_with_pad(13, 0.8, 1)],
        {**PAGE, "exclude_pad": False, "dilations": (2, 2)},
    ),
]
REFUSALS = [
    Refusal(
        "no exclude_pad", [LINE], "'exclude_pad' is missing", {"kernel": (2,), "strides": (2,)}
    ),
    Refusal(
        "kernel of another length",
        [LINE],
        "'kernel': expected 1 numbers, got",
        {**TWO, "kernel": (2, 2)},
    ),
    Refusal(
        "kernel 0", [LINE], "'kernel': expected numbers of at least 1", {**TWO, "kernel": (0,)}
    ),
    Refusal(
        "kernel too large",
        [LINE],
        "the kernel spans 6 cells along spatial axis 0, the padded data has 5",
        {**TWO, "kernel": (6,)},
    ),
    Refusal("data of another rank", [LINE[0]], "'data': expected rank 3 for 1 strides", TWO),
    Refusal("booleans", [np.ones((1, 1, 2), bool)], "'data' .port 0.: expected", TWO),
]


@st.composite
def cases(draw: st.DrawFn, roundings: tuple[str, ...], dilated: bool) -> Case:
    sizes, kernel, attributes = draw(geometries(dilated=dilated))
    attributes |= {
        "kernel": kernel,
        "rounding_type": draw(st.sampled_from(roundings)),
        "exclude_pad": draw(st.booleans()),
    }
    data, name = draw(
        arrays(
            (draw(st.integers(0, 2)), draw(st.integers(0, 2)), *sizes), FLOATS + INTEGERS, -100, 100
        )
    )
    return Case([data], attributes, [name])


def padding_of(size: int, kernel: int, attributes: dict[str, Any], axis: int) -> tuple[int, int]:
    """The cells between which padding counts."""
    windows, end = axis_windows(size, kernel, attributes, axis)
    return (windows[0][0] if windows else 0), size + end


def loop(case: Case) -> list[np.ndarray]:
    data, attributes = plain(case, 0), case.attributes
    sizes, kernel = data.shape[2:], attributes["kernel"]
    limits = [
        padding_of(s, k, attributes, i) for i, (s, k) in enumerate(zip(sizes, kernel, strict=True))
    ]
    result = np.zeros((*data.shape[:2], *counts(sizes, kernel, attributes)), object)
    for place, window in each_window(sizes, kernel, attributes):
        for n, c in np.ndindex(*data.shape[:2]):
            cells = [data[(n, c, *under)] for _, under in window if inside(under, sizes)]
            count = len(cells)
            if not attributes["exclude_pad"]:
                count = sum(
                    all(low <= u < high for u, (low, high) in zip(under, limits, strict=True))
                    for _, under in window
                )
            if count:
                total = sum(cells)
                result[(n, c, *place)] = (
                    total / count if case.types[0].is_float else round(Fraction(total, count))
                )
    return [carried(result, case.types[0])]


TWO_ROUNDINGS = ("floor", "ceil")
ALL_ROUNDINGS = ("floor", "ceil", "ceil_torch")
SAMPLES = [
    Samples(AvgPool1, EXAMPLES, REFUSALS, cases(TWO_ROUNDINGS, False), loop),
    Samples(AvgPool14, EXAMPLES + EXAMPLES_14, REFUSALS, cases(ALL_ROUNDINGS, False), loop),
    Samples(
        AvgPool16,
        EXAMPLES + EXAMPLES_14 + EXAMPLES_16,
        [
            *REFUSALS,
            Refusal(
                "dilations of another length",
                [LINE],
                "'dilations': expected 1 numbers",
                {**TWO, "dilations": (1, 1)},
            ),
        ],
        cases(ALL_ROUNDINGS, True),
        loop,
    ),
]
