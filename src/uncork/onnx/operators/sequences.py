"""Sequences and optionals: they are names for tensors, and no layer makes them. Those that a loop
fills are the rows of a tensor.
"""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.lower import Failed, Scope
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
def _construct(call: Call) -> Value:
    return list(call.values)


@lowering("SequenceEmpty")
def _empty(call: Call) -> Value:
    return []


@lowering("SequenceAt")
def _at(call: Call) -> Value:
    if isinstance(rows := call.values[0], Rows):
        place = call.graph.reshape(call[1], [])
        return call.graph.gather(rows.tensor, place, 0)
    values = call.sequence(0)
    return values[_place(call, 1, len(values), len(values) - 1)]


@lowering("SequenceInsert")
def _insert(call: Call) -> Value:
    if isinstance(added := call.values[0], Added) and not call.has(2):
        return Added((*added.tensors, call[1]))
    values = list(call.sequence(0))
    place = _place(call, 2, len(values), len(values)) if call.has(2) else len(values)
    values.insert(place, call[1])
    return values


@lowering("SequenceErase")
def _erase(call: Call) -> Value:
    values = list(call.sequence(0))
    ValidationError.when(not values, "the sequence is empty: there is nothing to erase")
    del values[_place(call, 1, len(values), len(values) - 1) if call.has(1) else -1]
    return values


@lowering("SequenceLength")
def _length(call: Call) -> Source:
    if isinstance(rows := call.values[0], Rows):
        return call.graph.reshape(call.graph.size_of(rows.tensor, 0), [])
    return call.graph.i64(len(call.sequence(0)))


@lowering("ConcatFromSequence")
def _concat(call: Call) -> Source:
    graph = call.graph
    if isinstance(rows := call.values[0], Rows):
        return _joined(call, rows.tensor)
    values = [v for v in call.sequence(0) if isinstance(v, Source)]
    ValidationError.when(not values, "the sequence is empty: there is nothing to join")
    axis = call.integer("axis")
    if call.integer("new_axis"):
        axis = call.place(axis, graph.rank(values[0]) + 1)
        values = [graph.unsqueeze(v, axis) for v in values]
    return graph.concat(values, axis)


def _joined(call: Call, rows: Source) -> Source:
    """The rows of a tensor along a new axis, or one behind the other along one that they have."""
    graph, rank = call.graph, call.graph.rank(rows)
    is_new = bool(call.integer("new_axis"))
    axis = call.place(call.integer("axis"), rank if is_new else rank - 1)
    sizes = [-1 if d == axis + 1 else graph.dim(rows, d) for d in range(1, rank)]
    rows = graph.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    return rows if is_new else graph.shaped(rows, *sizes)


@lowering("SplitToSequence")
def _split(call: Call) -> Value:
    graph, data = call.graph, call[0]
    axis = call.axis(graph.rank(data))
    size = graph.sizes(data)[axis]
    keep = bool(call.integer("keepdims", 1))
    if call.has(1):
        keep, lengths = True, call.known(1, "input 1 (split)")
        if graph.spec(call[1]).rank == 0:
            if size is None or lengths[0] < 1:
                raise call.refuse("a split of an open axis", "export the model with its size")
            part = lengths[0]
            lengths = [min(part, size - start) for start in range(0, size, part)]
    else:
        if size is None:
            raise call.refuse("a split of an open axis", "export the model with its size")
        lengths = [1] * size
    parts = graph.split(data, lengths, axis)
    return list(parts) if keep else [graph.squeeze(part, axis) for part in parts]


@lowering("SequenceMap")
def _map(call: Call) -> tuple[Value, ...]:
    proto = call.need("body")
    lowerer = call.scope.lowerer
    rows = []
    for i, value in enumerate(call.sequence(0)):
        scope = Scope(lowerer, call.graph, call.scope)
        scope.prefix = f"{call.name}/{i}/"
        given = [value, *(v[i] if isinstance(v, list) else v for v in call.values[1:])]
        scope.values.update(zip((p.name for p in proto.input), given, strict=True))
        before = len(lowerer.problems) + len(lowerer.unsupported)
        rows.append(lowerer.graph(scope, proto))
        if len(lowerer.problems) + len(lowerer.unsupported) > before:
            raise Failed
    return tuple([row[k] for row in rows] for k in range(len(proto.output)))


@lowering("Optional")
def _optional(call: Call) -> Value:
    return call.values[0] if call.count else None


@lowering("OptionalHasElement")
def _has_element(call: Call) -> Source:
    there = bool(call.count) and call.values[0] is not None
    return call.graph.constant(np.array(there), T.boolean)


@lowering("OptionalGetElement")
def _get_element(call: Call) -> Value:
    ValidationError.when(
        not call.count or call.values[0] is None, "the optional is empty: there is nothing to get"
    )
    return call.values[0]
