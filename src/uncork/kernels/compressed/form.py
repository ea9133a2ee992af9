"""How kernels see a matrix as it is stored."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.kernels.compressed.spec import BOOK, CONVERTED, SPLIT, Stored
from uncork.kernels.gemm.dots import PAIRS, flipped
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import kind_of, steps_of, type_of
from uncork.types import Array

#: Whole numbers of both signs up to this have differences that f16 holds exactly.
_WHOLE_IN_F16 = 1024
#: Whole numbers of so many bits and a sign are numbers of 16 bits.
_BITS = 15
#: The least normal number of f16, and its largest.
_LEAST_NORMAL, _MOST_IN_F16 = 2.0**-14, 65504.0


def stored_of(weights: CompressedMatrix, target: Target) -> Stored:
    """The form that kernels are specialised for."""
    groups = max((array.shape[1] for array in weights.operands), default=1)
    zeros, scales = weights.zero_points, weights.scales
    # Kernels in whole numbers read operands of each group of each column. Where there is none they
    # stay as they are: of short groups, laid out so, they are larger than the codes.
    kind = type_of if groups == 1 or weights.rounded_together("i8") else kind_of
    whole = is_whole(weights)
    rounds = (
        ""
        if not weights.half or scales is None
        else SPLIT
        if whole and _is_normal(weights)
        else CONVERTED
    )
    return Stored(
        weights.element_type.name,
        target.lanes,
        weights.shape[2] if groups > 1 else 0,
        kind(zeros, target),
        kind(scales, target),
        weights.half and not whole,
        rounds,
        steps_of(weights.later, target),
        weights.numbers is not None,
        weights.numbers is not None and len(weights.numbers) > BOOK,
    )


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


def code_added(how: str, element_type: str) -> int:
    """What few rows find added to every code that they read. Bytes that become 16 bits are not
    flipped, as these have both signs.
    """
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


def _is_normal(weights: CompressedMatrix) -> bool:
    """Whether all products of the integers and these scales are 0 or normal numbers of f16."""
    if not weights.element_type.is_integer or weights.numbers is not None:
        return False
    if weights.scales is None:
        return False
    scales = np.abs(weights.scales[weights.scales != 0].astype(np.float32))
    most = (1 << weights.element_type.bits) + _WHOLE_IN_F16
    return not scales.size or bool(
        scales.min() >= _LEAST_NORMAL and scales.max() * most <= _MOST_IN_F16
    )


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
