"""ConvertLike layers become Convert layers, which do not wait for the second tensor.

What a ConvertLike takes of that tensor is its type, which a checked model has in it. So its values
are read by nobody, and the layers that only make those are not reachable from a Result or an
Assign: they do not run. That is a matter of meaning, since such a layer might refuse its values:
references leave it out, as kernels do. Bodies are looked into.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.ops.convert import convert_to
from uncork.passes.rewrite import rewritten


def simplify_convert_like(model: Model) -> Model:
    """Every ConvertLike as a Convert."""
    return rewritten(model, _simplified)


def _simplified(node: Node) -> Node | None:
    """The layer with every ConvertLike as a Convert; None where there is none."""
    operation = node.operation
    if isinstance(operation, SubGraphOperation):
        after = _with_bodies(operation)
        return None if after is operation else replace(node, operation=after)
    if node.type_name != "ConvertLike" or operation is None:
        return None
    convert = convert_to(node.outputs[0].spec.element_type, operation.strict)
    return replace(node, inputs=node.inputs[:1], operation=convert)


def _with_bodies(operation: SubGraphOperation) -> SubGraphOperation:
    bodies: dict[str, BodyMap] = {}
    changed = False
    for name, joined in operation.bodies.items():
        assert isinstance(joined.body, GraphBody), "layers are simplified before bodies get kernels"
        model = simplify_convert_like(joined.body.model)
        if model is not joined.body.model:
            joined, changed = replace(joined, body=GraphBody(model)), True
        bodies[name] = joined
    return operation.replace(bodies=bodies) if changed else operation
