"""DeformableConvolution-1, -8: kernels of one cell that read where the offsets say, and the pages'
shapes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, counts, each_window, plain
from uncork.ops.deformable_convolution import DeformableConvolution1, DeformableConvolution8


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


PLAIN = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
ROW = f32([[[[1, 2, 3]]]])
UNIT = f32([[[[1]]]])


def moves(*columns: float) -> np.ndarray:
    """Offsets that move only along the row."""
    return f32([[[[0] * len(columns)], [columns]]])


EXAMPLES = [
    # column 0.5, 0.75, 2
    Sample("between cells", [ROW, moves(0.5, -0.25, 0), UNIT], [f32([[[[1.5, 1.75, 3]]]])], PLAIN),
    # columns -0.5, 2.5, 3
    Sample(
        "outside: the far end is moved back, the near one reads 0",
        [ROW, moves(-0.5, 1.5, 1), UNIT],
        [f32([[[[0, 3, 0]]]])],
        PLAIN,
    ),
    Sample(
        "rows come first",
        [f32([[[[1, 2], [3, 4]]]]), f32([[[[1, 0], [0, -1]], [[0, 0], [1, 0]]]]), UNIT],
        [f32([[[[3, 2], [4, 2]]]])],
        PLAIN,
    ),
    Sample(
        "without offsets a convolution: the page's example, smaller",
        [np.ones((1, 4, 8, 8), "f4"), np.zeros((1, 50, 4, 4), "f4"), np.ones((6, 4, 5, 5), "f4")],
        [np.full((1, 6, 4, 4), 100, "f4")],
        {**PLAIN, "group": 1, "deformable_group": 1},
    ),
    Sample(
        "the page's second example, smaller: four deformable groups",
        [np.ones((1, 4, 8, 8), "f4"), np.zeros((1, 200, 4, 4), "f4"), np.ones((6, 4, 5, 5), "f4")],
        [np.full((1, 6, 4, 4), 100, "f4")],
        {**PLAIN, "deformable_group": 4},
    ),
    Sample(
        "each deformable group moves its own channels",
        [
            f32([[[[1, 2]], [[3, 4]]]]),
            f32([[[[0, 0]], [[1, 0]], [[0, 0]], [[0, -1]]]]),
            f32([[[[1]], [[10]]]]),
        ],
        [f32([[[[2 + 30, 2 + 30]]]])],
        {**PLAIN, "deformable_group": 2},
    ),
    Sample(
        "groups split the filters",
        [f32([[[[1, 2]], [[3, 4]]]]), moves(1, 0), f32([[[[1]]], [[[10]]]])],
        [f32([[[[2, 2]], [[40, 40]]]])],
        {**PLAIN, "group": 2},
    ),
    Sample(
        "integers have whole offsets",
        [np.array([[[[2**53 + 1, 5]]]]), np.array([[[[0, 0]], [[0, -1]]]]), np.array([[[[1]]]])],
        [np.array([[[[2**53 + 1, 2**53 + 1]]]])],
        PLAIN,
        openvino="computes in f32",
    ),
    Sample(
        "a place that is no number reads 0",
        [ROW, moves(np.nan, 0, np.inf), UNIT],
        [f32([[[[0, 2, 0]]]])],
        PLAIN,
        openvino="reads anywhere",
    ),
    Sample(
        "no images",
        [np.zeros((0, 1, 1, 3), "f4"), np.zeros((0, 2, 1, 3), "f4"), UNIT],
        [np.zeros((0, 1, 1, 3), "f4")],
        PLAIN,
        openvino="not for empty tensors",
    ),
    Sample(
        "no channels",
        [np.zeros((1, 0, 1, 3), "f4"), np.zeros((1, 2, 1, 3), "f4"), np.zeros((2, 0, 1, 1), "f4")],
        [np.zeros((1, 2, 1, 3), "f4")],
        PLAIN,
        openvino="not for empty tensors",
    ),
]
EXAMPLES_8 = [
    # columns -0.5, 2.5, 3: half of the border cells
    Sample(
        "padded: less than a cell outside counts",
        [ROW, moves(-0.5, 1.5, 1), UNIT],
        [f32([[[[0.5, 1.5, 0]]]])],
        {**PLAIN, "bilinear_interpolation_pad": True},
    ),
    Sample(
        "padded: a cell outside and more reads 0",
        [ROW, moves(-1, -2, 1), UNIT],
        [f32([[[[0, 0, 0]]]])],
        {**PLAIN, "bilinear_interpolation_pad": True},
    ),
    Sample(
        "a factor for each place",
        [ROW, moves(0, 0, 0), UNIT, f32([[[[1, 0.5, 0]]]])],
        [f32([[[[1, 1, 0]]]])],
        PLAIN,
    ),
]
REFUSALS = [
    Refusal(
        "one axis",
        [ROW, moves(0, 0, 0), UNIT],
        "'strides': expected 2 numbers, got",
        {"strides": (1,), "dilations": (1,)},
    ),
    Refusal(
        "channels",
        [ROW, moves(0, 0, 0), np.ones((1, 2, 1, 1), "f4")],
        "'data' with 2 channels as 'filters'.*need, got 1",
        PLAIN,
    ),
    Refusal(
        "offsets of another size",
        [ROW, moves(0, 0), UNIT],
        r"'offsets': expected shape \[1,2,1,3\], got \[1,2,1,2\]",
        PLAIN,
    ),
    Refusal(
        "offsets for another number of groups",
        [np.ones((1, 2, 1, 3), "f4"), moves(0, 0, 0), np.ones((1, 2, 1, 1), "f4")],
        r"'offsets': expected shape \[1,4,1,3\]",
        {**PLAIN, "deformable_group": 2},
    ),
    Refusal(
        "channels that cannot be split",
        [ROW, moves(0, 0, 0), UNIT],
        "1 channels of data cannot be split into 2 groups",
        {**PLAIN, "deformable_group": 2},
    ),
    Refusal(
        "filters that cannot be split",
        [np.ones((1, 2, 1, 3), "f4"), moves(0, 0, 0), UNIT],
        "1 filters cannot be split into 2 groups",
        {**PLAIN, "group": 2},
    ),
    Refusal(
        "group 0",
        [ROW, moves(0, 0, 0), UNIT],
        "'group': expected at least 1",
        {**PLAIN, "group": 0},
    ),
    Refusal(
        "deformable_group 0",
        [ROW, moves(0, 0, 0), UNIT],
        "'deformable_group': expected at least 1",
        {**PLAIN, "deformable_group": 0},
    ),
    Refusal(
        "dilation 0",
        [ROW, moves(0, 0, 0), UNIT],
        "'dilations': expected numbers of at least 1",
        {**PLAIN, "dilations": (0, 1)},
    ),
]
REFUSALS_8 = [
    Refusal(
        "mask of another size",
        [ROW, moves(0, 0, 0), UNIT, f32([[[[1, 1]]]])],
        r"'mask': expected shape \[1,1,1,3\], got \[1,1,1,2\]",
        PLAIN,
    ),
]


@st.composite
def cases(draw: st.DrawFn, version: int) -> Case:
    groups, blocks = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))
    images, filters = draw(st.integers(0, 2)), draw(st.integers(1, 2)) * groups
    channels = 2 if groups == 2 or blocks == 2 else draw(st.integers(1, 2))
    kernel, sizes = ((draw(st.integers(1, high)), draw(st.integers(1, high))) for high in (2, 4))
    attributes: dict[str, Any] = {
        "strides": (draw(st.integers(1, 2)), 1),
        "dilations": (1, draw(st.integers(1, 2))),
        "pads_begin": (1, draw(st.integers(0, 1))),
        "pads_end": (0, 2),
        "auto_pad": draw(st.sampled_from(["explicit", "same_upper", "same_lower"])),
        "group": groups,
        "deformable_group": blocks,
    }
    windows = counts(sizes, kernel, attributes)
    data, name = draw(arrays((images, channels, *sizes), FLOATS))
    offsets, _ = draw(
        arrays((images, blocks * kernel[0] * kernel[1] * 2, *windows), (name,), -2, 2)
    )
    weights, _ = draw(arrays((filters, channels // groups, *kernel), (name,)))
    inputs = [data, offsets, weights]
    if version == 8:
        attributes["bilinear_interpolation_pad"] = draw(st.booleans())
        if draw(st.booleans()):
            inputs.append(
                draw(arrays((images, blocks * kernel[0] * kernel[1], *windows), (name,), 0, 1))[0]
            )
    return Case(inputs, attributes, [name] * len(inputs))


def read(image: np.ndarray, y: float, x: float, padded: bool) -> float:
    height, width = image.shape
    if not (-1 < y < height and -1 < x < width) or (not padded and (y < 0 or x < 0)):
        return 0.0
    if not padded:
        y, x = min(y, height - 1), min(x, width - 1)
    total = 0.0
    for row in range(height):
        for column in range(width):
            total += max(0, 1 - abs(y - row)) * max(0, 1 - abs(x - column)) * image[row, column]
    return total


def loop(case: Case) -> list[np.ndarray]:
    data, offsets, weights = (plain(case, i) for i in range(3))
    mask = plain(case, 3) if len(case.inputs) > 3 else None
    attributes = case.attributes
    sizes, kernel = data.shape[2:], weights.shape[2:]
    groups, blocks = attributes["group"], attributes["deformable_group"]
    result = np.zeros((len(data), len(weights), *counts(sizes, kernel, attributes)), object)
    for place, window in each_window(sizes, kernel, attributes):
        for n in range(len(data)):
            for o in range(len(weights)):
                total = 0.0
                for i in range(weights.shape[1]):
                    c = o // (len(weights) // groups) * weights.shape[1] + i
                    block = c // (data.shape[1] // blocks)
                    for tap, (cell, (y, x)) in enumerate(window):
                        k = block * math.prod(kernel) + tap
                        dy, dx = offsets[(n, 2 * k, *place)], offsets[(n, 2 * k + 1, *place)]
                        value = read(
                            data[n, c],
                            y + dy,
                            x + dx,
                            attributes.get("bilinear_interpolation_pad", False),
                        )
                        total += (
                            weights[(o, i, *cell)]
                            * value
                            * (1 if mask is None else mask[(n, k, *place)])
                        )
                result[(n, o, *place)] = total
    return [carried(result, case.types[0])]


SAMPLES = [
    Samples(DeformableConvolution1, EXAMPLES, REFUSALS, cases(1), loop),
    Samples(DeformableConvolution8, EXAMPLES + EXAMPLES_8, REFUSALS + REFUSALS_8, cases(8), loop),
]
