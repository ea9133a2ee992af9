"""Products of matrices in the storage of a variable read them there, for several heads too."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.appended_state import StateValue
from uncork.internal_ops.attention import Repeated
from uncork.internal_ops.state_product import StateProduct
from uncork.ir.model import Model, Node
from uncork.kernels.runtime.target import Target
from uncork.ops.matmul import MatMul
from uncork.passes.match_moves import moves_to
from uncork.passes.rewrite import has_kernel, rewritten


def read_state_in_products(model: Model, target: Target) -> Model:
    """The model, which has sizes, with a `StateProduct` wherever there is a kernel for it."""
    return rewritten(
        model,
        lambda node: _of_state(model, node, target) if isinstance(node.operation, MatMul) else None,
    )


def _of_state(model: Model, node: Node, target: Target) -> Node | None:
    """The node of a `StateProduct`; None where a product reads no storage, or no kernel does it."""
    source, moves = moves_to(model, node.inputs[1])
    value, rank = model.by_id[source.node], model.spec(source).rank
    if not isinstance(value.operation, StateValue) or rank is None:
        return None
    repeats = [move.count for move in moves if isinstance(move, Repeated) and move.axis == rank - 3]
    if len(repeats) != len(moves) or len(repeats) > 1:
        return None
    operation = StateProduct(node.of(MatMul), value.operation, *repeats)
    inputs = (node.inputs[0], *value.inputs)
    made = replace(node, inputs=inputs, operation=operation)
    return made if has_kernel(model, made, target) else None
