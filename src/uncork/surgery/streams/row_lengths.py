"""Inputs that are nothing but the lengths of rows: in a stream every row has all frames of a call,
and they go.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from uncork.ir.build import Builder
from uncork.ir.model import Model, Node, Source
from uncork.surgery._model import checked
from uncork.surgery.streams.guard import behind

#: The port of the lengths, by the type of the layer.
_PORTS = {"RNNSequence": 2, "GRUSequence": 2, "LSTMSequence": 3}
#: Layers that lengths may go through on the way there.
_MOVES = frozenset({"Convert", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def length_inputs(model: Model, axes: Mapping[int, int]) -> list[int]:
    """The positions of inputs that are lengths of rows, one for each, and nothing else but their
    number.
    """
    return [
        position
        for position, port in enumerate(model.inputs)
        if position not in axes
        and port.element_type.is_integer
        and port.shape.rank == 1
        and _are_lengths(model, model.parameters[position])
    ]


def _are_lengths(model: Model, number: int) -> bool:
    behind, ends = {number}, False
    for node in model.nodes:
        for at, source in enumerate(node.inputs):
            if source.node not in behind:
                continue
            if at == _PORTS.get(node.type_name):
                ends = True
            elif node.type_name in _MOVES and at == 0:
                behind.add(node.id)
            elif node.type_name != "ShapeOf":
                return False
    return ends


def with_all_frames(model: Model, axes: Mapping[int, int]) -> Model:
    """The model without such inputs: every row has as many frames as the sequence."""
    positions = length_inputs(model, axes)
    if not positions:
        return model
    first, axis = next(iter(axes.items()))
    timed = model.by_id[model.parameters[first]]
    numbers = {model.parameters[position] for position in positions}
    fresh = model.next_id
    nodes: list[Node] = [timed]
    moved: dict[Source, Source] = {}
    for node in model.nodes:
        if node is timed:
            continue
        if node.id in numbers:
            made = _lengths(node, timed, axis, fresh)
            fresh += len(made)
            nodes.extend(made)
            moved[Source(node.id, 0)] = Source(made[-1].id, 0)
        else:
            nodes.append(node.reading(moved))
    left = tuple(p for p in model.parameters if p not in numbers)
    return checked(replace(model, nodes=tuple(nodes), parameters=left))


def _lengths(node: Node, timed: Node, axis: int, fresh: int) -> list[Node]:
    """The layers that make the lengths, numbered from `fresh` on."""
    spec = timed.outputs[0].spec
    builder = Builder()
    source = builder.parameter("x", spec.element_type, spec.shape)
    (shape,) = builder.add("ShapeOf", 3, source, output_type="i64")
    zero = builder.constant(np.int64(0))
    frames, rows = (
        builder.add("Gather", 8, shape, builder.constant(np.array([at])), zero, batch_dims=0)[0]
        for at in (axis, 1 if axis == 0 else 0)
    )
    kind = str(node.outputs[0].spec.element_type)
    (frames,) = builder.add("Convert", 1, frames, destination_type=kind)
    builder.add("Broadcast", 3, frames, rows, mode="numpy", name=node.name)
    return behind(timed, builder, fresh, node.name, node.name)
