"""ConvertLike layers become Convert layers, which do not wait for the second tensor."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model
from uncork.ops.convert import convert_to
from uncork.passes.rewrite import replaced


def simplify_convert_like(model: Model) -> Model:
    """Every ConvertLike as a Convert."""
    new = {
        node.id: replace(
            node,
            inputs=node.inputs[:1],
            operation=convert_to(node.outputs[0].spec.element_type, node.operation.strict),
        )
        for node in model.nodes
        if node.type_name == "ConvertLike" and node.operation is not None
    }
    return replaced(model, new) if new else model
