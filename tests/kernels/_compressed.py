"""Matrices as they are stored, of every type, for tests of the kernels that multiply with them."""

from __future__ import annotations

import numpy as np

from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.types import ElementType

_CODES = {"i8": (-128, 128), "u8": (0, 256), "i4": (-8, 8), "u4": (0, 16)}


def matrix(
    generator: np.random.Generator,
    stored: str,
    columns: int,
    inner: int,
    group: int = 0,
    zeros: str = "",
    scales: bool = True,
    half: bool = False,
    tiny: bool = False,
) -> CompressedMatrix:
    """`zeros` may be "whole" or "broken" numbers, or "small" ones, which are held as u8, with
    scales that are held as f16; with `half` they and the scales are numbers of
    f16, with `tiny` ones it hardly has. "book" and "wide book" are numbers of a table, in four bits
    and in eight; "small book" and "large book" of one whose numbers are whole ones of a unit, of
    one byte and of two.
    """
    book = "book" in stored
    whole = {"small book": 127, "large book": 32767}.get(stored, 0)
    stored = "u8" if stored == "wide book" else "u4" if book else stored
    element_type = ElementType.parse(stored)
    shape = (columns, inner // group if group else 1, group or inner)
    if stored in _CODES:
        codes = generator.integers(*((0, 16) if book else _CODES[stored]), shape).astype(
            element_type.dtype
        )
    else:
        codes = storage.encode(generator.standard_normal(shape), element_type)
    # One for all columns, or one for each.
    some = (1 if columns % 3 == 0 else columns, shape[1])
    zero_points = generator.integers(-3, 9, some) + (0.3 if zeros == "broken" else 0)
    scale = generator.uniform(0.001, 0.011, some) * (2.0**-10 if tiny else 1)
    if zeros == "small":
        zero_points = generator.integers(0, 16, some).astype(np.uint8)
        scale = scale.astype(np.float16)
    if half and zeros != "small":
        zero_points, scale = zero_points.astype(np.float16), scale.astype(np.float16)
    given = [zero_points, scale]
    if zeros != "small":
        given = [array.astype(np.float32) for array in given]
    numbers = generator.uniform(-1, 1, 16).astype(np.float16 if half else np.float32)
    if whole:
        numbers = np.array([-whole, whole, *generator.integers(-whole, whole, 14)]) / 1024
    return CompressedMatrix(
        element_type,
        codes,
        (0, 1, 2),
        given[0] if zeros else None,
        given[1] if scales else None,
        half,
        numbers=numbers.astype(np.float32) if book else None,
    )
