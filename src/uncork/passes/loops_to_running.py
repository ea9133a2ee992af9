"""Loops that carry nothing but a product or a sum so far become one step.

    for part in data: before = before * part; output = before

is a running product of the data along the axis that the loop cuts, and CumSum where the turn adds:
for loops that begin with 1, or 0, and put together what they carry as they have cut it. The output
may be what was carried before the turn, which leaves the element itself out.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.internal_ops.running_product import RunningProduct
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node, Source
from uncork.ops._body import Slicing, SubGraphOperation
from uncork.ops.cumsum import CumSum
from uncork.passes.match_parts import known_integers
from uncork.passes.rewrite import NewLayers

#: What is carried before the first turn, by the layer of the body.
_BEGINS = {"Add": 0, "Multiply": 1}


class _Running(Struct, frozen=True):
    """What a loop puts together, of which tensor, and how."""

    word: str
    data: Source
    axis: int
    exclusive: bool
    reverse: bool


def loops_to_running(model: Model) -> Model:
    """The model with one step in the place of such loops."""
    layers = NewLayers(model)

    def put(node: Node) -> None:
        found = _running(model, node)
        if found is None:
            return
        how = {"exclusive": found.exclusive, "reverse": found.reverse}
        if found.word == "Add":
            axis = layers.constant(found.axis)
            layers.put(CumSum(**how), found.data, axis, name=node.name, place=node.id)
        else:
            operation = RunningProduct(axis=found.axis, **how)
            layers.put(operation, found.data, name=node.name, place=node.id)

    return layers.rewritten(put)


def _running(model: Model, node: Node) -> _Running | None:
    if node.type_name != "TensorIterator" or len(node.outputs) != 1:
        return None
    joined = node.of(SubGraphOperation).bodies["body"]
    if not isinstance(joined.body, GraphBody) or len(joined.inputs) != 2:
        return None
    body = joined.body.model
    results = [body.by_id[number].inputs[0] for number in body.results]
    if not len(joined.sliced) == len(joined.whole) == len(joined.joined) == 1:
        return None
    (part,), (before,), (output,) = joined.sliced, joined.whole, joined.joined
    reverse = _is_reverse(part.slicing)
    if reverse is None or output.slicing != part.slicing:
        return None
    if len(joined.back_edges) != 1 or joined.back_edges[0][1] != before.parameter:
        return None
    carried = results[joined.back_edges[0][0]]
    combined, put = body.by_id[carried.node], results[output.result]
    given = [Source(body.parameters[entry.parameter], 0) for entry in (part, before)]
    if combined.type_name not in _BEGINS or set(combined.inputs) != set(given):
        return None
    if put not in (carried, given[1]):
        return None
    data, first = node.inputs[part.port], node.inputs[before.port]
    begins = _BEGINS[combined.type_name]
    if not _begins(model, first, begins, data, part.slicing.axis):
        return None
    return _Running(combined.type_name, data, part.slicing.axis, put == given[1], reverse)


def _is_reverse(slicing: Slicing) -> bool | None:
    """Whether a tensor is cut from its end; None unless it is cut whole, one place at a time."""
    ways = {(0, -1, 1): False, (-1, 0, -1): True}
    if slicing.part_size != 1:
        return None
    return ways.get((slicing.start, slicing.end, slicing.stride))


def _begins(model: Model, first: Source, number: int, data: Source, axis: int) -> bool:
    """Whether a tensor is this number everywhere, in the shape of a part of the data."""
    spec, whole = model.spec(first), model.spec(data)
    if whole.rank is None or spec.rank != whole.rank:
        return False
    if spec.value is not None:
        part = [1 if d == axis else size for d, size in enumerate(whole.shape)]
        return bool(np.all(spec.value == number)) and list(spec.shape) == part
    node = model.by_id[first.node]
    if node.type_name != "Broadcast" or len(node.inputs) != 2:
        return False
    value = model.spec(node.inputs[0]).value
    if value is None or value.size != 1 or not np.all(value == number):
        return False
    return _is_shape_of_part(model, node.inputs[1], data, axis)


def _is_shape_of_part(model: Model, shape: Source, data: Source, axis: int) -> bool:
    """Whether this is the shape of the data with 1 in the place of the axis."""
    node = model.by_id[shape.node]
    if node.type_name != "ScatterElementsUpdate":
        return False
    whole = model.by_id[node.inputs[0].node]
    numbers = [known_integers(model, source) for source in node.inputs[1:]]
    return (
        whole.type_name == "ShapeOf"
        and whole.inputs[0] == data
        and numbers == [[axis], [1], [0]]
        and getattr(node.operation, "reduction", "none") == "none"
    )
