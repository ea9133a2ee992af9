"""Rows of f32 in fewer bits, as variables that grow keep keys and values; no file has these layers.

A row is what lies along the last axis. In u8 each has a grid of its own: bytes, and behind them its
step and its least number, four bytes each.

    step  = largest / 255 - least / 255, or 0 where that is below the smallest normal number
    code  = round((number - least) * (1 / step)), ties to even, from 0 to 255; 0 where step is 0
    value = least + code * step

So a value is half a step from its number at most, but for roundings of f32. A row with a number
that is not finite, or whose largest number less the least is not, has codes of 0 and NaN for a
grid: it is NaN as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from uncork import storage
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, REAL, Field, Input, Output
from uncork.ops.convert import Convert1
from uncork.ops.state import ReadValue6
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec

#: Bytes of a step and a least number.
GRID = 8
#: The smallest normal f32; the largest code.
LEAST_STEP, _LARGEST = 2.0**-126, np.float32(255)


class RowCoding(Struct, frozen=True):
    """The type that rows of f32 are kept in: f16 or bf16, or u8 with a grid for each row."""

    element_type: ElementType

    @property
    def extra(self) -> int:
        """How many elements a row has beside its codes."""
        return GRID if self.element_type is ElementType.u8 else 0

    def coded(self, spec: TensorSpec) -> TensorSpec:
        """The spec of rows as they are kept."""
        return TensorSpec(self.element_type, _along_rows(spec.shape, lambda n: n + self.extra))

    def plain(self, spec: TensorSpec) -> TensorSpec:
        """The spec of rows of f32 that are kept so."""
        return TensorSpec(ElementType.f32, _along_rows(spec.shape, lambda n: n - self.extra))

    def encode(self, rows: Array) -> Array:
        """Rows of f32 as they are kept."""
        if not self.extra:
            return storage.encode(rows, self.element_type)
        with np.errstate(all="ignore"):
            low = rows.min(-1, keepdims=True, initial=np.inf)
            high = rows.max(-1, keepdims=True, initial=-np.inf)
            finite, step = np.isfinite(high - low), high / _LARGEST - low / _LARGEST
            step = np.where(step < LEAST_STEP, np.float32(0), step)
            inverse = np.where(finite & (step > 0), np.float32(1) / step, np.float32(0))
            codes = np.rint((rows - low) * inverse).clip(0, _LARGEST)
        codes = np.where(finite, codes, np.float32(0)).astype(np.uint8)
        grid = np.where(finite, np.concatenate([step, low], -1), np.float32(np.nan))
        grid = np.ascontiguousarray(grid, np.float32)
        return np.concatenate([codes, grid.view(np.uint8)], -1)

    def decode(self, kept: Array) -> Array:
        """The numbers of rows that are kept."""
        if not self.extra:
            return np.asarray(storage.decode(kept, self.element_type), np.float32)
        grid = np.ascontiguousarray(kept[..., -GRID:]).view(np.float32)
        with np.errstate(all="ignore"):
            rows = grid[..., 1:] + kept[..., :-GRID].astype(np.float32) * grid[..., :1]
        return np.asarray(rows, np.float32)

    def encoder(self) -> Operation:
        """The layer that makes rows as they are kept."""
        return EncodedRows(self) if self.extra else Convert1(destination_type=self.element_type)

    def decoder(self) -> Operation:
        """The layer that makes f32 of such rows."""
        return DecodedRows(self) if self.extra else Convert1(destination_type=ElementType.f32)


class _OfRows(Operation):
    """An operation of rows that are kept so."""

    output = Output()

    coding = Field[RowCoding]()


class EncodedRows(_OfRows):
    """Rows of f32 as they are kept."""

    data = Input(frozenset({ElementType.f32}))

    def infer(self, data: TensorSpec) -> TensorSpec:
        return self.coding.coded(data)

    def reference(self, data: Array) -> Array:
        return self.coding.encode(data)


class DecodedRows(_OfRows):
    """The f32 of rows as they are kept."""

    data = Input(REAL | frozenset({ElementType.u8}))

    def infer(self, data: TensorSpec) -> TensorSpec:
        return self.coding.plain(data)

    def reference(self, data: Array) -> Array:
        return self.coding.decode(data)


class CodedRead(ReadValue6):
    """ReadValue of a variable whose rows are kept so; whoever asks for its value sees f32."""

    init_value = Input(ANY, optional=True, moved=True)
    output = Output()

    coding = Field[RowCoding]()


def _along_rows(shape: PartialShape, length: Callable[[Dimension], Dimension]) -> PartialShape:
    """The shape with rows of another length."""
    if not shape.rank:
        return shape
    return PartialShape([*shape.dims[:-1], length(shape.dims[-1])])


#: What numbers of fewer bits are f32 of by themselves.
_HALVES = (ElementType.f16, ElementType.bf16)


def coding_of(operation: Operation | None, data: TensorSpec) -> RowCoding | None:
    """How the input of a layer that makes f32 of rows lies; None for other layers."""
    if isinstance(operation, DecodedRows):
        return operation.coding
    if (
        isinstance(operation, Convert1)
        and operation.destination_type is ElementType.f32
        and data.element_type in _HALVES
    ):
        return RowCoding(data.element_type)
    return None
