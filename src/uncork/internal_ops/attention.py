"""Attention over tensors as they lie, as one operation; no file has it. Its meaning is
ScaledDotProductAttention behind the moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar, Union

import numpy as np
from msgspec import Struct

from uncork.internal_ops.coded_rows import RowCoding
from uncork.ops._common.vectors import size
from uncork.ops._operation import Operation
from uncork.ops._ports import BOOLEAN, I32_I64, REAL, Field, Input, Output
from uncork.ops.attention import ScaledDotProductAttention
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


class Transposed(Struct, frozen=True):
    """A move: the axes in another order, as NumPy's transpose has it."""

    order: tuple[int, ...]

    def array(self, data: Array) -> Array:
        return np.asarray(data.transpose(self.order))

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape([shape[axis] for axis in self.order])


class Repeated(Struct, frozen=True):
    """A move: every element of an axis repeated in place, as NumPy's repeat has it."""

    axis: int
    count: int

    def array(self, data: Array) -> Array:
        return np.repeat(data, self.count, self.axis)

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape(
            [dim * self.count if axis == self.axis else dim for axis, dim in enumerate(shape)]
        )


class Taken(Struct, frozen=True):
    """A move: one element of an axis is taken, and the axis is removed."""

    axis: int
    index: int

    def array(self, data: Array) -> Array:
        return np.asarray(np.take(data, self.index, self.axis))

    def shape(self, shape: PartialShape) -> PartialShape:
        return PartialShape([dim for axis, dim in enumerate(shape) if axis != self.axis])


Move = Union[Transposed, Repeated, Taken]


class Scoring(Struct, frozen=True):
    """What is done to the products of queries and keys: the factor where it is no input; with a
    `cap` they are `cap * tanh(score)` before the mask; where a mask of truths does not hold, they
    are `hidden`.
    """

    factor: float | None = None
    cap: float | None = None
    hidden: float = -math.inf


#: The inputs of attention.
_INPUTS = ("query", "key", "value", "mask", "scale", "sink")
#: Types of keys and values, which may be codes.
_KEPT = REAL | frozenset({ElementType.u8})
Given = TypeVar("Given")


def _moved_spec(spec: TensorSpec, moves: Sequence[Move]) -> TensorSpec:
    if spec.rank is None:
        return spec
    shape = spec.shape
    for move in moves:
        shape = move.shape(shape)
    return TensorSpec(spec.element_type, shape)


class FusedAttention(Operation):
    """Attention over moved tensors: `moves` of query, key and value, in order; the result's axes in
    `order`.

    Of keys and values there may be only the first elements along an axis (`counted`), before all
    moves: how many, say inputs behind those of the attention. With a `coding` their rows lie in
    fewer bits, and are f32 before all moves. A mask that `recurs` has as many axes as the scores,
    and fewer elements along the first one, which are those of the first batches, and again of those
    behind them: windows of one picture after the other.
    """

    multiplies = True
    query = Input(REAL, "T")
    key = Input(_KEPT, "K")
    value = Input(_KEPT, "K")
    others = Input(REAL | BOOLEAN | I32_I64, optional=True, variadic=True)
    output = Output("T")

    attention = Field[Operation]()
    moves = Field[tuple[tuple[Move, ...], ...]]()
    order = Field[tuple[int, ...]]()
    scoring = Field[Scoring](default=Scoring())
    #: The axis of keys, and of values, along which a count tells how many are there; None: all are.
    counted = Field[dict[str, int | None]]()
    coding = Field[RowCoding | None]()
    recurs = Field[bool](default=False)

    def __init__(
        self,
        attention: Operation,
        moves: Sequence[Sequence[Move]] = ((), (), ()),
        order: Sequence[int] = (),
        scoring: Scoring | None = None,
        counted: tuple[int | None, int | None] = (None, None),
        coding: RowCoding | None = None,
        recurs: bool = False,
    ) -> None:
        super().__init__(
            attention=attention,
            moves=tuple(map(tuple, moves)),
            order=tuple(order),
            scoring=scoring or Scoring(),
            counted=dict(zip(("key", "value"), counted, strict=True)),
            coding=coding,
            recurs=recurs,
        )

    def named(self, inputs: Sequence[Given | None]) -> dict[str, Given | None]:
        """The inputs by name: those of the attention, "key_count" and "value_count"; None where
        there is none.
        """
        given = [item for item in inputs if item is not None]
        counts = [f"{name}_count" for name, axis in self.counted.items() if axis is not None]
        own = len(given) - len(counts)
        return {
            **dict.fromkeys(_INPUTS),
            **dict(zip(_INPUTS, given[:own], strict=False)),
            **dict(zip(counts, given[own:], strict=True)),
        }

    def infer(
        self, query: TensorSpec, key: TensorSpec, value: TensorSpec, *others: TensorSpec | None
    ) -> PartialShape:
        given = self.named([query, key, value, *others])
        moved = [spec for _, spec in self.lying_and_moved([query, key, value, *others])]
        if self.recurs and (mask := given["mask"]) is not None and moved[0].rank and mask.rank:
            first = moved[0].shape[0]
            given["mask"] = TensorSpec(
                mask.element_type, PartialShape([first, *list(mask.shape)[1:]])
            )
        shape = self.attention.describe([*moved, *(given[name] for name in _INPUTS[3:])])[0].shape
        return (
            Transposed(self.order).shape(shape) if self.order and shape.rank is not None else shape
        )

    def lying_and_moved(
        self, inputs: Sequence[TensorSpec | None]
    ) -> list[tuple[TensorSpec, TensorSpec]]:
        """The specs of query, key and value: each as it lies in memory, and as the attention sees
        it after the moves.
        """
        given = self.named(inputs)
        lying = [self._first_of(given, name) for name in _INPUTS[:3]]
        coding = self.coding
        plain = [
            spec if coding is None or name == "query" else coding.plain(spec)
            for name, spec in zip(_INPUTS, lying, strict=False)
        ]
        return [
            (spec, _moved_spec(numbers, moves))
            for spec, numbers, moves in zip(lying, plain, self.moves, strict=True)
        ]

    def _first_of(self, given: dict[str, TensorSpec | None], name: str) -> TensorSpec:
        """The spec of an input, with its counted axis cut to the count where it has one."""
        spec, count, axis = given[name], given.get(f"{name}_count"), self.counted.get(name)
        assert spec is not None
        if axis is None or count is None or spec.rank is None:
            return spec
        counted = Dimension.of(size(self, f"{name}_count", count))
        return TensorSpec(spec.element_type, spec.shape.with_dimension(axis, counted))

    def reference(self, query: Array, key: Array, value: Array, *others: Array | None) -> Array:
        given = self.named([query, key, value, *others])
        arrays: list[Array | None] = []
        for name, moves in zip(_INPUTS, self.moves, strict=False):
            data, count, axis = given[name], given.get(f"{name}_count"), self.counted.get(name)
            assert data is not None
            if count is not None and axis is not None:
                data = data[(slice(None),) * axis + (slice(int(count[0])),)]
            if self.coding is not None and self.coding.extra and name != "query":
                data = self.coding.decode(data)  # halves come as f32
            for move in moves:
                data = move.array(data)
            arrays.append(data)
        mask, rows = given["mask"], arrays[0]
        if self.recurs and mask is not None and rows is not None:
            given["mask"] = mask[np.arange(len(rows)) % len(mask)]
        arrays += [given[name] for name in _INPUTS[3:]]
        if self.scoring.factor is not None:
            arrays[4] = np.array(self.scoring.factor, query.dtype)
        result = self._attended(arrays)
        return result.transpose(self.order) if self.order else result

    def _attended(self, arrays: Sequence[Array | None]) -> Array:
        """The attention of tensors behind all moves."""
        query, key, value, mask, scale, sink = arrays
        attention, (cap, hidden) = self.attention, (self.scoring.cap, self.scoring.hidden)
        if cap is None and hidden == -math.inf:
            return np.asarray(attention.reference(*arrays))
        assert isinstance(attention, ScaledDotProductAttention) and query is not None
        assert key is not None and value is not None
        scores = attention.logits(query, key, scale)
        if cap is not None:
            scores = np.tanh(scores) * query.dtype.type(cap)
        if mask is not None and mask.dtype == bool:
            scores, mask = np.where(mask, scores, query.dtype.type(hidden)), None
        return attention.weighed(scores, value, mask, sink)
