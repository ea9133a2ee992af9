"""Layers that make the matrix of a product of weights stored in few bits, as converters write
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork import Builder
from uncork.ir.model import Source
from uncork.storage import code_book, encode
from uncork.types import Array, ElementType

#: The least code and one more than the largest, by type; and where zero points lie about.
_CODES = {
    **{"i8": (-128, 128, 0), "u8": (0, 256, 128), "i4": (-8, 8, 0), "u4": (0, 16, 8)},
    **{"u6": (0, 64, 32), "u3": (0, 8, 4), "u2": (0, 4, 2)},
}
#: Codes of 4 bits that stand for numbers of a table: NNCF's CB4.
_CB4 = (
    *(-3.5, -2.5, -1.875, -1.375, -1.0, -0.625, -0.3125, 0.0),
    *(0.28125, 0.5625, 0.875, 1.125, 1.5, 2.0, 2.5, 3.5),
)
_BOOK, _OF_BOOK = "cb4", ElementType.parse("f8e4m3")
_GROUP = 128


@dataclass(frozen=True)
class Form:
    """How a matrix is stored: the type of its codes, how many of a column share a scale (0: all),
    and the type in which the layers that decompress it compute. Types without a sign have zero
    points.
    """

    stored: str
    group: int = 0
    computed: str = "f16"

    @property
    def name(self) -> str:
        return f"{self.stored}, groups of {self.group}" if self.group else f"{self.stored}, columns"

    def _from_book(self, builder: Builder, shape: tuple[int, ...], seed: int) -> Source:
        """Numbers of a table of f8e4m3 by codes of 4 bits."""
        generator = np.random.default_rng(seed)
        book = encode(np.array(_CB4, np.float32), _OF_BOOK)
        codes = builder.constant(generator.integers(0, 16, shape).astype(np.uint8), "u4")
        (places,) = builder.add("Convert", 1, codes, destination_type="u8")
        (table,) = self._convert(builder, builder.constant(book, _OF_BOOK.name))
        return builder.add("Gather", 8, table, places, builder.constant(np.int64(0)))[0]

    def matrix(self, builder: Builder, inner: int, columns: int, seed: int = 0) -> Source:
        """The layers that make `[columns, inner]` in f32."""
        generator = np.random.default_rng([seed, inner, columns])
        group = self.group or inner
        shape = (columns, inner // group, group) if self.group else (columns, inner)
        one = (*shape[:-1], 1)
        low, high, middle = _CODES.get(self.stored, (0, 16, 0))
        if self.stored in _CODES:
            codes = generator.integers(low, high, shape).astype(np.int8 if low < 0 else np.uint8)
            reach = float(high - low)
            (matrix,) = self._convert(builder, builder.constant(codes, self.stored))
        elif self.stored == _BOOK:
            reach = 8.0
            matrix = self._from_book(builder, shape, seed)
        else:
            element_type = ElementType.parse(self.stored)
            book = np.sort(code_book(element_type)[np.isfinite(code_book(element_type))])
            reach = 4.0 * float(np.sqrt(np.mean(np.minimum(abs(book), 1.0) ** 2)))
            codes = encode(generator.uniform(-1, 1, shape).astype(np.float32), element_type)
            (matrix,) = self._convert(builder, builder.constant(codes, self.stored))
        if middle:
            zeros = generator.integers(middle - 2, middle + 2, one).astype(codes.dtype)
            (zero,) = self._convert(builder, builder.constant(zeros, self.stored))
            (matrix,) = builder.add("Subtract", 1, matrix, zero)
        scale = generator.uniform(0.5, 1, one) * 4 / reach / np.sqrt(inner)
        kind = np.float16 if self.computed == "f16" else np.float32
        (matrix,) = builder.add("Multiply", 1, matrix, builder.constant(scale.astype(kind)))
        if self.group:
            whole = builder.constant(np.array([columns, inner]))
            (matrix,) = builder.add("Reshape", 1, matrix, whole, special_zero=False)
        if self.computed == "f16":
            (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
        return matrix

    def _convert(self, builder: Builder, constant: Source) -> tuple[Source, ...]:
        return tuple(builder.add("Convert", 1, constant, destination_type=self.computed))


def product(
    builder: Builder, x: Sequence[Source], stored: str, inner: int, columns: int, computed: str
) -> Source:
    """A product whose matrix is decompressed in f32 or f16: 4 bits in groups, 8 by columns."""
    if stored in _CODES:
        form = Form(stored, _GROUP if stored.endswith("4") else 0, computed)
        matrix = form.matrix(builder, inner, columns)
    else:
        generator = np.random.default_rng(inner + columns)
        numbers: Array = (generator.standard_normal((columns, inner)) * 0.1).astype(np.float16)
        matrix = builder.constant(numbers)
        (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
    return builder.add("MatMul", 1, *x, matrix, transpose_b=True)[0]
