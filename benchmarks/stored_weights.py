"""Layers that make the matrix of a product of weights stored in few bits, as converters write
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork import Builder
from uncork.ir.model import Source
from uncork.types import Array

#: The least code and one more than the largest, by type; and where zero points lie about.
_CODES = {"i8": (-128, 128, 0), "u8": (0, 256, 128), "i4": (-8, 8, 0), "u4": (0, 16, 8)}
_GROUP = 128


def product(
    builder: Builder, x: Sequence[Source], stored: str, inner: int, columns: int, computed: str
) -> Source:
    """A product whose matrix is decompressed in f32 or f16: 4 bits in groups, 8 by columns."""
    generator = np.random.default_rng(inner + columns)
    if stored in _CODES:
        matrix = _decompressed(builder, generator, stored, inner, columns, computed)
    else:
        numbers = (generator.standard_normal((columns, inner)) * 0.1).astype(np.float16)
        matrix = builder.constant(numbers)
        (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
    return builder.add("MatMul", 1, *x, matrix, transpose_b=True)[0]


def _decompressed(
    builder: Builder,
    generator: np.random.Generator,
    stored: str,
    inner: int,
    columns: int,
    computed: str,
) -> Source:
    low, high, middle = _CODES[stored]
    in_groups = stored.endswith("4")
    shape = (columns, inner // _GROUP, _GROUP) if in_groups else (columns, inner)
    one = (*shape[:-1], 1)

    def integers(first: int, end: int, shape: tuple[int, ...]) -> Source:
        codes: Array = generator.integers(first, end, shape).astype(
            np.int8 if low < 0 else np.uint8
        )
        constant = builder.constant(codes, stored)
        return builder.add("Convert", 1, constant, destination_type=computed)[0]

    matrix = integers(low, high, shape)
    if middle:
        zero = integers(middle - 2, middle + 2, one)
        (matrix,) = builder.add("Subtract", 1, matrix, zero)
    scale = generator.uniform(0.1, 1, one) / (high - low)
    kind = np.float16 if computed == "f16" else np.float32
    (matrix,) = builder.add("Multiply", 1, matrix, builder.constant(scale.astype(kind)))
    if in_groups:
        whole = builder.constant(np.array([columns, inner]))
        (matrix,) = builder.add("Reshape", 1, matrix, whole, special_zero=False)
    if computed == "f16":
        (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
    return matrix
