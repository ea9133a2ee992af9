"""StringTensorPack-15, StringTensorUnpack-15. The numbered examples are the pages'."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.string_tensor import StringTensorPack15, StringTensorUnpack15


def utf8(text: str) -> np.ndarray:
    return np.array(list(text.encode("utf-8")), np.uint8)


def words(*texts: str) -> np.ndarray:
    return np.array(texts, object)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


SQUARE = (2, 2)
TORN = utf8("日本")
PACK = [
    Sample(
        "page example 1",
        [np.array([0, 5]), np.array([5, 13]), utf8("IntelOpenVINO")],
        [words("Intel", "OpenVINO")],
    ),
    Sample(
        "page example 2: an empty string",
        [i32(0, 3, 3, 8, 9), i32(3, 3, 8, 9, 13), utf8("OMZGenAI 2024")],
        [words("OMZ", "", "GenAI", " ", "2024")],
    ),
    Sample(
        "page example 3: skipped symbols",
        [np.array([0, 8]), np.array([1, 9]), utf8("123456789")],
        [words("1", "9")],
    ),
    Sample(
        "page example 4: two dimensions",
        [
            np.array([[0, 5], [13, 16]]),
            np.array([[5, 13], [16, 21]]),
            utf8("IntelOpenVINOOMZGenAI"),
        ],
        [words("Intel", "OpenVINO", "OMZ", "GenAI").reshape(SQUARE)],
    ),
    Sample(
        "overlaps, characters of three bytes",
        [np.array([0, 3]), np.array([6, 6]), TORN],
        [words("日本", "本")],
    ),
    Sample("a scalar", [np.int64(1), np.int64(3), utf8("abc")], [np.array("bc", object)]),
    Sample(
        "no strings",
        [np.zeros((0,), np.int64), np.zeros((0,), np.int64), utf8("abc")],
        [words()],
        openvino="untested: no text has no type to compare",
    ),
    Sample("no symbols", [np.array([0]), np.array([0]), utf8("")], [words("")]),
]
PACK_REFUSALS = [
    Refusal(
        "past the end",
        [i32(0, 2), i32(2, 4), utf8("abc")],
        r"ends\[1\] is 4, expected its begin to 3, the number of symbols",
    ),
    Refusal("backwards", [i32(2), i32(1), utf8("abc")], r"ends\[0\] is 1, expected its begin to 3"),
    Refusal(
        "negative",
        [i32(-1), i32(1), utf8("abc")],
        r"begins\[0\] is -1, expected 0 to 3, the number of symbols",
    ),
    Refusal(
        "half a character",
        [i32(0), i32(2), TORN],
        r"string \[0\] \(bytes 0 to 2\) is not UTF-8: unexpected end of data",
    ),
    Refusal(
        "shapes",
        [i32(0, 0), i32(1), utf8("abc")],
        r"expected begins and ends of one shape, got \[2\] and \[1\]",
    ),
    Refusal(
        "types",
        [i32(0), np.array([1]), utf8("abc")],
        r"'ends' \(port 1\): expected i32 as 'begins' has, got i64",
    ),
    Refusal(
        "a matrix of symbols",
        [i32(0), i32(1), utf8("abc")[None]],
        r"'symbols': expected a 1-D tensor, got shape \[1,3\]",
    ),
    Refusal(
        "symbols that are no bytes",
        [i32(0), i32(1), i32(7)],
        r"'symbols' \(port 2\): expected u8, got i32",
    ),
]
UNPACK = [
    Sample(
        "page example 1",
        [words("Intel", "OpenVINO")],
        [i32(0, 5), i32(5, 13), utf8("IntelOpenVINO")],
    ),
    Sample(
        "page example 2: an empty string",
        [words("OMZ", "", "GenAI", " ", "2024")],
        [i32(0, 3, 3, 8, 9), i32(3, 3, 8, 9, 13), utf8("OMZGenAI 2024")],
    ),
    Sample(
        "page example 3: two dimensions",
        [words("Intel", "OpenVINO", "OMZ", "GenAI").reshape(SQUARE)],
        [
            i32(0, 5, 13, 16).reshape(SQUARE),
            i32(5, 13, 16, 21).reshape(SQUARE),
            utf8("IntelOpenVINOOMZGenAI"),
        ],
    ),
    Sample(
        "characters of more than one byte",
        [words("日本", "é")],
        [i32(0, 6), i32(6, 8), utf8("日本é")],
    ),
    Sample(
        "no strings",
        [words()],
        [i32(), i32(), utf8("")],
        openvino="untested: no strings cannot be given",
    ),
    Sample(
        "a scalar",
        [np.array("ab", object)],
        [np.int32(0), np.int32(2), utf8("ab")],
        openvino="untested: one string cannot be given",
    ),
]
UNPACK_REFUSALS = [
    Refusal(
        "half of a surrogate pair",
        [words("a", "\ud800")],
        r"'data': '\\ud800' has half of a surrogate pair",
    ),
    # 2**31 bytes, of one text that is there once.
    Refusal(
        "too long for i32",
        [words(*["x" * 2**18] * 2**13)],
        r"expected less than 2\*\*31 bytes of text, got 2147483648",
    ),
    Refusal("numbers", [i32(1)], r"'data' \(port 0\): expected string, got i32"),
]
TEXT = st.text(st.sampled_from("ab é日𝄞"), max_size=4)


@st.composite
def pack_cases(draw: st.DrawFn) -> Case:
    characters = draw(st.lists(st.sampled_from(["a", "é", "日", "𝄞"]), max_size=6))
    edges = [0]
    for character in characters:
        edges.append(edges[-1] + len(character.encode("utf-8")))
    shape = draw(shapes(max_rank=2, max_side=3))
    count = int(np.prod(shape, dtype=int))
    pairs = [
        sorted(draw(st.tuples(st.sampled_from(edges), st.sampled_from(edges))))
        for _ in range(count)
    ]
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    begins, ends = (np.array([p[i] for p in pairs], dtype).reshape(shape) for i in range(2))
    return Case([begins, ends, utf8("".join(characters))])


def pack_loop(case: Case) -> list[np.ndarray]:
    begins, ends, symbols = case.inputs
    output = np.empty(begins.shape, object)
    for place in np.ndindex(*begins.shape):
        output[place] = bytes(
            int(symbols[i]) for i in range(int(begins[place]), int(ends[place]))
        ).decode("utf-8")
    return [output]


@st.composite
def unpack_cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(max_rank=3, max_side=3))
    data = np.empty(shape, object)
    for place in np.ndindex(*shape):
        data[place] = draw(TEXT)
    return Case([data])


def unpack_loop(case: Case) -> list[np.ndarray]:
    (data,) = case.inputs
    begins, ends = np.zeros(data.shape, np.int32), np.zeros(data.shape, np.int32)
    symbols: list[int] = []
    for place in np.ndindex(*data.shape):
        begins[place] = len(symbols)
        for character in data[place]:
            symbols += character.encode("utf-8")
        ends[place] = len(symbols)
    return [begins, ends, np.array(symbols, np.uint8)]


SAMPLES = [
    Samples(StringTensorPack15, PACK, PACK_REFUSALS, pack_cases(), pack_loop),
    Samples(StringTensorUnpack15, UNPACK, UNPACK_REFUSALS, unpack_cases(), unpack_loop),
]
