"""The storage of each element type's values in bytes, and what the codes of the small floats mean.

Two pairs of functions: `unpack`/`pack` between the bytes of `model.bin` and carrier arrays (see
`ElementType`), and `decode`/`encode` between the codes of floats that NumPy lacks (bf16, f8, f4,
nf4) and float32 values. Layouts: the format's notes on low-bit constants; u1 has its first value in
the highest bit, u2 and the 4-bit types in the lowest, u3 and u6 spread theirs over groups of three
bytes.
"""

from __future__ import annotations

import functools
import math
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from uncork.errors import ReadError, ValidationError
from uncork.types import Array, ElementType

# The 16 values of NormalFloat4 (QLoRA, arXiv 2305.14314, appendix E), code 0 first.
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip


def packed_size(element_type: ElementType, count: int) -> int:
    """Bytes that `count` values of a type occupy in `model.bin` (a Python int: `count` comes from a
    file).
    """
    if element_type in (ElementType.u3, ElementType.u6):
        group = 8 if element_type is ElementType.u3 else 4
        return -(-count // group) * 3
    return -(-count * element_type.bits // 8)


def unpack(data: memoryview, element_type: ElementType, count: int) -> Array:
    """`count` values from little-endian bytes, as a flat read-only carrier array.

    Types of whole bytes are viewed in place, without a copy and at any alignment. Strings raise
    ReadError when their offsets point outside `data`.
    """
    if element_type is ElementType.string:
        values = _unpack_strings(data, count)
    elif not element_type.is_packed:
        dtype = (
            np.dtype(np.uint8)
            if element_type is ElementType.boolean
            else element_type.dtype.newbyteorder("<")
        )
        values = np.frombuffer(data, dtype, count)
        if element_type is ElementType.boolean:
            # Any non-zero byte is true; a bool array over another byte would be neither.
            values = values.view(np.bool_) if not (values > 1).any() else values != 0
    else:
        raw = np.frombuffer(data, np.uint8, packed_size(element_type, count))
        values = _UNPACKERS[element_type](raw)[:count]
        if element_type is ElementType.i4:
            values = (values.astype(np.int8) ^ 8) - np.int8(8)
    values.flags.writeable = False
    return values


def pack(values: Array, element_type: ElementType) -> memoryview:
    """Carrier values as the bytes of `model.bin`, in C order; the inverse of `unpack`.

    Types of whole bytes are not copied where the array has that layout already. Strings raise
    ValidationError when the format cannot hold them.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if element_type is ElementType.string:
        return memoryview(_pack_strings([str(v) for v in flat]))
    if not element_type.is_packed:
        return flat.astype(element_type.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
    group = {ElementType.u3: 8, ElementType.u6: 4}.get(element_type, 8 // element_type.bits)
    padded = np.zeros(-(-len(flat) // group) * group, np.uint8)
    padded[: len(flat)] = flat.astype(np.uint8) & ((1 << element_type.bits) - 1)
    return _PACKERS[element_type](padded.reshape(-1, group)).astype(np.uint8).reshape(-1).data


def _fields(raw: Array, shifts: tuple[int, ...]) -> Array:
    """The bit fields of every byte, in the order of `shifts`."""
    fields: Array = (raw[:, None] >> np.array(shifts, np.uint8)) & np.uint8(_mask(shifts))
    return fields.reshape(-1)


def _mask(shifts: tuple[int, ...]) -> int:
    """The bits of a field, where so many share a byte."""
    return (1 << 8 // len(shifts)) - 1


def _joined(groups: Array, shifts: tuple[int, ...]) -> Array:
    """The bytes that hold the bit fields of each group; the inverse of `_fields`."""
    return np.asarray(np.bitwise_or.reduce(groups << np.array(shifts, np.uint8), axis=1))


_NIBBLES = (0, 4)
_CRUMBS = (0, 2, 4, 6)
_CRUMBS_HIGH_FIRST = (6, 4, 2, 0)
_NIBBLES_HIGH_FIRST = (4, 0)
_BITS_HIGH_FIRST = (7, 6, 5, 4, 3, 2, 1, 0)


#: Fields of three and of six bits lie in three bytes: the low bits of all in two, the high ones in
#: the third.
_U3 = _CRUMBS_HIGH_FIRST, _BITS_HIGH_FIRST
_U6 = _NIBBLES_HIGH_FIRST, _CRUMBS_HIGH_FIRST


def _unpack_split(raw: Array, low: tuple[int, ...], high: tuple[int, ...]) -> Array:
    triples = raw.reshape(-1, 3)
    fields = _fields(triples[:, :2].reshape(-1), low)
    return np.asarray(fields | (_fields(triples[:, 2], high) << 8 // len(low)))


def _pack_split(groups: Array, low: tuple[int, ...], high: tuple[int, ...]) -> Array:
    fields: Array = groups & _mask(low)
    count = len(low)
    parts = _joined(fields[:, :count], low), _joined(fields[:, count:], low)
    return np.stack([*parts, _joined(groups >> 8 // count, high)], axis=1)


_NIBBLE_TYPES = (ElementType.i4, ElementType.u4, ElementType.nf4, ElementType.f4e2m1)
_UNPACKERS: dict[ElementType, Callable[[Array], Array]] = {
    ElementType.u1: lambda raw: _fields(raw, _BITS_HIGH_FIRST),
    ElementType.u2: lambda raw: _fields(raw, _CRUMBS),
    ElementType.u3: lambda raw: _unpack_split(raw, *_U3),
    ElementType.u6: lambda raw: _unpack_split(raw, *_U6),
    **dict.fromkeys(_NIBBLE_TYPES, lambda raw: _fields(raw, _NIBBLES)),
}
_PACKERS: dict[ElementType, Callable[[Array], Array]] = {
    ElementType.u1: lambda groups: _joined(groups, _BITS_HIGH_FIRST),
    ElementType.u2: lambda groups: _joined(groups, _CRUMBS),
    ElementType.u3: lambda groups: _pack_split(groups, *_U3),
    ElementType.u6: lambda groups: _pack_split(groups, *_U6),
    **dict.fromkeys(_NIBBLE_TYPES, lambda groups: _joined(groups, _NIBBLES)),
}


def _unpack_strings(data: memoryview, count: int) -> Array:
    """The texts of a string constant, whose bytes are a count, count + 1 offsets from the start of
    the characters (all u32), then UTF-8.
    """
    if count == 0 and not data:  # OpenVINO writes the table for no strings too, others need not
        return np.empty(0, object)
    header = 4 * (count + 2)
    ReadError.when(
        len(data) < header,
        f"string constant: expected a table of {header} bytes for {count} strings, got "
        f"{len(data)} bytes",
    )
    table = np.frombuffer(data, "<u4", count + 2)
    if int(table[0]) != count:
        raise ReadError(
            f"string constant: the shape has {count} elements, the data says {int(table[0])}"
        )
    offsets = table[1:].astype(np.int64)
    ReadError.when(
        int(offsets[0]) != 0
        or bool((np.diff(offsets) < 0).any())
        or int(offsets[-1]) > len(data) - header,
        "string constant: the offsets must start at 0, not decrease and end within the data",
    )
    characters = bytes(data[header : header + int(offsets[-1])])
    values = np.empty(count, object)
    for i in range(count):
        try:
            values[i] = characters[int(offsets[i]) : int(offsets[i + 1])].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ReadError(
                f"string constant: element {i} is not UTF-8 ({error.reason} at byte {error.start})"
            ) from None
    return values


def _pack_strings(values: list[str]) -> bytes:
    try:
        encoded = [v.encode("utf-8") for v in values]
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"string constant: {error.object!r} has half of a surrogate pair and cannot be "
            "written as UTF-8"
        ) from None
    ends = np.cumsum([len(e) for e in encoded], dtype=np.int64)
    if encoded and ends[-1] >= 2**32:
        raise ValidationError(
            f"string constant: the format holds at most 2**32 - 1 bytes of text, got {ends[-1]}"
        )
    table = np.zeros(len(encoded) + 2, "<u4")
    table[0] = len(encoded)
    table[2:] = ends
    return table.tobytes() + b"".join(encoded)


def decode(codes: Array, element_type: ElementType) -> Array:
    """The values of a carrier array: float32 for bf16, f8, f4 and nf4; all other types as they
    are.
    """
    # np.asarray: of an array without dimensions NumPy's operators make a scalar.
    if element_type is ElementType.bf16:
        values = np.empty(codes.shape, np.float32)  # which nobody has to copy to own it
        np.left_shift(codes, np.uint32(16), out=values.view(np.uint32), dtype=np.uint32)
        return values
    if element_type.is_float and not element_type.is_native:
        return np.asarray(code_book(element_type)[codes])
    return codes


def encode(values: Array, element_type: ElementType) -> Array:
    """Values rounded to an element type (to nearest, ties to even) as a carrier array.

    Floats beyond the range become infinity where the type has one, NaN in f8e4m3, and the largest
    value in the 4-bit types and f8e8m0. Integers wrap modulo 2**bits.
    """
    if element_type is ElementType.bf16:
        return _encode_bf16(values)
    if element_type.is_float and not element_type.is_native:
        return _encode_codes(values, element_type)
    if element_type.is_packed:
        return _wrap(values, element_type)
    return values.astype(element_type.dtype, copy=False)


@functools.cache
def blank(element_type: ElementType) -> Any:
    """The carrier value of the number 0, which operations write where there are no data: of f8e8m0,
    which has no 0, its least number; the empty text of strings.
    """
    if element_type is ElementType.string:
        return ""
    return encode(np.zeros((), np.float32 if element_type.is_float else np.int64), element_type)[()]


def _encode_bf16(values: Array) -> Array:
    with np.errstate(all="ignore"):  # NaN and infinity are results here, not accidents
        single: Array = (
            values.astype(np.float32, copy=False)
            if values.dtype in (np.float32, np.float16)
            else _rounded_to_odd(values)
        )
        bits = np.ascontiguousarray(single).view(np.uint32).reshape(values.shape)
        rounded = (
            bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        ) >> np.uint32(16)
    # Rounding a NaN's payload up could turn it into infinity: keep it quiet instead.
    codes: Array = np.where(np.isnan(single), (bits >> np.uint32(16)) | np.uint32(0x40), rounded)
    return codes.astype(np.uint16)


def _rounded_to_odd(values: Array) -> Array:
    """Values rounded to odd in float32, so that rounding them once more is as rounding the first
    time: what is not exact is cut and its last bit set.
    """
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        # Beyond 53 bits not even float64 is exact: the same by hand, on the last 11 bits.
        cut = (values >> values.dtype.type(11)) | ((values & values.dtype.type(0x7FF)) != 0)
        large = (
            (values >= 2**53) | (values <= -(2**53))
            if values.dtype.kind == "i"
            else values >= 2**53
        )
        exact: Array = np.where(large, cut.astype(np.float64) * 2.0**11, values.astype(np.float64))
    else:
        exact = values.astype(np.float64)
    single = np.atleast_1d(exact.astype(np.float32))
    again = single.astype(np.float64).reshape(exact.shape)
    beyond = (np.abs(again) > np.abs(exact)).astype(np.uint32)
    inexact = ((again != exact) & ~np.isnan(exact)).astype(np.uint32)
    bits = (single.view(np.uint32).reshape(exact.shape) - beyond) | inexact
    return np.atleast_1d(bits).view(np.float32).reshape(exact.shape)


def _wrap(values: Array, element_type: ElementType) -> Array:
    low: Array = values.astype(np.int64, copy=False) & ((1 << element_type.bits) - 1)
    if element_type.kind == "signed":
        half = 1 << (element_type.bits - 1)
        low = (low ^ half) - half
    return np.asarray(low).astype(element_type.dtype)


@functools.cache
def code_book(element_type: ElementType) -> Array:
    """The float32 value of every code of an 8- or 4-bit float."""
    if element_type is ElementType.nf4:
        values = list(_NF4)
    elif element_type is ElementType.f8e8m0:
        values = [math.ldexp(1.0, code - 127) for code in range(255)] + [math.nan]
    else:
        exponent_bits, mantissa_bits = {"f8e4m3": (4, 3), "f8e5m2": (5, 2), "f4e2m1": (2, 1)}[
            element_type.name
        ]
        values = [
            _small_float(code, exponent_bits, mantissa_bits)
            for code in range(1 << element_type.bits)
        ]
    book = np.array(values, np.float32)
    book.flags.writeable = False
    return book


def _small_float(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """The value of a code of a small float. The formats are like IEEE's, except that f8e4m3 has no
    infinity (only all ones is NaN) and f4e2m1 has neither (OCP MX, OFP8).
    """
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = -1.0 if code >> (mantissa_bits + exponent_bits) else 1.0
    bias = (1 << (exponent_bits - 1)) - 1
    top = exponent == (1 << exponent_bits) - 1
    if exponent_bits == 5 and top:
        return sign * (math.nan if mantissa else math.inf)
    if exponent_bits == 4 and top and mantissa == 7:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


@functools.cache
def _rounding_table(element_type: ElementType) -> tuple[Array, Array, Array]:
    """Non-negative finite values in order, the midpoints between neighbours, and the code of each
    value.
    """
    book = code_book(element_type).astype(np.float64)
    codes = np.arange(len(book))
    keep = (
        np.isfinite(book)
        if element_type is ElementType.nf4
        else np.isfinite(book) & ~np.signbit(book)
    )
    order = np.argsort(book[keep], kind="stable")
    values, kept = book[keep][order], codes[keep][order].astype(np.uint8)
    return values, (values[:-1] + values[1:]) / 2, kept


def _encode_codes(values: Array, element_type: ElementType) -> Array:
    exact = np.asarray(values, np.float64)
    table, middle, codes = _rounding_table(element_type)
    signed = element_type in (ElementType.f8e4m3, ElementType.f8e5m2, ElementType.f4e2m1)
    magnitude = np.abs(exact) if signed else exact
    # A value on a midpoint goes to the even code; side="left" sends it to the lower neighbour
    # first.
    lower = np.searchsorted(middle, magnitude, side="left")
    tie = (lower < len(middle)) & (magnitude == middle[np.minimum(lower, len(middle) - 1)])
    position = lower + (tie & (codes[lower] % 2 == 1))
    result = codes[position].astype(np.int64)
    if element_type in (ElementType.f8e4m3, ElementType.f8e5m2):
        # Past the last value by half a step or more: infinity, or NaN where the type has no
        # infinity.
        step = table[-1] - table[-2]
        beyond = magnitude >= table[-1] + step / 2
        result = np.where(beyond, 0x7F if element_type is ElementType.f8e4m3 else 0x7C, result)
    nan_code = {ElementType.f8e4m3: 0x7F, ElementType.f8e5m2: 0x7E, ElementType.f8e8m0: 0xFF}.get(
        element_type, 0
    )
    result = np.where(np.isnan(exact), nan_code, result)
    if signed:
        sign_bit = 1 << (element_type.bits - 1)
        result = np.where(np.signbit(exact) & ~np.isnan(exact), result | sign_bit, result)
    return result.astype(np.uint8)


def write_archive(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write an .npz file of arrays by any names: to NumPy's `savez` one called 'file' is another
    argument.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
