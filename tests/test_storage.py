"""Bytes and codes: packing, unpacking, and the small floats, held against arithmetic written a
second time with exact fractions.
"""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncork.errors import ReadError, ValidationError
from uncork.storage import code_book, decode, encode, pack, packed_size, unpack
from uncork.types import Array, ElementType

BITS = {t: t.bits for t in ElementType if t.is_packed}
CODED = [t for t in ElementType if t.is_float and not t.is_native and t is not ElementType.bf16]
WIDE = [t for t in ElementType if t.is_native and t is not ElementType.boolean]


def all_codes(element_type: ElementType) -> Array:
    """Every carrier value of a type of at most 16 bits."""
    bits = element_type.bits
    if element_type is ElementType.boolean:
        return np.array([False, True])
    if element_type.kind == "signed":
        return np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1)).astype(element_type.dtype)
    if element_type is ElementType.f16:
        return np.arange(2**16, dtype=np.uint16).view(np.float16)
    return np.arange(2**bits).astype(element_type.dtype)


# ---- bytes


@pytest.mark.parametrize("element_type", [t for t in ElementType if 0 < t.bits <= 16])
def test_every_code_survives_packing(element_type: ElementType) -> None:
    values = all_codes(element_type)
    data = pack(values, element_type)
    assert len(data) == packed_size(element_type, len(values))
    again = unpack(data, element_type, len(values))
    assert again.dtype == element_type.dtype
    np.testing.assert_array_equal(again.view(np.uint8), values.view(np.uint8))


@given(data=st.data())
@pytest.mark.parametrize("element_type", [t for t in ElementType if t is not ElementType.string])
def test_any_values_survive_packing(element_type: ElementType, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 40))
    raw = data.draw(st.binary(min_size=8 * count, max_size=8 * count))
    wide = np.frombuffer(raw, np.uint64)
    carrier = element_type.dtype
    if element_type.is_packed:
        values = (
            encode(wide.astype(np.int64), element_type)
            if element_type.is_integer
            else (wide % (1 << element_type.bits)).astype(carrier)
        )
    elif element_type is ElementType.boolean:
        values = wide % 2 == 1
    else:
        values = np.ascontiguousarray(wide.view(carrier)[:count])
    packed = pack(values, element_type)
    # At an odd address and with more behind it.
    shifted = memoryview(b"x" + bytes(packed) + b"yz")[1:]
    again = unpack(shifted, element_type, count)
    assert bytes(pack(again, element_type)) == bytes(packed)
    np.testing.assert_array_equal(again.tobytes(), values.tobytes())
    assert not again.flags.writeable


@pytest.mark.parametrize("element_type", BITS)
def test_the_last_bits_of_the_last_byte_do_not_matter(element_type: ElementType) -> None:
    for count in range(1, 9):
        size = packed_size(element_type, count)
        ones = unpack(memoryview(b"\xff" * size), element_type, count)
        assert len(ones) == count
        assert set(ones.tolist()) == {
            -1 if element_type is ElementType.i4 else 2**element_type.bits - 1
        }
        zero = pack(np.zeros(count, element_type.dtype), element_type)
        assert bytes(zero) == bytes(size)


def test_packed_sizes() -> None:
    sizes = {t.name: [packed_size(t, n) for n in (0, 1, 4, 8, 9)] for t in ElementType}
    assert sizes["u1"] == [0, 1, 1, 1, 2]
    assert sizes["u2"] == [0, 1, 1, 2, 3]
    assert sizes["u3"] == [0, 3, 3, 3, 6]
    assert sizes["u4"] == sizes["i4"] == sizes["nf4"] == sizes["f4e2m1"] == [0, 1, 2, 4, 5]
    assert sizes["u6"] == [0, 3, 3, 6, 9]
    assert sizes["boolean"] == sizes["f8e8m0"] == [0, 1, 4, 8, 9]
    assert sizes["f64"] == [0, 8, 32, 64, 72]
    assert packed_size(ElementType.i64, 10**30) == 8 * 10**30


def test_any_layout_of_the_array_is_packed_in_c_order() -> None:
    values = np.arange(6, dtype=np.int32).reshape(2, 3)
    expected = struct.pack("<6i", 0, 3, 1, 4, 2, 5)
    assert bytes(pack(values.T, ElementType.i32)) == expected
    assert bytes(pack(values.T.astype(">i4"), ElementType.i32)) == expected
    assert bytes(pack(values[:, ::-1], ElementType.i32)) == struct.pack("<6i", 2, 1, 0, 5, 4, 3)
    assert bytes(pack(np.int32(5), ElementType.i32)) == b"\5\0\0\0"
    assert bytes(pack(np.array([[1, 2], [3, 4]], np.uint8).T, ElementType.u4)) == b"\x31\x42"


def test_whole_bytes_are_not_copied() -> None:
    values = np.arange(4, dtype=np.float32)
    data = pack(values, ElementType.f32)
    assert np.shares_memory(np.frombuffer(data, np.uint8), values)
    assert np.shares_memory(unpack(data, ElementType.f32, 4), values)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_survive_packing(texts: list[str]) -> None:
    values = np.empty(len(texts), object)
    values[:] = texts
    assert (
        unpack(pack(values, ElementType.string), ElementType.string, len(texts)).tolist() == texts
    )


def test_strings_that_the_format_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match=r"'a\\ud800' has half of a surrogate pair"):
        pack(np.array(["a\ud800"], object), ElementType.string)

    class Long(str):
        def encode(self, *_: object) -> bytes:
            return Huge()

    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31

    monkeypatch.setattr("uncork.storage.str", lambda v: v, raising=False)
    with pytest.raises(ValidationError, match=r"at most 2\*\*32 - 1 bytes of text, got 4294967296"):
        pack(np.array([Long("a"), Long("b")], object), ElementType.string)


def test_strings_are_checked() -> None:
    with pytest.raises(ReadError, match="expected a table of 12 bytes for 1 strings, got 4 bytes"):
        unpack(memoryview(b"\1\0\0\0"), ElementType.string, 1)


# ---- codes, by exact arithmetic


def exact(element_type: ElementType, code: int) -> Fraction | float:
    """The value of a code by the definitions of OFP8, OCP MX and bfloat16: a Fraction, or a float
    that is infinite or NaN.
    """
    if element_type is ElementType.f8e8m0:
        return math.nan if code == 255 else Fraction(2) ** (code - 127)
    exponent_bits, mantissa_bits = {
        "f8e4m3": (4, 3),
        "f8e5m2": (5, 2),
        "f4e2m1": (2, 1),
        "bf16": (8, 7),
    }[element_type.name]
    sign = -1 if code >> (exponent_bits + mantissa_bits) else 1
    exponent = code >> mantissa_bits & (2**exponent_bits - 1)
    mantissa = code & (2**mantissa_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 2**exponent_bits - 1:
        if element_type.name in ("f8e5m2", "bf16"):
            return math.nan if mantissa else sign * math.inf
        if element_type.name == "f8e4m3" and mantissa == 7:
            return math.nan
    if exponent == 0:
        return sign * Fraction(mantissa, 2**mantissa_bits) * Fraction(2) ** (1 - bias)
    return sign * (1 + Fraction(mantissa, 2**mantissa_bits)) * Fraction(2) ** (exponent - bias)


#: QLoRA's table (arXiv 2305.14314), rounded to six digits.
NF4 = [-1, -0.696193, -0.525073, -0.394917, -0.284441, -0.184773, -0.09105, 0]
NF4 += [0.07958, 0.16093, 0.246112, 0.337915, 0.44071, 0.562617, 0.722957, 1]


@pytest.mark.parametrize(
    "element_type", [t for t in CODED if t is not ElementType.nf4] + [ElementType.bf16]
)
def test_the_value_of_every_code(element_type: ElementType) -> None:
    codes = all_codes(element_type)
    values = decode(codes, element_type)
    assert values.dtype == np.float32
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        expected = exact(element_type, code)
        if isinstance(expected, Fraction):
            # float32 has no 2**-127 without subnormals, but it has subnormals.
            assert Fraction(value) == expected, f"{element_type} {code:#x}"
        else:
            assert math.isnan(value) if math.isnan(expected) else value == expected
    negative_zero = {"f8e4m3": 0x80, "f8e5m2": 0x80, "f4e2m1": 0x8, "bf16": 0x8000}.get(
        element_type.name
    )
    if negative_zero:
        assert math.copysign(1, float(values[negative_zero])) == -1


def test_the_values_of_nf4() -> None:
    np.testing.assert_allclose(code_book(ElementType.nf4), NF4, atol=6e-7)
    assert code_book(ElementType.nf4)[7] == 0


def test_known_codes() -> None:
    """OpenVINO's own, probed; and the examples of the OFP8 paper."""
    cases = {
        "f8e4m3": {1.0: 0x38, 448.0: 0x7E, 2.0**-9: 1, -1.5: 0xBC, -0.0: 0x80},
        "f8e5m2": {1.0: 0x3C, 57344.0: 0x7B, 2.0**-16: 1, math.inf: 0x7C, -math.inf: 0xFC},
        "f8e8m0": {1.0: 0x7F, 2.0: 0x80, 2.0**127: 0xFE},
        "f4e2m1": {0.5: 1, 1.0: 2, 6.0: 7, -6.0: 15, -0.0: 8},
        "bf16": {1.0: 0x3F80, -2.5: 0xC020, math.inf: 0x7F80},
    }
    for name, pairs in cases.items():
        codes = encode(np.array(list(pairs), np.float32), ElementType.parse(name))
        assert codes.tolist() == list(pairs.values()), name


@pytest.mark.parametrize("element_type", [*CODED, ElementType.bf16])
def test_every_code_survives_rounding(element_type: ElementType) -> None:
    codes = all_codes(element_type)
    values = decode(codes, element_type)
    for dtype in (np.float32, np.float64):
        with np.errstate(invalid="ignore"):  # widening a signalling NaN is no fault
            wide = values.astype(dtype)
        again = encode(wide, element_type)
        assert again.dtype == element_type.dtype
        kept = ~np.isnan(values)
        np.testing.assert_array_equal(again[kept], codes[kept])
        assert np.isnan(decode(again[~kept], element_type)).all()
    if (
        element_type is ElementType.bf16
    ):  # a quiet NaN keeps its payload, a signalling one becomes quiet
        np.testing.assert_array_equal(
            encode(values, element_type), np.where(np.isnan(values), codes | 0x40, codes)
        )


def nearest(element_type: ElementType, value: float) -> set[int]:
    """The codes that a finite value may be rounded to: the nearest, of two equally near the one
    with the even code.
    """
    codes = all_codes(element_type).tolist()
    if element_type is ElementType.nf4:
        known = {c: Fraction(float(code_book(element_type)[c])) for c in codes}
    else:
        known = {c: v for c in codes if isinstance(v := exact(element_type, c), Fraction)}
    distance = {c: abs(v - Fraction(value)) for c, v in known.items()}
    least = min(distance.values())
    best = [c for c, d in distance.items() if d == least]
    if len({known[c] for c in best}) > 1:
        best = [c for c in best if c % 2 == 0]
    if element_type in (ElementType.f8e4m3, ElementType.f8e5m2, ElementType.bf16):
        largest = max(known.values())
        step = largest - max(v for v in known.values() if v < largest)
        if abs(Fraction(value)) >= largest + step / 2:
            special = {"f8e4m3": 0x7F, "f8e5m2": 0x7C, "bf16": 0x7F80}[element_type.name]
            return {
                special | (0x8000 if element_type is ElementType.bf16 else 0x80)
                if value < 0
                else special
            }
    if element_type not in (ElementType.nf4, ElementType.f8e8m0):
        top = 1 << (element_type.bits - 1)
        best = [c for c in best if bool(c & top) == (math.copysign(1, value) < 0)]
    return set(best)


SMALL = [t for t in CODED if t.bits <= 8]


@pytest.mark.parametrize("element_type", SMALL)
def test_midpoints_and_their_neighbours(element_type: ElementType) -> None:
    values = sorted({float(v) for v in code_book(element_type) if np.isfinite(v)})
    probes = [0.0, -0.0, values[-1] * 1.5, -values[-1] * 1.5, values[0] * 0.75]
    for a, b in itertools.pairwise(values):
        middle = (a + b) / 2
        probes += [middle, math.nextafter(middle, -math.inf), math.nextafter(middle, math.inf)]
    codes = encode(np.array(probes), element_type)
    for probe, code in zip(probes, codes.tolist(), strict=True):
        assert code in nearest(element_type, probe), f"{element_type}: {probe!r} became {code:#x}"


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@pytest.mark.parametrize("element_type", SMALL)
def test_any_value_goes_to_the_nearest(element_type: ElementType, value: float) -> None:
    assert int(encode(np.array([value]), element_type)[0]) in nearest(element_type, value)


def bf16_of(value: Fraction) -> int:
    """The bfloat16 nearest to a number, ties to even, by bisection over the non-negative codes."""
    sign, magnitude = (0x8000, -value) if value < 0 else (0, value)
    low, high = 0, 0x7F80
    infinity = Fraction(2) ** 128

    def at(code: int) -> Fraction:
        found = exact(ElementType.bf16, code)
        return found if isinstance(found, Fraction) else infinity

    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) <= magnitude else (low, middle)
    if magnitude >= infinity:
        return sign | high
    below, above = magnitude - at(low), at(high) - magnitude
    return sign | (low if below < above or (below == above and low % 2 == 0) else high)


@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6, width=32))
def test_bf16_is_rounded_once(value: float) -> None:
    """Also from f64, where rounding to f32 on the way would round twice."""
    expected = bf16_of(Fraction(value))
    if value == 0:
        expected |= 0x8000 if math.copysign(1, value) < 0 else 0
    assert int(encode(np.array([value]), ElementType.bf16)[0]) == expected
    assert int(encode(np.array(value), ElementType.bf16)) == expected


@given(
    value=st.integers(-(2**63), 2**64 - 1) | st.integers(-70, 70).map(lambda n: (2**62 + 2**54) + n)
)
def test_bf16_of_integers(value: int) -> None:
    array = np.array([value], np.int64 if value < 2**63 else np.uint64)
    assert int(encode(array, ElementType.bf16)[0]) == bf16_of(Fraction(value))
    if -(2**63) < value < 2**63:
        assert int(encode(-array, ElementType.bf16)[0]) == bf16_of(Fraction(-value))


def test_double_rounding_of_bf16() -> None:
    tie = 1 + 2.0**-8  # half way between two bf16
    assert encode(np.array([tie, tie + 2.0**-40, tie - 2.0**-40]), ElementType.bf16).tolist() == [
        0x3F80,
        0x3F81,
        0x3F80,
    ]
    odd = 1 + 3 * 2.0**-8
    assert encode(np.array([odd, odd + 2.0**-40, odd - 2.0**-40]), ElementType.bf16).tolist() == [
        0x3F82,
        0x3F82,
        0x3F81,
    ]
    assert encode(np.array([1e300, -1e300, 1e-300, np.nan]), ElementType.bf16).tolist()[:3] == [
        0x7F80,
        0xFF80,
        0,
    ]


def test_nan_and_infinity() -> None:
    special = np.array([math.nan, math.inf, -math.inf])
    assert encode(special, ElementType.f8e4m3).tolist() == [0x7F, 0x7F, 0xFF]
    assert encode(special, ElementType.f8e5m2).tolist() == [0x7E, 0x7C, 0xFC]
    assert encode(special, ElementType.f8e8m0).tolist() == [0xFF, 0xFE, 0]
    assert encode(special[1:], ElementType.f4e2m1).tolist() == [7, 15]
    assert encode(special[1:], ElementType.nf4).tolist() == [15, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
@pytest.mark.parametrize("element_type", [t for t in ElementType if t.is_integer])
def test_integers_wrap(element_type: ElementType, values: list[int]) -> None:
    codes = encode(np.array(values, np.int64), element_type)
    modulus = 2**element_type.bits
    for value, code in zip(values, codes.tolist(), strict=True):
        assert (value - code) % modulus == 0
        assert (
            0 <= code < modulus
            if element_type.kind == "unsigned"
            else -modulus // 2 <= code < modulus // 2
        )


@pytest.mark.parametrize("element_type", WIDE)
def test_types_of_numpy_are_their_own_carrier(element_type: ElementType) -> None:
    values = np.array([0, 1, 100], element_type.dtype)
    assert decode(values, element_type) is values
    assert encode(values, element_type) is values


@pytest.mark.parametrize("element_type", [t for t in ElementType if t is not ElementType.string])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)])
def test_shapes_are_kept(element_type: ElementType, shape: tuple[int, ...]) -> None:
    """Of arrays without dimensions too NumPy's scalars are not made."""
    values = decode(np.zeros(shape, element_type.dtype), element_type)
    for array in (
        values,
        encode(values, element_type),
        encode(np.zeros(shape, np.int64), element_type),
    ):
        assert isinstance(array, np.ndarray)
        assert array.shape == shape
