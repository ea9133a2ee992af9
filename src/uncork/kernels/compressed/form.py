"""How kernels see a matrix as it is stored."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.kernels.compressed.spec import CONVERTED, SPLIT, Stored
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import converts_halves
from uncork.types import Array

#: Whole numbers of both signs up to this have differences that f16 holds exactly.
_WHOLE_IN_F16 = 1024
#: The least normal number of f16, and its largest.
_LEAST_NORMAL, _MOST_IN_F16 = 2.0**-14, 65504.0


def stored_of(weights: CompressedMatrix, target: Target) -> Stored:
    """The form that kernels are specialised for."""
    given = [array for array in (weights.zero_points, weights.scales) if array is not None]
    groups = max((array.shape[1] for array in given), default=1)
    zeros, scales = weights.zero_points, weights.scales
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
        type_of(zeros, target),
        type_of(scales, target),
        weights.half and not whole,
        rounds,
        weights.numbers is not None,
    )


def type_of(operand: Array | None, target: Target) -> str:
    """The type in which kernels read zero points or scales; nothing where there are none."""
    if operand is None:
        return ""
    if operand.dtype == np.float16 and not converts_halves(target):
        return "f32"
    return f"{operand.dtype.kind}{operand.dtype.itemsize * 8}"


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
