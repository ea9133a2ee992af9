"""Bags read ids and offsets of i64 directly, without the Convert to i32 before them.

The PyTorch frontend writes that Convert.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.fused import NarrowedBag
from uncork.ir.model import Model, Node
from uncork.ops.convert import Convert1
from uncork.passes.rewrite import rewritten
from uncork.types import ElementType

_BAGS = frozenset({"EmbeddingBagOffsetsSum", "EmbeddingBagOffsets"})


def absorb_index_converts(model: Model) -> Model:
    """Convert(i64 to i32) of the indices and of the offsets of a bag become part of the bag.

    Ids still wrap as the Convert says.
    """
    return rewritten(model, lambda node: _narrowed(model, node))


def _narrowed(model: Model, node: Node) -> Node | None:
    if node.type_name not in _BAGS or len(node.inputs) != 3:
        return None
    ids, offsets = (model.by_id[source.node] for source in node.inputs[1:])
    if not (_narrows(model, ids) and _narrows(model, offsets)):
        return None
    inputs = (node.inputs[0], ids.inputs[0], offsets.inputs[0])
    return replace(node, inputs=inputs, operation=NarrowedBag(node.checked_operation))


def _narrows(model: Model, node: Node) -> bool:
    return (
        isinstance(node.operation, Convert1)
        and not node.operation.strict  # which looks at every number
        and node.operation.destination_type is ElementType.i32
        and model.spec(node.inputs[0]).element_type is ElementType.i64
    )
