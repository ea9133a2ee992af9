"""The matcher of Gather that takes whole rows."""

from __future__ import annotations

from uncork.ir.model import Model, Node
from uncork.ops.gather import Gather


def gathered_axis(model: Model, node: Node) -> int | None:
    """The axis along which a Gather takes whole rows, each index one, without batches; None of any
    other layer, and where only the call knows the axis.
    """
    if not isinstance(node.operation, Gather):
        return None
    data, indices, axis = (model.spec(source) for source in node.inputs)
    if axis.value is None or data.rank is None or indices.rank is None:
        return None
    batched = node.operation.batch_count(indices.rank) != 0
    return None if batched else int(axis.value.reshape(-1)[0]) % data.rank
