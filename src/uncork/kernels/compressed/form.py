"""How kernels see a matrix as it is stored."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.decompression import numbers_of
from uncork.kernels.compressed.spec import BOOK, CONVERTED, HALF_BLOCK, SPLIT
from uncork.kernels.gemm.dots import FOUR_MIXED, PAIRS, flipped
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_form import PER_WORD, Stored
from uncork.kernels.stored_types import FLOATS_OF_A_BYTE, kind_of, steps_of, type_of
from uncork.storage import code_book
from uncork.types import Array, ElementType

#: Whole numbers of both signs up to this have differences that f16 holds exactly.
_WHOLE_IN_F16 = 1024
#: Whole numbers of so many bits and a sign are numbers of 16 bits.
_BITS = 15
#: The least normal number of f16 and its largest; its digits, and what all are multiples of.
_LEAST_NORMAL, _MOST_IN_F16 = 2.0**-14, 65504.0
_DIGITS, _UNIT_OF_F16 = 11, 2.0**-24
#: Scales with which nothing overflows, or is too small for f32.
_LEAST_SCALE, _MOST_SCALE = 2.0**-40, 2.0**40
#: Numbers that are looked at together.
_PART = 1 << 16


def stored_of(weights: CompressedMatrix, target: Target) -> Stored:
    """The form that kernels are specialised for."""
    groups = max((array.shape[1] for array in weights.operands), default=1)
    zeros, scales = weights.zero_points, weights.scales
    # Kernels in whole numbers read operands of each group of each column. Where there is none they
    # stay as they are: of short groups, laid out so, they are larger than the codes.
    kind = type_of if groups == 1 or weights.rounded_together("i8") else kind_of
    whole, group = is_whole(weights), weights.shape[2] if groups > 1 else 0
    rounds = CONVERTED if weights.half and scales is not None else ""
    last = weights.later[-1].rounds if weights.later else bool(rounds and _rounding(weights))
    by_bytes = (
        last
        and weights.numbers is not None  # whole numbers are made of codes in less time
        and weights.element_type.bits == 4
        and group % HALF_BLOCK == 0
        and target.lanes == 8
        and target.has("avx2")
    )
    return Stored(
        weights.read_as.name,
        target.lanes,
        group,
        kind(zeros),
        kind(scales),
        weights.half and not whole,
        _rounding(weights) if whole and not by_bytes else rounds,
        steps_of(weights.later),
        weights.numbers is not None,
        weights.numbers is not None and len(weights.numbers) > BOOK,
        by_bytes=by_bytes,
        factored=_is_factored(weights, rounds, group, target),
        planes=weights.element_type.name if weights.planes else "",
    )


def _is_factored(weights: CompressedMatrix, rounds: str, group: int, target: Target) -> bool:
    """Whether kernels multiply by scales behind sums: of floats of a byte that have one for a
    column, and of numbers of a table, of which there would be several in registers.
    """
    of_column = not group and weights.element_type.name in FLOATS_OF_A_BYTE
    of_table = group > 0 and weights.numbers is not None and weights.element_type.bits == 4
    plain = weights.zero_points is None and not weights.later and not rounds
    if not plain or not (of_column or (of_table and target.lanes == 16 and group % PER_WORD == 0)):
        return False
    return weights.scales is not None and are_moderate(weights.scales)


def whole_book(numbers: Array) -> tuple[Array, float] | None:
    """The numbers of a table as whole ones of 16 bits, and the unit of which they are so many; None
    where there is no such unit.
    """
    if not np.isfinite(numbers).all() or not numbers.any():
        return None
    _, exponents = np.frexp(numbers[numbers != 0].astype(np.float64))
    unit = 2.0 ** (int(exponents.max()) - _BITS)
    # The largest unit: a table of few bits becomes small numbers.
    while (numbers / (2 * unit) == np.rint(numbers / (2 * unit))).all():
        unit *= 2
    whole = numbers.astype(np.float64) / unit
    if (whole != np.rint(whole)).any():
        return None
    return whole.astype(np.int16), unit


def code_added(how: str, element_type: str, book: bool) -> int:
    """What few rows find added to every code that they read, or to the highest byte of its number
    in a table, which has no sign where products are of such. Bytes that become 16 bits are not
    flipped, as these have both signs.
    """
    if book:
        return 128 if how == FOUR_MIXED else 0
    return 0 if how == PAIRS else flipped(how, element_type)[1]


def laid_out_book(numbers: Array) -> Array:
    """A table as kernels read it: its numbers, f32; then, of 16 that are whole multiples of a unit,
    their low bytes, their high bytes, and the unit.
    """
    if len(numbers) > BOOK:
        return numbers.astype("<f4").view(np.uint8)
    whole, unit = whole_book(numbers) or (np.zeros(16, np.int16), 0.0)
    low, high = (whole.view(np.uint8)[part::2].tobytes() for part in range(2))
    given = numbers.astype("<f4").tobytes() + low + high + np.float32(unit).tobytes()
    return np.frombuffer(given, np.uint8)


class Sizes(Struct, frozen=True):
    """The smallest and the largest of some numbers but 0, without signs; how many binary digits
    they have, and what all are multiples of.
    """

    least: float
    most: float
    digits: int
    unit: float

    @staticmethod
    def of(numbers: Array) -> Sizes:
        flat, fractions, least, most = numbers.reshape(-1), 0, np.inf, 0.0
        for start in range(0, len(flat), _PART):
            sizes = np.abs(numbers_of(flat[start : start + _PART]))
            fractions |= int(np.bitwise_or.reduce(sizes.view(np.uint32) & 0x7FFFFF))
            least = min(least, float(np.min(sizes, where=sizes != 0, initial=np.inf)))
            most = float(np.maximum(most, sizes.max()))  # which keeps a NaN
        if most == 0:
            return Sizes(1, 1, 1, 1)
        digits = 24 - (fractions & -fractions).bit_length() + 1 if fractions else 1
        exponent = math.frexp(least)[1] if np.isfinite(least) else 0
        return Sizes(least, most, digits, 2.0 ** (exponent - digits))


def are_moderate(scales: Array | None) -> bool:
    """Whether products with these scales do not overflow, and are not too small for f32."""
    if scales is None:
        return True
    sizes = Sizes.of(scales)
    return sizes.least >= _LEAST_SCALE and sizes.most <= _MOST_SCALE


def _sizes_of_numbers(weights: CompressedMatrix) -> Sizes | None:
    """The sizes of what codes stand for, less whole zero points; None where they may be anything
    that f16 holds.
    """
    kind, zeros = weights.element_type, weights.zero_points
    if weights.numbers is not None:
        return Sizes.of(weights.numbers) if zeros is None else None
    if kind.is_integer:
        most = (1 << kind.bits) + (0 if zeros is None else _WHOLE_IN_F16)
        return Sizes(1, most, kind.bits if zeros is None else _DIGITS, 1)
    if kind is ElementType.f8e4m3 and zeros is None:
        book = code_book(kind)
        return Sizes.of(book[np.isfinite(book)])
    return None


def _rounding(weights: CompressedMatrix) -> str:
    """How products of numbers and scales are rounded to f16; nothing where f16 has all of them."""
    if not weights.half or weights.scales is None:
        return ""
    numbers, scales = _sizes_of_numbers(weights), Sizes.of(weights.scales)
    if numbers is None or not numbers.most * scales.most <= _MOST_IN_F16:
        return CONVERTED
    digits = (numbers.digits, scales.digits)
    together = max(digits) if 1 in digits else sum(digits)
    if together <= _DIGITS and numbers.unit * scales.unit >= _UNIT_OF_F16:
        return ""
    return SPLIT if numbers.least * scales.least >= _LEAST_NORMAL else CONVERTED


def is_whole(weights: CompressedMatrix) -> bool:
    """Whether all codes less zero points are integers that f16 holds."""
    zeros = weights.zero_points
    if zeros is None:
        return True
    if not weights.element_type.is_integer or weights.numbers is not None:
        return False
    return zeros.dtype == np.uint8 or bool(
        ((np.abs(zeros) <= _WHOLE_IN_F16) & (zeros == np.rint(zeros))).all()
    )
