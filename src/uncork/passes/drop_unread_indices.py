"""Poolings whose indices nobody reads give the values alone."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.pooled_values import PooledValues
from uncork.ir.model import Model, Node, Source
from uncork.passes.rewrite import readers, replaced

#: Operations with places as second output.
POOLINGS = frozenset({"MaxPool", "AdaptiveMaxPool"})


def drop_unread_indices(model: Model) -> Model:
    """The model with `PooledValues` in place of every such pooling."""
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        operation = node.operation
        if (
            node.type_name in POOLINGS
            and operation is not None
            and len(node.outputs) == 2
            and not read_by.get(Source(node.id, 1))
        ):
            new[node.id] = replace(
                node,
                outputs=node.outputs[:1],
                operation=PooledValues(operation),
            )
    return replaced(model, new)
