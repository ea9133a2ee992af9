"""Transposes of transposes are one, where nobody else reads the first, or none at all.

Exporters write them around each layer whose axes lie otherwise: recurrent layers of ONNX have the
steps first, and the networks around them the items of the batch.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model, Source
from uncork.passes.match_moves import transpose_order
from uncork.passes.rewrite import NewLayers, readers


def merge_transposes(model: Model) -> Model:
    """The model with each transpose reading what was there before others."""
    layers, read_by = NewLayers(model), readers(model)
    #: Of each transpose that is kept, what it transposes and how; of others what they are.
    found: dict[Source, tuple[Source, tuple[int, ...]]] = {}
    same: dict[Source, Source] = {}
    changed = False
    for node in model.nodes:
        node = node.reading(same)
        order = transpose_order(model, node)
        output = Source(node.id, 0)
        if order is None:
            layers.nodes.append(node)
            continue
        data = node.inputs[0]
        before, first = found.get(data, (data, tuple(range(len(order)))))
        joined = tuple(first[axis] for axis in order)
        if before != data and joined == tuple(sorted(joined)):
            same[output], changed = before, True
            continue
        if before != data and all(transpose_order(model, reader) for reader in read_by[data]):
            data, order, changed = before, joined, True
            node = replace(node, inputs=(data, layers.constant(order)))
        found[output] = (data, order)
        layers.nodes.append(node)
    return layers.model() if changed else model
