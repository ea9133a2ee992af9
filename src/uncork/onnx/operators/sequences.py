"""Sequences and optionals: they are names for tensors, and no layer makes them. Those that a loop
fills are the rows of a tensor.
"""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.lower import Scope
from uncork.onnx.registry import Added, Rows, Value, lowering
from uncork.types import ElementType

T = ElementType


def _place(call: Call, position: int, count: int, most: int) -> int:
    place = call.known(position, f"input {position} (position)")[0]
    ValidationError.when(
        not -count <= place <= most, f"position {place} is outside a sequence of {count}"
    )
    return place + count if place < 0 else place


@lowering("SequenceConstruct")
def _construct(g: Graph, call: Call) -> Value:
    return list(call.values)


@lowering("SequenceEmpty")
def _empty(g: Graph, call: Call) -> Value:
    return []


@lowering("SequenceAt")
def _at(g: Graph, call: Call) -> Value:
    if isinstance(rows := call.values[0], Rows):
        place = g.reshape(call[1], [])
        return g.gather(rows.tensor, place, 0)
    values = call.sequence(0)
    return values[_place(call, 1, len(values), len(values) - 1)]


@lowering("SequenceInsert")
def _insert(g: Graph, call: Call) -> Value:
    if isinstance(added := call.values[0], Added) and not call.has(2):
        return Added((*added.tensors, call[1]))
    values = list(call.sequence(0))
    place = _place(call, 2, len(values), len(values)) if call.has(2) else len(values)
    values.insert(place, call[1])
    return values


@lowering("SequenceErase")
def _erase(g: Graph, call: Call) -> Value:
    values = list(call.sequence(0))
    ValidationError.when(not values, "the sequence is empty: there is nothing to erase")
    del values[_place(call, 1, len(values), len(values) - 1) if call.has(1) else -1]
    return values


@lowering("SequenceLength")
def _length(g: Graph, call: Call) -> Source:
    if isinstance(rows := call.values[0], Rows):
        return g.reshape(g.size_of(rows.tensor, 0), [])
    return g.i64(len(call.sequence(0)))


@lowering("ConcatFromSequence")
def _concat(g: Graph, call: Call) -> Source:
    if isinstance(rows := call.values[0], Rows):
        return _joined(g, call, rows.tensor)
    values = [v for v in call.sequence(0) if isinstance(v, Source)]
    ValidationError.when(not values, "the sequence is empty: there is nothing to join")
    axis = call.integer("axis")
    if call.integer("new_axis"):
        axis = call.place(axis, g.rank(values[0]) + 1)
        values = [g.unsqueeze(v, axis) for v in values]
    return g.concat(values, axis)


def _joined(g: Graph, call: Call, rows: Source) -> Source:
    """The rows of a tensor along a new axis, or one behind the other along one that they have."""
    rank = g.rank(rows)
    is_new = bool(call.integer("new_axis"))
    axis = call.place(call.integer("axis"), rank if is_new else rank - 1)
    sizes = [-1 if d == axis + 1 else g.dim(rows, d) for d in range(1, rank)]
    rows = g.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    return rows if is_new else g.shaped(rows, *sizes)


@lowering("SplitToSequence")
def _split(g: Graph, call: Call, data: Source, split: Source | None = None) -> Value:
    axis = call.axis(g.rank(data))
    size = g.sizes(data)[axis]
    keep = bool(call.integer("keepdims", 1))
    if split is not None:
        keep, lengths = True, call.known(1, "input 1 (split)")
        if g.spec(split).rank == 0:
            if size is None or lengths[0] < 1:
                raise call.refuse("a split of an open axis", "export the model with its size")
            part = lengths[0]
            lengths = [min(part, size - start) for start in range(0, size, part)]
    else:
        if size is None:
            raise call.refuse("a split of an open axis", "export the model with its size")
        lengths = [1] * size
    parts = g.split(data, lengths, axis)
    return list(parts) if keep else [g.squeeze(part, axis) for part in parts]


@lowering("SequenceMap")
def _map(g: Graph, call: Call) -> tuple[Value, ...]:
    proto = call.need("body")
    lowerer = call.scope.lowerer
    rows = []
    for i, value in enumerate(call.sequence(0)):
        scope = Scope(lowerer, g, call.scope)
        scope.prefix = f"{call.name}/{i}/"
        given = [value, *(v[i] if isinstance(v, list) else v for v in call.values[1:])]
        scope.values.update(zip((p.name for p in proto.input), given, strict=True))
        rows.append(lowerer.graph(scope, proto))
    return tuple([row[k] for row in rows] for k in range(len(proto.output)))


@lowering("Optional")
def _optional(g: Graph, call: Call) -> Value:
    return call.values[0] if call.count else None


@lowering("OptionalHasElement")
def _has_element(g: Graph, call: Call) -> Source:
    there = bool(call.count) and call.values[0] is not None
    return g.constant(np.array(there), T.boolean)


@lowering("OptionalGetElement")
def _get_element(g: Graph, call: Call) -> Value:
    ValidationError.when(
        not call.count or call.values[0] is None, "the optional is empty: there is nothing to get"
    )
    return call.values[0]
