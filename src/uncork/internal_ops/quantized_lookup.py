"""Internal operations: look-ups in a table that is stored in few bits.

Passes make them of a look-up whose table other layers compute from small numbers.

    Const (u8, i8, u4, i4, f16, bf16, f8e4m3, f8e5m2) -> Convert, or a table of numbers
        -> Subtract (zero points) -> Multiply (scales) -> Reshape -> Convert -> the look-up

Every element of such a table depends on one number of the constant, and one of each zero points
and scales, so the table is never made: a look-up computes the rows that it reads. The meaning is
that of the layers one after the other, each result rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

from uncork.concurrency import lazy
from uncork.internal_ops.bit_planes import BIT_PLANES
from uncork.internal_ops.decompression import Step, numbers_of
from uncork.ops._operation import Operation
from uncork.ops._ports import Field
from uncork.storage import decode
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class CompressedTable(Struct, frozen=True, eq=False, dict=True):
    """A table of f32 [rows, d...] as it is stored: `(codes - zero_point) * scale`, each step in
    f32, or rounded to f16 with `half`; then the steps that are `later`.

    `codes` are carrier values in the table's shape, or with `packed` the bytes of `model.bin`:
    4-bit values, two a byte, the first in the low bits; or (`planes`) a row of bit planes for each
    row. `zero_point` and `scale` are [rows] or [1],
    of f32 or of a type (u8, f16, `POWERS`) that holds the same numbers in fewer bytes; None where
    the chain has no such step. A row is made of `groups` parts of one length, one after the other,
    with operands of their own of later steps. `numbers` f32 [16 or more] are what codes stand for,
    where that is not themselves.
    """

    element_type: ElementType
    shape: tuple[int, ...]
    codes: Array
    zero_point: Array | None = None
    scale: Array | None = None
    half: bool = False
    packed: bool = False
    groups: int = 1
    numbers: Array | None = None
    later: tuple[Step, ...] = ()
    planes: bool = False

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])

    @property
    def read_as(self) -> ElementType:
        """The type of the codes that kernels compute with."""
        return BIT_PLANES[self.element_type].wide if self.planes else self.element_type

    @lazy
    def parameters(self) -> Array | None:
        """The zero points and scales beside each other, f32 [rows, 2], or [1, 2] for all: both in
        one cache line; [.., 1] where there are only the ones. None without both.
        """
        given = [p for p in (self.zero_point, self.scale) if p is not None]
        if not given:
            return None
        if len(given) == 1:
            return numbers_of(given[0]).reshape(-1, 1)
        pairs = np.empty((max(len(p) for p in given), 2), np.float32)
        for column, parameter in enumerate(given):
            pairs[:, column] = numbers_of(parameter)
        return pairs

    def rows(self, ids: Array) -> Array:
        """The rows `ids` [n], which are in range, as f32 [n, columns]."""
        codes = self._codes(ids)
        if self.numbers is None:
            values = decode(codes, self.element_type).astype(np.float32)
        else:
            values = self.numbers[codes]
        if self.zero_point is not None:
            values = self._rounded(values - self._of_rows(self.zero_point, ids))
        if self.scale is not None:
            values = self._rounded(values * self._of_rows(self.scale, ids))
        for step in self.later:
            chosen = step.operand if len(step.operand) == 1 else step.operand[ids]
            if chosen.shape[1] > 1:
                chosen = np.repeat(chosen, self.columns // self.groups, axis=1)
            values = step.applied(values, chosen)
        return values

    def _codes(self, ids: Array) -> Array:
        if self.planes:
            return BIT_PLANES[self.element_type].unpacked(self.codes[ids], self.columns)
        if not self.packed:
            return np.asarray(self.codes.reshape(self.shape[0], self.columns)[ids])
        places = ids[:, np.newaxis] * self.columns + np.arange(self.columns)
        codes: Array = (self.codes[places >> 1] >> (places & 1).astype(np.uint8) * 4) & np.uint8(15)
        return (
            np.asarray((codes.astype(np.int8) ^ 8) - np.int8(8))
            if self.element_type is ElementType.i4
            else codes
        )

    def _of_rows(self, parameter: Array, ids: Array) -> Array:
        """Zero points or scales for the rows looked up, to go with [n, columns]."""
        chosen = parameter if len(parameter) == 1 else parameter[ids]
        return numbers_of(chosen)[:, np.newaxis]

    def _rounded(self, values: Array) -> Array:
        return values.astype(np.float16).astype(np.float32) if self.half else values


class _Rows:
    """A compressed table as references index one: as much of an array as look-ups use, with rows
    computed when they are read.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, table: CompressedTable, shape: tuple[int, ...]) -> None:
        self.table, self.shape, self.ndim = table, shape, len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: int) -> _Rows:
        return _Rows(self.table, shape)

    def __getitem__(self, ids: Any) -> Any:
        """One row for a number, rows for an array of numbers, the table for `(...,)`."""
        if isinstance(ids, tuple):
            return self
        numbers = np.asarray(ids)
        return self.table.rows(numbers.reshape(-1).astype(np.int64)).reshape(
            numbers.shape + self.shape[1:]
        )

    def take(self, ids: Array, axis: int) -> Any:
        assert axis == 0, "tables are looked up by rows"
        return self[ids]


class CompressedLookup(Operation):
    """`lookup` with its first input, the table, given as it is stored; takes the others, in order.

    With `narrowed` indices and offsets (its first two inputs) are i64 that are first converted to
    i32: they wrap, as Convert does.
    """

    lookup = Field[Operation]()
    table = Field[CompressedTable]()
    narrowed = Field[bool]()

    def __init__(self, lookup: Operation, table: CompressedTable, narrowed: bool = False) -> None:
        super().__init__(lookup=lookup, table=table, narrowed=narrowed, strict=lookup.strict)

    def label(self) -> str:  # type: ignore[override]  # of this very look-up: plans and errors name the layer of the file
        return self.lookup.label()

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        return self.lookup.describe(
            [TensorSpec(ElementType.f32, PartialShape(self.table.shape)), *self._narrowed(specs)]
        )

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        rows = cast(Array, _Rows(self.table, self.table.shape))
        return self.lookup.evaluate(
            [
                TensorSpec.of_array(ElementType.f32, rows),
                *self._narrowed(specs),
            ]
        )

    def _narrowed(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        result = list(specs)
        for position in range(2 if self.narrowed else 0):
            spec = result[position]
            assert spec is not None, "indices and offsets are there, or nothing would be converted"
            value = None if spec.value is None else spec.value.astype(np.int32)
            result[position] = TensorSpec(ElementType.i32, spec.shape, value)
        return result


class CompressedBag(CompressedLookup):
    """Bags by offsets: `indices`, `offsets`, `default_index`, `per_sample_weights`."""

    type_name = "CompressedLookup"


class CompressedPacked(CompressedLookup):
    """Bags of one size: `indices`, `per_sample_weights`."""

    type_name = "CompressedLookup"


class CompressedSegments(CompressedLookup):
    """Segments: `indices`, `segment_ids`, `num_segments`, `default_index`, `per_sample_weights`."""

    type_name = "CompressedLookup"


class CompressedGather(CompressedLookup):
    """Gather along the first axis: `indices`, `axis`."""

    type_name = "CompressedLookup"
