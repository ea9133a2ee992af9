"""Convert-1, ConvertLike-1."""

from __future__ import annotations

import math
import struct

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.convert import Convert1, ConvertLike1
from uncork.types import ElementType

NAMES = [t.name for t in ElementType if t is not ElementType.string]
F32 = np.float32
INF, NAN = math.inf, math.nan


def sample(
    name: str, data: object, source: str, expected: object, destination: str, openvino: str = ""
) -> Sample:
    wanted = ElementType.parse(destination)
    return Sample(
        name,
        [np.array(data, ElementType.parse(source).dtype)],
        [np.array(expected, wanted.dtype)],
        {"destination_type": wanted},
        types=[source],
        output_types=[destination],
        openvino=openvino,
    )


WILD = [0.5, -0.5, 1.9, -1.9, 128.7, -129.0, 300.0, 7e4, -7e4]
FAR = [2.0**31, 3e9, -3e9, 2.0**63, -(2.0**63), 2.0**64, INF, -INF, NAN]
EXAMPLES = [
    sample("page: 3.141592 to i32", [3.141592], "f32", [3], "i32"),
    sample("page: -1 to u32", [-1], "i32", [2**32 - 1], "u32"),
    sample("a scalar", 2.5, "f32", 2, "i64"),
    sample("float to i32", WILD, "f32", [0, 0, 1, -1, 128, -129, 300, 70000, -70000], "i32"),
    sample("float to u8 wraps", WILD, "f32", [0, 0, 1, 255, 128, 127, 44, 112, 144], "u8"),
    sample("float to i8 wraps", WILD, "f32", [0, 0, 1, -1, -128, 127, 44, 112, -112], "i8"),
    sample(
        "f64 to i8 wraps as f32 does",
        WILD,
        "f64",
        [0, 0, 1, -1, -128, 127, 44, 112, -112],
        "i8",
        "saturates here, but not from f32",
    ),
    sample("beyond i32", FAR, "f32", [-(2**31)] * 9, "i32"),
    sample("beyond i32 to 16 bits", FAR, "f32", [0] * 9, "i16"),
    sample(
        "beyond u32",
        FAR,
        "f32",
        [2**31, 3 * 10**9, 2**31, *[2**31] * 6],
        "u32",
        "narrows to i32 first",
    ),
    sample(
        "beyond i64",
        FAR,
        "f32",
        [2**31, 3 * 10**9, -3 * 10**9, *[-(2**63)] * 6],
        "i64",
        "narrows to i32 first",
    ),
    sample(
        "beyond u64",
        FAR,
        "f32",
        [2**31, 3 * 10**9, 2**64 - 3 * 10**9, *[2**63] * 6],
        "u64",
        "narrows to i32 first",
    ),
    sample(
        "just below 2**64",
        [float(2**64 - 2**40)],
        "f32",
        [2**64 - 2**40],
        "u64",
        "narrows to i32 first",
    ),
    sample(
        "i64 to f32 rounds once",
        [2**62 + 2**38 + 1],
        "i64",
        [float(2**62 + 2**39)],
        "f32",
        "narrows to 32 bits",
    ),
    sample("i64 to i32 wraps", [2**33 + 5, 2**31, -(2**40)], "i64", [5, -(2**31), 0], "i32"),
    sample(
        "to boolean",
        [0.0, -0.0, 0.25, NAN],
        "f32",
        [False, False, True, True],
        "boolean",
        "NaN is false at run time",
    ),
    sample("boolean to numbers", [True, False], "boolean", [1, 0], "f32"),
    sample("boolean to u1", [True, False], "boolean", [1, 0], "u1", "cannot make u1"),
    sample("to u4", [15, 16, -1, 100], "i32", [15, 0, 15, 4], "u4", "leaves high bits at run time"),
    sample("to i4", [7, 8, -9, 15], "i32", [7, -8, 7, -1], "i4", "leaves high bits at run time"),
    sample("to u1", [0, 1, 2, 3, -1], "i32", [0, 1, 0, 1, 1], "u1", "aborts"),
    sample("to u2, u4, u6 by hand: u6", [63, 64, -1], "i32", [63, 0, 63], "u6", "cannot make u6"),
    sample(
        "f32 to f16: halfway to even, too large",
        [1.00048828125, 65519.0, 65520.0, NAN],
        "f32",
        [1.0, 65504.0, INF, NAN],
        "f16",
    ),
    sample(
        "f32 to bf16: halfway to even",
        [1.00390625, 1.01171875, 3.4e38],
        "f32",
        [0x3F80, 0x3F82, 0x7F80],
        "bf16",
    ),
    sample("bf16 to f32", [0x3F80, 0xFF80, 0x0001], "bf16", [1.0, -INF, 2.0**-133], "f32"),
    sample(
        "f32 to f8e4m3", [1.0, 448.0, -0.4375, 1.0625], "f32", [0x38, 0x7E, 0xAE, 0x38], "f8e4m3"
    ),
    sample("f32 to f8e5m2", [1.0, 57344.0, INF], "f32", [0x3C, 0x7B, 0x7C], "f8e5m2"),
    sample("f8e5m2 to f16", [0x3C, 0x01, 0xFC], "f8e5m2", [1.0, 2.0**-16, -INF], "f16"),
    sample("nf4 to f32", [0, 7, 15], "nf4", [-1.0, 0.0, 1.0], "f32"),
    sample("the same type", [NAN, 1.5], "f64", [NAN, 1.5], "f64"),
    sample("empty", np.zeros((2, 0)), "f32", np.zeros((2, 0)), "i8"),
]
REFUSALS = [
    Refusal(
        "from strings",
        [np.array(["1"], object)],
        "conversion from string to i32 is not supported",
        {"destination_type": ElementType.i32},
    ),
    Refusal(
        "to strings",
        [np.array([1])],
        "conversion from i64 to string is not supported",
        {"destination_type": ElementType.string},
    ),
    Refusal("no type", [np.array([1])], "attribute 'destination_type' is missing"),
    Refusal(
        "strict: an id that would be cut",
        [np.array([[7, 2**32 + 1]])],
        r"data\[0, 1\] is 4294967297, expected -2147483648 to 2147483647, the numbers of i32",
        {"destination_type": ElementType.i32},
        strict=True,
    ),
    Refusal(
        "strict: a sign that would be lost",
        [np.array([-1])],
        r"data\[0\] is -1, expected 0 to 18446744073709551615, the numbers of u64",
        {"destination_type": ElementType.u64},
        strict=True,
    ),
]
LIKE = [
    Sample(s.name, [*s.inputs, np.zeros((0, 3), s.attributes["destination_type"].dtype)], s.outputs,
           types=[*s.types, s.attributes["destination_type"].name], output_types=s.output_types,
           rtol=s.rtol, atol=s.atol,
           openvino=s.openvino or "needs data in `like`")
    for s in EXAMPLES
]  # fmt: skip
LIKE_REFUSALS = [
    Refusal(
        "strings",
        [np.array([1]), np.array("a", object)],
        "conversion from i64 to string is not supported",
    ),
    Refusal(
        "strict: an id that would be cut",
        [np.array([2**31]), np.zeros(0, np.int32)],
        r"data\[0\] is 2147483648, expected -2147483648 to 2147483647, the numbers of i32",
        strict=True,
    ),
]


@st.composite
def cases(draw: st.DrawFn, like: bool) -> Case:
    source, destination = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    element_type = ElementType.parse(source)
    shape = draw(shapes(max_rank=2))
    count = int(np.prod(shape, dtype=int))
    if element_type.is_integer or element_type is ElementType.boolean:
        low = -(2 ** (element_type.bits - 1)) if element_type.kind == "signed" else 0
        bits = 1 if element_type is ElementType.boolean else element_type.bits
        values = draw(
            st.lists(
                st.integers(low, low + 2**bits - 1)
                | st.integers(max(low, -9), min(9, low + 2**bits - 1)),
                min_size=count,
                max_size=count,
            )
        )
        data = np.array(values, element_type.dtype)
    elif element_type.is_native:
        # Whole codes at random reach every exponent; multiples of 1/8 are where fractions are cut.
        words = draw(
            st.lists(st.integers(0, 2**element_type.bits - 1), min_size=count, max_size=count)
        )
        data = np.array(words, f"u{element_type.bits // 8}").view(element_type.dtype)
        if draw(st.booleans()):
            data = np.array([w % 4096 / 8 - 256 for w in words], element_type.dtype)
    else:
        data = np.array(
            draw(
                st.lists(st.integers(0, 2**element_type.bits - 1), min_size=count, max_size=count)
            ),
            element_type.dtype,
        )
    data = data.reshape(shape)
    if like:
        return Case(
            [data, np.zeros(draw(shapes()), ElementType.parse(destination).dtype)],
            {},
            [source, destination],
        )
    return Case([data], {"destination_type": ElementType.parse(destination)}, [source])


def one(value: float | int, destination: ElementType) -> float | int | bool:
    """One value; to the small floats the nearest value that they have."""
    if destination is ElementType.boolean:
        return value != 0
    if destination.is_integer:
        if isinstance(value, float):
            bits = max(32, destination.bits)
            top = (
                2**bits
                if destination.kind == "unsigned" and destination.bits >= 32
                else 2 ** (bits - 1)
            )
            fits = math.isfinite(value) and -(2 ** (bits - 1)) <= int(value) < top
            value = int(value) if fits else 2 ** (bits - 1)
        low = -(2 ** (destination.bits - 1)) if destination.kind == "signed" else 0
        return (value - low) % 2**destination.bits + low
    letter = {"f64": "d", "f32": "f", "f16": "e"}.get(destination.name)
    if letter:
        try:
            return float(struct.unpack(letter, struct.pack(letter, value))[0])
        except OverflowError:
            return math.copysign(INF, value)
    return float(value)


def loop(case: Case) -> list[np.ndarray]:
    data = case.inputs[0]
    destination = case.attributes.get("destination_type") or case.types[1]
    values = storage.decode(data, case.types[0]) if case.types[0].is_float else data
    converted = [one(v, destination) for v in values.reshape(-1).tolist()]
    if destination.is_float and not destination.is_native:
        # How these types round is tested with the storage of constants.
        with np.errstate(over="ignore"):
            return [
                storage.encode(np.array(converted, np.float64), destination).reshape(data.shape)
            ]
    return [np.array(converted, destination.dtype).reshape(data.shape)]


SAMPLES = [
    Samples(Convert1, EXAMPLES, REFUSALS, cases(False), lambda c: loop(c)),
    Samples(ConvertLike1, LIKE, LIKE_REFUSALS, cases(True), lambda c: loop(c)),
]
