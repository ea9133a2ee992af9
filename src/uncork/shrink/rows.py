"""Rows as small integers or f16: each row of a table has a scale and a zero point of its own.

    value = (code - zero_point) * scale        code from 0 to `levels`

so that the smallest value of a row has code 0 and the largest code `levels`. A value is off by half
a scale at most, which is a 510th (8 bits) or a 30th (4 bits) of the range of its row; a row of one
value is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uncork.errors import ValidationError
from uncork.storage import decode, pack
from uncork.types import Array, ElementType

#: Elements that are worked on at a time, in f64.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Codes:
    """A table as it will be stored: `codes` in the carrier type, or for u4 as packed bytes.

    Zero points and scales are f32 [rows].
    """

    element_type: ElementType
    codes: Array
    zero_point: Array | None
    scale: Array | None
    #: The largest difference of an element, and the root of the mean square of all.
    max_error: float
    rms_error: float


def as_codes(table: Array, element_type: ElementType, target: ElementType) -> Codes:
    """A table [rows, d...] of floats (carriers of `element_type`) as u8, u4 or f16.

    Raises ValidationError for values that have no such form: NaN, infinity, and for f16 what is
    beyond its range.
    """
    rows = len(table)
    values = table.reshape(rows, -1)
    columns = values.shape[1]
    codes = np.empty((rows, columns), np.float16 if target is ElementType.f16 else np.uint8)
    zero_point, scale = np.empty((2, rows), np.float32)
    # Blocks of whole bytes of packed values: an even number of rows.
    step = max(2, _BLOCK // columns // 2 * 2)
    packed: list[Array] = []
    most, squares = 0.0, 0.0
    for start in range(0, rows, step):
        part = slice(start, start + step)
        block = decode(values[part], element_type).astype(np.float64)
        _check_finite(block, start)
        if target is ElementType.f16:
            stored = _as_f16(block, start)
            back = stored.astype(np.float64)
        else:
            levels = (1 << target.bits) - 1
            stored, zero_point[part], scale[part] = quantized(block, levels)
            back = dequantized(stored, zero_point[part], scale[part]).astype(np.float64)
        difference = np.abs(back - block)
        most, squares = (
            max(most, float(difference.max(initial=0.0))),
            squares + float(np.square(difference).sum()),
        )
        if target.is_packed:
            packed.append(np.frombuffer(pack(stored, target), np.uint8))
        else:
            codes[part] = stored
    rms = float(np.sqrt(squares / max(1, values.size)))
    if target is ElementType.f16:
        return Codes(target, codes.reshape(table.shape), None, None, most, rms)
    result = np.concatenate(packed) if target.is_packed else codes.reshape(table.shape)
    return Codes(target, result, zero_point, scale, most, rms)


def quantized(rows: Array, levels: int) -> tuple[Array, Array, Array]:
    """Codes u8 [n, columns], zero points and scales f32 [n] of finite rows f64 [n, columns]."""
    low, high = rows.min(axis=1), rows.max(axis=1)
    scale = ((high - low) / levels).astype(np.float32)
    flat = scale == 0  # a row of one value: code 1 times the value, or code 0
    scale = np.where(flat, np.where(low == 0, 1, low).astype(np.float32), scale)
    wide = scale.astype(np.float64)
    zero_point = np.where(flat, 0, -low / wide).astype(np.float32)
    # By the numbers as they are stored, so that their own rounding is made up for where it can be.
    codes = np.clip(
        np.rint(rows / wide[:, np.newaxis] + zero_point[:, np.newaxis].astype(np.float64)),
        0,
        levels,
    )
    return codes.astype(np.uint8), zero_point, scale


def dequantized(codes: Array, zero_point: Array, scale: Array) -> Array:
    """The values f32 [n, columns] of codes, by the steps of the layers that are written."""
    return np.asarray((codes.astype(np.float32) - zero_point[:, np.newaxis]) * scale[:, np.newaxis])


def _as_f16(block: Array, first: int) -> Array:
    with np.errstate(over="ignore"):
        stored = block.astype(np.float16)
    _refuse(~np.isfinite(stored), block, first, "a value of f16, -65504 to 65504")
    return stored


def _check_finite(block: Array, first: int) -> None:
    _refuse(~np.isfinite(block), block, first, "finite values")


def _refuse(wrong: Array, block: Array, first: int, expected: str) -> None:
    if wrong.any():
        row, column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ValidationError(
            f"row {first + int(row)}, column {int(column)} is "
            f"{block[row, column]:g}, expected {expected}"
        )
