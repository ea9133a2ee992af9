"""ConvertLike layers become Convert layers, which do not wait for the second tensor.

What a ConvertLike takes of that tensor is its type, which a checked model has in it. So its values
are read by nobody, and the layers that only make those are not reachable from a Result or an
Assign: they do not run. That is a matter of meaning, since such a layer might refuse its values:
references leave it out, as kernels do. Bodies are looked into.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model, Node
from uncork.ops.convert import convert_to
from uncork.passes.rewrite import rewritten, with_bodies


def simplify_convert_like(model: Model) -> Model:
    """Every ConvertLike as a Convert."""
    return rewritten(model, _simplified)


def _simplified(node: Node) -> Node | None:
    """The layer with every ConvertLike as a Convert; None where there is none."""
    operation = node.operation
    if node.type_name != "ConvertLike" or operation is None:
        return with_bodies(node, simplify_convert_like)
    convert = convert_to(node.outputs[0].spec.element_type, operation.strict)
    return replace(node, inputs=node.inputs[:1], operation=convert)
