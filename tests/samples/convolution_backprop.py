"""ConvolutionBackpropData-1 and GroupConvolutionBackpropData-1: the pages' shapes with ones, and
hand work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.convolution_backprop import ConvolutionBackpropData1, GroupConvolutionBackpropData1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


ONE = {"strides": (1,), "dilations": (1,)}
STRIDE_2 = {**ONE, "strides": (2,)}
LINE = f32([[[1, 2, 3]]])
RAMP = f32([[[1, 2, 3]]])
#: [1 2 3] spread by the kernel [1 2 3] two cells apart: 1 2 3+2 4 6+3 6 9.
SPREAD = [1, 2, 5, 4, 9, 6, 9]


def shaped(*sizes: int) -> list[np.ndarray]:
    return [LINE, RAMP, np.array(sizes)]


EXAMPLES = [
    Sample("two cells apart", [LINE, RAMP], [f32([[SPREAD]])], STRIDE_2),
    Sample(
        "padding takes away",
        [LINE, RAMP],
        [f32([[SPREAD[1:-2]]])],
        {**STRIDE_2, "pads_begin": (1,), "pads_end": (2,)},
    ),
    Sample(
        "same_upper and valid know no padding",
        [LINE, RAMP],
        [f32([[SPREAD]])],
        {**STRIDE_2, "auto_pad": "same_upper", "pads_begin": (1,)},
    ),
    Sample(
        "output_padding adds a cell",
        [LINE, RAMP],
        [f32([[[*SPREAD, 0]]])],
        {**STRIDE_2, "output_padding": (1,)},
    ),
    Sample(
        "output_padding unlocks a cell that padding had cut",
        [LINE, RAMP],
        [f32([[SPREAD]])],
        {**STRIDE_2, "output_padding": (1,), "pads_end": (1,)},
    ),
    Sample(
        "dilation",
        [LINE, RAMP],
        [f32([[[1, 2, 5, 4, 9, 6, 9]]])],
        {**ONE, "strides": (2,), "dilations": (1,)},
    ),
    # kernel 1 . 2 . 3 at cells 0, 1, 2: 1 2 3+2 4 3+6 6 9 with the kernel's zeros between
    Sample(
        "dilation 2", [LINE, RAMP], [f32([[[1, 2, 5, 4, 9, 6, 9]]])], {**ONE, "dilations": (2,)}
    ),
    Sample(
        "the page's example 1, smaller",
        [np.ones((1, 3, 4, 4), "f4"), np.ones((3, 2, 3, 3), "f4")],
        # along an axis of 2 * 3 + 3 - 2 = 7 cells: 1 at odd places, 2 at even ones but the cut ends
        [
            np.broadcast_to(
                3 * np.outer([1, 2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 1, 2, 1]), (1, 2, 7, 7)
            ).astype("f4")
        ],
        {"strides": (2, 2), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)},
    ),
    Sample(
        "the page's example 2: output_padding 2",
        [np.ones((1, 20, 2, 2), "f4"), np.ones((20, 10, 3, 3), "f4")],
        [
            np.broadcast_to(
                20 * np.outer([1] * 6 + [0, 0], [1] * 6 + [0, 0]), (1, 10, 8, 8)
            ).astype("f4")
        ],
        {
            "strides": (3, 3),
            "dilations": (1, 1),
            "pads_begin": (0, 0),
            "pads_end": (0, 0),
            "output_padding": (2, 2),
        },
    ),
    Sample(
        "output_shape, even padding",
        shaped(5),
        [f32([[SPREAD[1:-1]]])],
        {**STRIDE_2, "auto_pad": "same_lower"},
    ),
    Sample(
        "output_shape, same_upper: the odd cell at the start",
        shaped(4),
        [f32([[SPREAD[2:-1]]])],
        {**STRIDE_2, "auto_pad": "same_upper"},
    ),
    Sample(
        "output_shape, same_lower: the odd cell at the end",
        shaped(4),
        [f32([[SPREAD[1:-2]]])],
        {**STRIDE_2, "auto_pad": "same_lower"},
    ),
    Sample(
        "output_shape with output_padding",
        shaped(7),
        [f32([[[*SPREAD[1:], 0]]])],
        {**STRIDE_2, "auto_pad": "same_upper", "output_padding": (1,)},
    ),
    Sample(
        "output_shape: pads are ignored",
        shaped(5),
        [f32([[SPREAD[1:-1]]])],
        {**STRIDE_2, "pads_begin": (2,), "pads_end": (0,)},
        openvino="uses the pads",
    ),
    Sample(
        "output_shape with valid",
        shaped(5),
        [f32([[SPREAD[1:-1]]])],
        {**STRIDE_2, "auto_pad": "valid"},
        openvino="takes nothing away at the start",
    ),
    Sample(
        "the page's example 3: output_shape beyond the kernel's reach",
        shaped(9),
        [f32([[[*SPREAD, 0, 0]]])],
        {**STRIDE_2, "auto_pad": "valid"},
    ),
    Sample(
        "output_shape of nothing",
        shaped(0),
        [f32([[[]]])],
        STRIDE_2,
        openvino="refuses an empty tensor",
    ),
    Sample(
        "channels in are the first dimension of the filters",
        [f32([[[1], [10]]]), f32([[[1], [2], [3]], [[4], [5], [6]]])],
        [f32([[[41], [52], [63]]])],
        ONE,
    ),
    Sample(
        "u8 wraps",
        [np.array([[[100]]], "u1"), np.array([[[3]]], "u1")],
        [np.array([[[44]]], "u1")],
        ONE,
        openvino="computes in f32",
    ),
    Sample(
        "no images",
        [np.zeros((0, 1, 3), "f4"), RAMP],
        [np.zeros((0, 1, 7), "f4")],
        STRIDE_2,
        openvino="refuses an empty batch",
    ),
    Sample(
        "no channels",
        [np.zeros((1, 0, 1), "f4"), np.zeros((0, 2, 2), "f4")],
        [np.zeros((1, 2, 2), "f4")],
        ONE,
        openvino="crashes",
    ),
]
REFUSALS = [
    Refusal(
        "channels",
        [LINE, np.ones((2, 1, 1), "f4")],
        r"'data' with 2 channels as 'filters' \[2,1,1\] need, got 1",
        ONE,
    ),
    Refusal(
        "too much padding",
        [LINE, RAMP],
        "padding of 8 cells is more than the 5",
        {**ONE, "pads_begin": (4,), "pads_end": (4,)},
    ),
    Refusal(
        "an empty axis", [np.ones((1, 1, 0), "f4"), RAMP], "'data': spatial axis 0 is empty", ONE
    ),
    Refusal(
        "an empty kernel",
        [LINE, np.ones((1, 1, 0), "f4")],
        "the kernel is empty along spatial axis 0",
        ONE,
    ),
    Refusal("data of another rank", [LINE[0], RAMP], "'data': expected rank 3 for 1 strides", ONE),
    Refusal(
        "filters of another rank", [LINE, RAMP[0]], "'filters': expected rank 3 for 1 strides", ONE
    ),
    Refusal("two sizes", shaped(1, 3), "'output_shape': expected 1 numbers, got 2", ONE),
    Refusal("negative size", shaped(-1), r"output_shape\[0\] is -1, expected a size", ONE),
    Refusal(
        "sizes as a matrix",
        [LINE, RAMP, np.array([[3]])],
        r"'output_shape': expected a 1-D tensor, got shape \[1,1\]",
        ONE,
    ),
    Refusal(
        "output_padding of another length",
        [LINE, RAMP],
        "'output_padding': expected 1 numbers",
        {**ONE, "output_padding": (1, 1)},
    ),
    Refusal(
        "negative output_padding",
        [LINE, RAMP],
        "'output_padding': expected numbers of at least 0",
        {**ONE, "output_padding": (-1,)},
    ),
    Refusal(
        "a stride beyond memory",
        shaped(3),
        "more than this machine's memory",
        {**ONE, "strides": (2**60,)},
    ),
    Refusal(
        "dilation 0",
        [LINE, RAMP],
        "'dilations': expected numbers of at least 1",
        {**ONE, "dilations": (0,)},
    ),
]
GROUP_EXAMPLES = [
    Sample(
        "the page's 1-D example, shorter",
        [np.ones((1, 20, 4), "f4"), np.repeat(f32([1, 2, 3, 4]), 30).reshape(4, 5, 2, 3)],
        [(5 * np.outer(np.repeat([1, 2, 3, 4], 2), [1, 2, 1, 2, 1, 2, 1])[None]).astype("f4")],
        {**STRIDE_2, "pads_begin": (1,), "pads_end": (1,)},
    ),
    Sample(
        "depthwise",
        [f32([[[1, 2], [3, 4]]]), f32([[[[1, 1]]], [[[1, -1]]]])],
        [f32([[[1, 3, 2], [3, 1, -4]]])],
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
        "filters without groups", [LINE, RAMP], "'filters': expected rank 4 for 1 strides", ONE
    ),
]


@st.composite
def cases(draw: st.DrawFn, grouped: bool) -> Case:
    axes = draw(st.integers(1, 3))

    def list_of(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    kernel, sizes = list_of(1, 3 if axes < 3 else 2), list_of(1, 3 if axes < 3 else 2)
    attributes: dict[str, Any] = {
        "strides": list_of(1, 3),
        "dilations": list_of(1, 2),
        "output_padding": list_of(0, 2),
    }
    attributes["auto_pad"] = draw(
        st.sampled_from(["explicit", "explicit", "same_upper", "same_lower", "valid"])
    )
    shape = (
        np.array(list_of(0, 9 if axes == 1 else 5), draw(st.sampled_from(["i4", "i8", "u2"])))
        if draw(st.booleans())
        else None
    )
    if axes == 1 or min(kernel) > 1:
        attributes["pads_begin"] = tuple(draw(st.integers(0, k // 2)) for k in kernel)
        attributes["pads_end"] = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    images, channels, outputs, groups = (
        draw(st.integers(low, high)) for low, high in ((0, 2), (1, 2), (1, 2), (1, 3))
    )
    groups = groups if grouped else 1
    data, name = draw(arrays((images, groups * channels, *sizes), FLOATS + INTEGERS))
    filters, _ = draw(
        arrays((*((groups,) if grouped else ()), channels, outputs, *kernel), (name,))
    )
    return Case([data, filters, shape], attributes, [name, name])


def axis_cut(
    size: int, kernel: int, attributes: dict[str, Any], axis: int, wanted: int | None
) -> tuple[int, int]:
    """The padding at the start of an axis and the output's size, by the page's formulas."""

    def of(name: str, default: int) -> int:
        return attributes[name][axis] if attributes.get(name) else default

    total = (
        of("strides", 1) * (size - 1)
        + (kernel - 1) * of("dilations", 1)
        + 1
        + of("output_padding", 0)
    )
    auto_pad = attributes.get("auto_pad", "explicit")
    if wanted is None:
        begin, end = (of("pads_begin", 0), of("pads_end", 0)) if auto_pad == "explicit" else (0, 0)
        return begin, total - begin - end
    padding = total - wanted
    if padding < 0:
        padding = 0
    return (padding // 2 if auto_pad != "same_upper" else padding - padding // 2), wanted


def loop(case: Case, grouped: bool) -> list[np.ndarray]:
    data, filters = plain(case, 0), plain(case, 1)
    if not grouped:
        filters = filters[None]
    groups, channels, outputs = filters.shape[:3]
    sizes, kernel = data.shape[2:], filters.shape[3:]
    wanted = case.inputs[2] if len(case.inputs) > 2 else None
    cuts = [
        axis_cut(s, k, case.attributes, i, None if wanted is None else int(wanted[i]))
        for i, (s, k) in enumerate(zip(sizes, kernel, strict=True))
    ]
    result = np.zeros((len(data), groups * outputs, *(n for _, n in cuts)), object)
    strides, dilations = case.attributes["strides"], case.attributes["dilations"]
    for n, channel, *rest in np.ndindex(*data.shape):
        group, c = divmod(channel, channels)
        for o in range(outputs):
            for cell in np.ndindex(*kernel):
                place = tuple(
                    p * s + k * d - b
                    for p, s, k, d, (b, _) in zip(rest, strides, cell, dilations, cuts, strict=True)
                )
                if all(0 <= p < size for p, size in zip(place, result.shape[2:], strict=True)):
                    result[(n, group * outputs + o, *place)] += (
                        data[(n, channel, *rest)] * filters[(group, c, o, *cell)]
                    )
    return [carried(result, case.types[0])]


SAMPLES = [
    Samples(ConvolutionBackpropData1, EXAMPLES, REFUSALS, cases(False), lambda c: loop(c, False)),
    Samples(
        GroupConvolutionBackpropData1,
        GROUP_EXAMPLES,
        GROUP_REFUSALS,
        cases(True),
        lambda c: loop(c, True),
    ),
]
