"""BinaryConvolution-1, counted by hand. Each eight bits of the filters stand in reverse: see the
operation.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, counts, each_window, geometries, inside, plain
from uncork.ops.binary_convolution import BinaryConvolution1


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


PLAIN = {"strides": (1, 1), "dilations": (1, 1), "mode": "xnor-popcount", "pad_value": 0.0}
#: The kernel row 1 1 1 1 0 0 0 0, as it lies in its byte.
HALVES = np.array([[[[0, 0, 0, 0, 1, 1, 1, 1]]]], "u1")
ONES, BITS = np.ones((1, 1, 1, 8), "f4"), f32([[[[1, 1, 1, 1, 0, 0, 0, 0]]]])
PADDED = {**PLAIN, "pads_begin": (0, 4), "pads_end": (0, 0)}
CPU = "the CPU plugin is unstable unless there are 32 channels"
SAMPLE_TYPES = ["f32", "u1"]


def sample(
    name: str, data: np.ndarray, filters: np.ndarray, expected: object, **attributes: object
) -> Sample:
    return Sample(
        name, [data, filters], [f32(expected)], {**PLAIN, **attributes}, SAMPLE_TYPES, openvino=CPU
    )


EXAMPLES = [
    sample("every bit agrees", BITS, HALVES, [[[[8]]]]),
    sample("half of the bits agree", ONES, HALVES, [[[[0]]]]),
    sample("no bit agrees", 1 - BITS, HALVES, [[[[-8]]]]),
    # windows of padding and the first four bits, .. : the padding of 0 adds nothing, of 1 agrees
    # with the first four bits
    sample("padding of 0 adds nothing", BITS, HALVES, [[[[-4, -1, 2, 5, 8]]]], pads_begin=(0, 4)),
    sample("padding of 1", BITS, HALVES, [[[[0, 2, 4, 6, 8]]]], pads_begin=(0, 4), pad_value=1.0),
    sample(
        "padding of -1", BITS, HALVES, [[[[-8, -4, 0, 4, 8]]]], pads_begin=(0, 4), pad_value=-1.0
    ),
    sample(
        "two channels, four filters",
        f32([[[[1]], [[0]]]]),
        np.array([1, 1, 1, 0, 0, 1, 0, 0], "u1").reshape(4, 2, 1, 1),
        [[[[0]], [[2]], [[-2]], [[0]]]],
    ),
]
REFUSALS = [
    Refusal(
        "one axis",
        [ONES, HALVES],
        "'strides': expected 2 numbers",
        {**PLAIN, "strides": (1,), "dilations": (1,)},
        SAMPLE_TYPES,
    ),
    Refusal(
        "channels",
        [np.ones((1, 2, 1, 8), "f4"), HALVES],
        "'data' with 1 channels as 'filters'.*need, got 2",
        PLAIN,
        SAMPLE_TYPES,
    ),
    Refusal(
        "no bit",
        [ONES * 2, HALVES],
        r"data\[0, 0, 0, 0\] is 2.0, expected 0 or 1",
        PLAIN,
        SAMPLE_TYPES,
    ),
    Refusal(
        "7 bits",
        [ONES, HALVES[..., :7]],
        "with 7 bits in 'filters': expected a multiple of 8",
        PLAIN,
        SAMPLE_TYPES,
    ),
    Refusal("filters of f32", [ONES, ONES], "'filters' .port 1.: expected u1, got f32", PLAIN),
    Refusal(
        "dilation 0",
        [ONES, HALVES],
        "'dilations': expected numbers of at least 1",
        {**PLAIN, "dilations": (0, 1)},
        SAMPLE_TYPES,
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes, kernel, attributes = draw(geometries(max_axes=2).filter(lambda g: len(g[0]) == 2))
    channels = draw(st.sampled_from([1, 2]))
    filters = draw(st.integers(1, 2)) * 8 // math.gcd(8, channels * math.prod(kernel))
    data, name = draw(
        arrays(
            (draw(st.integers(0, 2)), channels, *sizes),
            ("f64", "f32", "f16", "bf16", "i8", "i64"),
            0,
            1,
        )
    )
    bits, _ = draw(arrays((filters, channels, *kernel), ("u1",)))
    if name in ("f64", "f32", "f16"):
        data = np.rint(data)
    elif name == "bf16":
        data = np.where(data >= 0x3F00, 0x3F80, 0).astype("u2")
    pad_value = draw(st.sampled_from([0.0, 1.0, -1.0]))
    return Case(
        [data, bits], {**attributes, "mode": "xnor-popcount", "pad_value": pad_value}, [name, "u1"]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, stored, attributes = plain(case, 0), plain(case, 1), case.attributes
    flat = stored.ravel().tolist()
    # Bit i of byte b is the value 8 b + i; the tensor has it as value 8 b + 7 - i.
    bits = np.array([flat[i - i % 8 + 7 - i % 8] for i in range(len(flat))], object).reshape(
        stored.shape
    )
    sizes, kernel = data.shape[2:], stored.shape[2:]
    result = np.zeros((len(data), len(stored), *counts(sizes, kernel, attributes)), object)
    for place, window in each_window(sizes, kernel, attributes):
        for n in range(len(data)):
            for o in range(len(bits)):
                total = 0
                for c in range(bits.shape[1]):
                    for cell, under in window:
                        agree = 1 if bits[(o, c, *cell)] else -1
                        if inside(under, sizes):
                            total += agree if data[(n, c, *under)] == 1 else -agree
                        else:
                            total += agree * int(attributes["pad_value"])
                result[(n, o, *place)] = total
    return [carried(result, case.types[0])]


SAMPLES = [Samples(BinaryConvolution1, EXAMPLES, REFUSALS, cases(), loop)]
