"""Pad-1, -12. The examples are those of the pages."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.pad import Pad1, Pad12

DATA = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
CONSTANT, EDGE, REFLECT, SYMMETRIC = (
    {"pad_mode": m} for m in ("constant", "edge", "reflect", "symmetric")
)


def sample(
    name: str,
    mode: dict[str, str],
    begin: list[int],
    end: list[int],
    expected: list[list[int]],
    *value: float,
    openvino: str = "",
) -> Sample:
    return Sample(
        name,
        [DATA, np.array(begin), np.array(end), *map(np.float32, value)],
        [np.array(expected, np.float32)],
        mode,
        openvino=openvino,
    )


POSITIVE = [[0, 1], [2, 3]]
EXAMPLES = [
    sample(
        "page: constant",
        CONSTANT,
        *POSITIVE,
        [
            [0, 1, 2, 3, 4, 0, 0, 0],
            [0, 5, 6, 7, 8, 0, 0, 0],
            [0, 9, 10, 11, 12, 0, 0, 0],
            [0] * 8,
            [0] * 8,
        ],
    ),
    sample(
        "page: edge",
        EDGE,
        *POSITIVE,
        [[1, 1, 2, 3, 4, 4, 4, 4], [5, 5, 6, 7, 8, 8, 8, 8], *[[9, 9, 10, 11, 12, 12, 12, 12]] * 3],
    ),
    sample(
        "page: reflect",
        REFLECT,
        *POSITIVE,
        [
            [2, 1, 2, 3, 4, 3, 2, 1],
            [6, 5, 6, 7, 8, 7, 6, 5],
            [10, 9, 10, 11, 12, 11, 10, 9],
            [6, 5, 6, 7, 8, 7, 6, 5],
            [2, 1, 2, 3, 4, 3, 2, 1],
        ],
    ),
    sample(
        "page: symmetric",
        SYMMETRIC,
        *POSITIVE,
        [
            [1, 1, 2, 3, 4, 4, 3, 2],
            [5, 5, 6, 7, 8, 8, 7, 6],
            [9, 9, 10, 11, 12, 12, 11, 10],
            [9, 9, 10, 11, 12, 12, 11, 10],
            [5, 5, 6, 7, 8, 8, 7, 6],
        ],
    ),
    sample(
        "a value",
        CONSTANT,
        [0, 0],
        [0, 1],
        [[1, 2, 3, 4, 15], [5, 6, 7, 8, 15], [9, 10, 11, 12, 15]],
        15.0,
        openvino="takes a value that comes at run time for 0",
    ),
    sample("nothing to add", REFLECT, [0, 0], [0, 0], DATA.tolist()),
    Sample(
        "strings",
        [np.array(["a"], object), np.array([1]), np.array([1]), np.array("日本", object)],
        [np.array(["日本", "a", "日本"], object)],
        CONSTANT,
        openvino="not for strings",
    ),
    Sample(
        "strings by default",
        [np.array(["a"], object), np.array([1]), np.array([0])],
        [np.array(["", "a"], object)],
        CONSTANT,
        openvino="not for strings",
    ),
    Sample(
        "nf4 by default",
        [np.array([15], np.uint8), np.array([1]), np.array([0])],
        [np.array([7, 15], np.uint8)],
        CONSTANT,
        types=["nf4"],
        output_types=["nf4"],
        openvino="OpenVINO takes no nf4",
    ),
    Sample(
        "empty data",
        [np.zeros((0,), np.float32), np.array([1]), np.array([1])],
        [np.zeros(2, np.float32)],
        CONSTANT,
        openvino="refuses it",
    ),
    Sample(
        "a scalar",
        [np.float32(3), np.zeros((0,), np.int64), np.zeros((0,), np.int64)],
        [np.float32(3)],
        CONSTANT,
        openvino="refuses it",
    ),
    Sample(
        "bf16 moves its bits",
        [np.array([0x7FC1], np.uint16), np.array([1]), np.array([0]), np.array(0xFF81, np.uint16)],
        [np.array([0xFF81, 0x7FC1], np.uint16)],
        CONSTANT,
        types=["bf16", None, None, "bf16"],
        output_types=["bf16"],
        openvino="may quieten a NaN",
    ),
]
MIXED = [[2, -1], [-1, 3]]
CROPS = [
    *[
        sample(f"page: negative pads, {m['pad_mode']}", m, [-1, -1], [-1, -1], [[6, 7]])
        for m in (CONSTANT, EDGE, REFLECT, SYMMETRIC)
    ],
    sample(
        "page: mixed, constant",
        CONSTANT,
        *MIXED,
        [[0] * 6, [0] * 6, [2, 3, 4, 0, 0, 0], [6, 7, 8, 0, 0, 0]],
    ),
    sample("page: mixed, edge", EDGE, *MIXED, [*[[2, 3, 4, 4, 4, 4]] * 3, [6, 7, 8, 8, 8, 8]]),
    sample(
        "page: mixed, reflect",
        REFLECT,
        *MIXED,
        [[10, 11, 12, 11, 10, 9], [6, 7, 8, 7, 6, 5], [2, 3, 4, 3, 2, 1], [6, 7, 8, 7, 6, 5]],
    ),
    sample(
        "page: mixed, symmetric",
        SYMMETRIC,
        *MIXED,
        [[6, 7, 8, 8, 7, 6], [2, 3, 4, 4, 3, 2], [2, 3, 4, 4, 3, 2], [6, 7, 8, 8, 7, 6]],
    ),
    sample(
        "nothing left",
        CONSTANT,
        [-2, 0],
        [-3, 0],
        np.zeros((0, 4)).tolist() or np.zeros((0, 4)),
        openvino="refuses it",
    ),
    sample(
        "cropped beyond the data, padded back",
        CONSTANT,
        [0, -5],
        [0, 4],
        [[7, 7, 7]] * 3,
        7.0,
        openvino="refuses it",
    ),
]
REFUSALS = [
    Refusal(
        "no mode", [DATA, np.array([0, 0]), np.array([0, 0])], "attribute 'pad_mode' is missing"
    ),
    Refusal(
        "short pads",
        [DATA, np.array([0]), np.array([0, 0])],
        r"'pads_begin': expected one pad for each dimension of data \[3,4\], got",
        CONSTANT,
    ),
    Refusal(
        "vector value",
        [DATA, np.array([0, 0]), np.array([0, 0]), np.zeros(1, np.float32)],
        r"'pad_value': expected a scalar, got shape \[1\]",
        CONSTANT,
    ),
    Refusal(
        "type of value",
        [DATA, np.array([0, 0]), np.array([0, 0]), np.float64(1)],
        "expected f32 as 'data' has, got f64",
        CONSTANT,
    ),
    Refusal(
        "reflect too far",
        [DATA, np.array([3, 0]), np.array([0, 0])],
        "mode reflect: expected pads of at most 2 along axis 0, got 3 and 0",
        REFLECT,
    ),
    Refusal(
        "symmetric too far",
        [DATA, np.array([0, 0]), np.array([0, 5])],
        "mode symmetric: expected pads of at most 4 along axis 1, got 0 and 5",
        SYMMETRIC,
    ),
    Refusal(
        "no edge",
        [np.zeros((0,)), np.array([1]), np.array([0])],
        "mode edge: axis 0 of data is empty",
        EDGE,
    ),
    Refusal(
        "strings have no edge mode",
        [np.array(["a"], object), np.array([1]), np.array([0])],
        "in mode constant only, got edge",
        EDGE,
    ),
]
ONLY_1 = [
    Refusal(
        "negative",
        [DATA, np.array([0, -1]), np.array([0, 0])],
        r"'pads_begin': expected no negative pads, got \[0, -1\]",
        CONSTANT,
    )
]


@st.composite
def cases(draw: st.DrawFn, least: int) -> Case:
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric"]))
    shape = draw(shapes(max_rank=3))
    pads = []
    for size in shape:
        most = {
            "constant": 3,
            "edge": 3 if size else 0,
            "reflect": max(size - 1, 0),
            "symmetric": size,
        }[mode]
        pads.append((draw(st.integers(least, most)), draw(st.integers(least, most))))
    data, name = draw(arrays(shape, tuple(t for t in _types(mode))))
    more = [draw(arrays((), (name,)))[0]] if mode == "constant" and draw(st.booleans()) else []
    begin, end = (np.array([p[k] for p in pads], np.int64) for k in (0, 1))
    return Case([data, begin, end, *more], {"pad_mode": mode}, [name, None, None, name])


def _types(mode: str) -> list[str]:
    return ["f32", "bf16", "u8", "i64", "u4", "boolean"] + (
        ["string"] if mode == "constant" else []
    )


def loop(case: Case) -> list[np.ndarray]:
    data, begin, end = case.inputs[:3]
    mode = case.attributes["pad_mode"]
    blank = case.inputs[3][()] if len(case.inputs) > 3 else case.zero
    output = np.empty(
        [max(0, b + s + e) for b, s, e in zip(begin, data.shape, end, strict=True)], data.dtype
    )
    for place in itertools.product(*map(range, output.shape)):
        source = [p - int(b) for p, b in zip(place, begin, strict=True)]
        if mode == "constant" and not all(
            0 <= i < s for i, s in zip(source, data.shape, strict=True)
        ):
            output[place] = blank
            continue
        for axis, size in enumerate(data.shape):
            i = source[axis]
            if mode == "edge":
                i = 0 if i < 0 else size - 1 if i >= size else i
            elif i < 0:
                i = -i if mode == "reflect" else -i - 1
            elif i >= size:
                i = size - 1 - (i - size + 1) if mode == "reflect" else size - 1 - (i - size)
            source[axis] = i
        output[place] = data[tuple(source)]
    return [output]


SAMPLES = [
    Samples(Pad12, EXAMPLES + CROPS, REFUSALS, cases(-3), loop),
    Samples(Pad1, EXAMPLES, REFUSALS + ONLY_1, cases(0), loop),
]
