"""Poolings whose indices nobody reads give the values alone."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.pooled_values import PooledValues
from uncork.ir.model import Model, Node, Source
from uncork.passes.rewrite import readers, rewritten

#: Operations with places as second output.
POOLINGS = frozenset({"MaxPool", "AdaptiveMaxPool"})


def drop_unread_indices(model: Model) -> Model:
    """The model with `PooledValues` in place of every such pooling."""
    read_by = readers(model)

    def values_alone(node: Node) -> Node | None:
        unread = len(node.outputs) == 2 and not read_by.get(Source(node.id, 1))
        if node.type_name not in POOLINGS or not unread:
            return None
        operation = PooledValues(node.checked_operation)
        return replace(node, outputs=node.outputs[:1], operation=operation)

    return rewritten(model, values_alone)
