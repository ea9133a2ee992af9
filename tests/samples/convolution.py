"""Convolution-1 and GroupConvolution-1: the pages' shapes with kernels of ones, where every result
is a count, and hand work.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, counts, each_window, geometries, inside, plain
from uncork.ops.convolution import Convolution1, GroupConvolution1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


ONE = {"strides": (1,), "dilations": (1,)}
TWO = {"strides": (1, 1), "dilations": (1, 1)}
LINE = f32([[[1, 2, 3, 4, 5]]])
EDGES = f32([[[1, -1]]])
SQUARE = f32([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]])

#: How many of 5 cells of a window lie inside 8 cells padded by 2 at both ends.
INSIDE = np.array([3, 4, 5, 5, 5, 5, 4, 3])

EXAMPLES = [
    Sample(
        "a difference of neighbours: the kernel is not flipped",
        [LINE, EDGES],
        [f32([[[-1, -1, -1, -1]]])],
        ONE,
    ),
    Sample(
        "the page's 1-D example",
        [np.ones((1, 5, 128), "f4"), np.ones((16, 5, 4), "f4")],
        [np.full((1, 16, 63), 20, "f4")],
        {
            "strides": (2,),
            "dilations": (1,),
            "pads_begin": (0,),
            "pads_end": (0,),
            "auto_pad": "valid",
        },
    ),
    Sample(
        "the page's 2-D example, smaller",
        [np.ones((1, 3, 8, 8), "f4"), np.ones((4, 3, 5, 5), "f4")],
        [np.broadcast_to(3 * np.outer(INSIDE, INSIDE), (1, 4, 8, 8)).astype("f4")],
        {**TWO, "pads_begin": (2, 2), "pads_end": (2, 2)},
    ),
    Sample(
        "the page's 3-D example, smaller: dilation 2, stride 3",
        [np.ones((1, 2, 11, 11, 11), "f4"), np.ones((3, 2, 3, 3, 3), "f4")],
        [np.full((1, 3, 3, 3, 3), 54, "f4")],
        {
            "strides": (3, 3, 3),
            "dilations": (2, 2, 2),
            "pads_begin": (0, 0, 0),
            "pads_end": (0, 0, 0),
        },
    ),
    # windows [0 1], [2 3], [4 5]: the odd cell of padding is at the start
    Sample(
        "same_lower",
        [LINE, EDGES],
        [f32([[[-1, -1, -1]]])],
        {**ONE, "strides": (2,), "auto_pad": "same_lower"},
    ),
    # windows [1 2], [3 4], [5 0]
    Sample(
        "same_upper",
        [LINE, EDGES],
        [f32([[[-1, -1, 5]]])],
        {**ONE, "strides": (2,), "auto_pad": "same_upper"},
    ),
    Sample(
        "pads are ignored with valid",
        [LINE, EDGES],
        [f32([[[-1, -1, -1, -1]]])],
        {**ONE, "auto_pad": "valid", "pads_begin": (3,), "pads_end": (3,)},
    ),
    Sample(
        "different padding at both ends of each axis",
        [SQUARE, f32([[[[1, 0], [0, 10]]]])],
        # each cell plus ten times the one below and right of it; one row of zeros above, one column
        # of zeros right
        [f32([[[[20, 30, 0], [51, 62, 3], [84, 95, 6]]]])],
        {**TWO, "pads_begin": (1, 0), "pads_end": (0, 1)},
    ),
    Sample(
        "two channels add up, two kernels",
        [f32([[[1, 2], [3, 4]]]), f32([[[1], [1]], [[1], [-1]]])],
        [f32([[[4, 6], [-2, -2]]])],
        ONE,
    ),
    Sample(
        "i8 wraps",
        [np.array([[[100, 100]]], "i1"), np.array([[[1, 1]]], "i1")],
        [np.array([[[-56]]], "i1")],
        ONE,
        openvino="computes in f32",
    ),
    Sample(
        "i64 beyond f64",
        [np.array([[[2**53 + 1]]]), np.array([[[3]]])],
        [np.array([[[3 * 2**53 + 3]]])],
        ONE,
        openvino="narrows to 32 bits",
    ),
    Sample(
        "bf16 is summed in f32 and rounded once: 256 + 1 + 1 + 1 = 259 becomes 260",
        [np.array([[[0x4380, 0x3F80, 0x3F80, 0x3F80]]], "u2"), np.full((1, 1, 4), 0x3F80, "u2")],
        [np.array([[[0x4382]]], "u2")],
        ONE,
        types=["bf16", "bf16"],
        output_types=["bf16"],
    ),
    Sample(
        "no images",
        [np.zeros((0, 1, 5), "f4"), EDGES],
        [np.zeros((0, 1, 4), "f4")],
        ONE,
        openvino="refuses an empty batch",
    ),
    Sample(
        "no channels",
        [np.zeros((1, 0, 3), "f4"), np.zeros((2, 0, 2), "f4")],
        [np.zeros((1, 2, 2), "f4")],
        ONE,
        openvino="crashes",
    ),
    Sample(
        "nothing to slide over with same_upper",
        [np.zeros((1, 1, 0), "f4"), EDGES],
        [np.zeros((1, 1, 0), "f4")],
        {**ONE, "auto_pad": "same_upper"},
        openvino="refuses an empty tensor",
    ),
]
ATTRIBUTE_REFUSALS = [
    Refusal("no strides", [LINE, EDGES], "'strides'.*missing", {"dilations": (1,)}),
    Refusal(
        "stride 0",
        [LINE, EDGES],
        r"'strides': expected numbers of at least 1, got \(0,\)",
        {**ONE, "strides": (0,)},
    ),
    Refusal(
        "dilation 0",
        [LINE, EDGES],
        r"'dilations': expected numbers of at least 1",
        {**ONE, "dilations": (0,)},
    ),
    Refusal(
        "negative pad",
        [LINE, EDGES],
        r"'pads_end': expected numbers of at least 0",
        {**ONE, "pads_end": (-1,)},
    ),
    Refusal(
        "four axes",
        [LINE, EDGES],
        "'strides': expected 1 to 3 numbers",
        {"strides": (1,) * 4, "dilations": (1,) * 4},
    ),
    Refusal(
        "uneven lists",
        [LINE, EDGES],
        r"'pads_begin': expected 1 numbers.*got \[1, 1\]",
        {**ONE, "pads_begin": (1, 1)},
    ),
]
REFUSALS = [
    Refusal(
        "data of another rank",
        [SQUARE, EDGES],
        r"'data': expected rank 3 for 1 strides, got shape \[1,1,3,3\]",
        ONE,
    ),
    Refusal(
        "filters of another rank", [LINE, SQUARE], r"'filters': expected rank 3 for 1 strides", ONE
    ),
    Refusal(
        "channels",
        [LINE, np.ones((1, 2, 1), "f4")],
        r"'data' with 2 channels as 'filters' \[1,2,1\] need, got 1",
        ONE,
    ),
    Refusal(
        "kernel too large",
        [LINE, np.ones((1, 1, 6), "f4")],
        "spans 6 cells along spatial axis 0, the padded data has 5",
        ONE,
    ),
    Refusal(
        "dilated kernel too large",
        [LINE, np.ones((1, 1, 3), "f4")],
        "spans 7 cells",
        {**ONE, "dilations": (3,)},
    ),
    Refusal(
        "empty kernel",
        [LINE, np.ones((1, 1, 0), "f4")],
        "the kernel is empty along spatial axis 0",
        ONE,
    ),
    Refusal(
        "two types",
        [LINE, np.ones((1, 1, 1))],
        "'filters' .port 1.: expected f32 as 'data' has, got f64",
        ONE,
    ),
    Refusal(
        "padding beyond memory",
        [LINE, EDGES],
        "more than this machine's memory",
        {**ONE, "strides": (2**60,), "pads_end": (2**60,)},
    ),
]
GROUP_EXAMPLES = [
    Sample(
        "the page's 1-D example, shorter: each output has its own three channels",
        [
            np.repeat(f32([[1, 2, 3, 4]]), 3, axis=1)[..., None] * np.ones((1, 1, 8), "f4"),
            np.ones((4, 1, 3, 5), "f4"),
        ],
        [(3 * np.outer([1, 2, 3, 4], INSIDE)[None]).astype("f4")],
        {**ONE, "pads_begin": (2,), "pads_end": (2,)},
    ),
    Sample(
        "depthwise: one channel a group",
        [np.concatenate([SQUARE, -SQUARE], axis=1), f32([[[[[1, 1]]]], [[[[1, -1]]]]])],
        [f32([[[[3, 5], [9, 11], [15, 17]], [[1, 1], [1, 1], [1, 1]]]])],
        TWO,
    ),
    Sample(
        "two groups of two kernels",
        [f32([[[1], [2], [3], [4]]]), f32([[[[1], [0]], [[0], [1]]], [[[1], [1]], [[1], [-1]]]])],
        [f32([[[1], [2], [7], [-1]]])],
        ONE,
    ),
]
GROUP_REFUSALS = [
    Refusal(
        "channels",
        [LINE, np.ones((2, 1, 1, 1), "f4")],
        r"'data' with 2 channels as 'filters' \[2,1,1,1\] need, got 1",
        ONE,
    ),
    Refusal(
        "filters without groups",
        [LINE, EDGES],
        r"'filters': expected rank 4 for 1 strides, got shape \[1,1,2\]",
        ONE,
    ),
]


@st.composite
def cases(draw: st.DrawFn, grouped: bool) -> Case:
    sizes, kernel, attributes = draw(geometries())
    images, channels, outputs, groups = (
        draw(st.integers(low, high)) for low, high in ((0, 2), (1, 2), (1, 2), (1, 3))
    )
    groups = groups if grouped else 1
    data, name = draw(arrays((images, groups * channels, *sizes), FLOATS + INTEGERS))
    filters, _ = draw(
        arrays((*((groups,) if grouped else ()), outputs, channels, *kernel), (name,))
    )
    return Case([data, filters], attributes, [name, name])


def loop(case: Case, grouped: bool) -> list[np.ndarray]:
    data, filters = plain(case, 0), plain(case, 1)
    if not grouped:
        filters = filters[None]
    groups, outputs, channels = filters.shape[:3]
    sizes, kernel = data.shape[2:], filters.shape[3:]
    result = np.zeros(
        (len(data), groups * outputs, *counts(sizes, kernel, case.attributes)), object
    )
    for place, window in each_window(sizes, kernel, case.attributes):
        for n in range(len(data)):
            for g in range(groups):
                for o in range(outputs):
                    total = 0
                    for c in range(channels):
                        for cell, under in window:
                            if inside(under, sizes):
                                total += (
                                    filters[(g, o, c, *cell)] * data[(n, g * channels + c, *under)]
                                )
                    result[(n, g * outputs + o, *place)] = total
    return [carried(result, case.types[0])]


SAMPLES = [
    Samples(
        Convolution1,
        EXAMPLES,
        REFUSALS + ATTRIBUTE_REFUSALS,
        cases(False),
        lambda c: loop(c, False),
    ),
    Samples(
        GroupConvolution1,
        GROUP_EXAMPLES,
        GROUP_REFUSALS + ATTRIBUTE_REFUSALS,
        cases(True),
        lambda c: loop(c, True),
    ),
]
