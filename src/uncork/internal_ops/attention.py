"""Attention over tensors as they lie, as one operation; no file has it. Its meaning is ScaledDotProductAttention behind the moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import BOOLEAN, REAL, Field, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


@dataclass(frozen=True, slots=True)
class Transposed:
    """Axes in another order, as NumPy's transpose has it."""

    order: tuple[int, ...]

    def array(self, data: Array) -> Array:
        return np.asarray(data.transpose(self.order))

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape([shape[axis] for axis in self.order])


@dataclass(frozen=True, slots=True)
class Repeated:
    """Every element of an axis so many times, one after the other, as NumPy's repeat has it."""

    axis: int
    count: int

    def array(self, data: Array) -> Array:
        return np.repeat(data, self.count, self.axis)

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape([dim * self.count if axis == self.axis else dim for axis, dim in enumerate(shape)])


@dataclass(frozen=True, slots=True)
class Taken:
    """One element of an axis, which is then no axis any more."""

    axis: int
    index: int

    def array(self, data: Array) -> Array:
        return np.asarray(np.take(data, self.index, self.axis))

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape([dim for axis, dim in enumerate(shape) if axis != self.axis])


Move = Union[Transposed, Repeated, Taken]


def _moved_spec(spec: TensorSpec, moves: Sequence[Move]) -> TensorSpec:
    if spec.rank is None:
        return spec
    shape = spec.shape
    for move in moves:
        shape = move.shape(shape)
    return TensorSpec(spec.element_type, shape)


class FusedAttention(Operation):
    """Attention over moved tensors: `moves` of query, key and value, in order; the result's axes in `order`.

    `factor` is the scale where it is no input.
    """

    multiplies = True
    type_name, opset = "FusedAttention", 0
    query = Input(REAL, "T")
    key = Input(REAL, "T")
    value = Input(REAL, "T")
    attention_mask = Input(REAL | BOOLEAN, optional=True)
    scale = Input(REAL, "T", optional=True)
    sink = Input(REAL, "T", optional=True)
    output = Output("T")

    attention = Field[Operation]()
    moves = Field[tuple[tuple[Move, ...], ...]]()
    order = Field[tuple[int, ...]]()
    factor = Field[float | None]()

    def __init__(
        self, attention: Operation, moves: Sequence[Sequence[Move]] = ((), (), ()), order: Sequence[int] = (), factor: float | None = None
    ) -> None:
        super().__init__(attention=attention, moves=tuple(map(tuple, moves)), order=tuple(order), factor=factor)

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attention_mask: TensorSpec | None,
        scale: TensorSpec | None,
        sink: TensorSpec | None,
    ) -> PartialShape:
        moved = [_moved_spec(spec, moves) for spec, moves in zip((query, key, value), self.moves)]
        shape = self.attention.describe([*moved, attention_mask, scale, sink])[0].shape
        return Transposed(self.order).shape(shape) if self.order and shape.rank is not None else shape

    def reference(self, query: Array, key: Array, value: Array, attention_mask: Array | None, scale: Array | None, sink: Array | None) -> Array:
        moved = []
        for data, moves in zip((query, key, value), self.moves):
            for move in moves:
                data = move.array(data)
            moved.append(data)
        if self.factor is not None:
            scale = np.array(self.factor, query.dtype)
        result = np.asarray(self.attention.reference(*moved, attention_mask, scale, sink))
        return result.transpose(self.order) if self.order else result
