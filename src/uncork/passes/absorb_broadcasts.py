"""Tensors that are broadcast for element-wise layers are broadcast by these layers themselves.

Where another operand has the shape of the result, a Broadcast or a Tile of axes of size 1 gives
nothing that the layer does not do as it reads. Views between the two count as long as the shape is
the same behind them; they do not matter to a tensor of one element.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.fused import Fused
from uncork.ir.model import Model, Node
from uncork.kernels.extents import has_extents
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.passes.match_moves import same_shape, unstretched
from uncork.passes.rewrite import has_kernel, rewritten


def absorb_broadcasts(model: Model, target: Target) -> Model:
    """The model, whose shapes are those of the call, with such layers reading tensors from before
    the broadcast, where there is a kernel for that.
    """
    return rewritten(
        model, lambda node: _narrow(model, node, target) if _stretches(node.operation) else None
    )


def _stretches(operation: Operation | None) -> bool:
    """Whether the operation aligns all its operands at the right, and stretches them."""
    if isinstance(operation, Fused):
        return all(
            len(member.arguments) == 1 or _stretches(member.operation)
            for member in operation.members
        )
    return getattr(operation, "auto_broadcast", "") == "numpy" and operation is not None


def _narrow(model: Model, node: Node, target: Target) -> Node | None:
    """The layer with operands as they were before they were stretched; None where nothing is
    gained.
    """
    output = node.outputs[0].spec
    if output.value is not None or not has_extents(output):
        return None
    inputs = list(node.inputs)
    for position, source in enumerate(inputs):
        others = (s for i, s in enumerate(inputs) if i != position)
        if any(same_shape(model.spec(other), output) for other in others):
            inputs[position] = unstretched(model, source) or source
    if inputs == list(node.inputs):
        return None
    narrow = replace(node, inputs=tuple(inputs))
    return narrow if has_kernel(model, narrow, target) else None
