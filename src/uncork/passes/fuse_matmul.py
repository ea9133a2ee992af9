"""MatMul with constant weights, the addition of a constant bias and an activation become one step."""

from __future__ import annotations

from dataclasses import replace

from uncork.internal_ops.fused import FusedLinear
from uncork.ir.model import Model, Node, Source
from uncork.passes.rewrite import only_reader, readers, replaced
from uncork.types import ElementType

#: Activations that the kernel of a linear layer can end with.
_ACTIVATIONS = frozenset({"ReLU", "Sigmoid", "Tanh"})


def fuse_linear(model: Model) -> Model:
    """Chains MatMul -> Add -> activation, each the only reader of the one before, as one node under the last one's id."""
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        if node.type_name != "MatMul" or node.operation is None or not _is_constant(model, node.inputs[1]):
            continue
        if model.spec(node.inputs[0]).element_type is not ElementType.f32:
            continue
        last, inputs, activation = node, node.inputs, None
        following = only_reader(read_by, last)
        if following is not None and following.type_name == "Add" and (bias := _bias(model, last, following)) is not None:
            last, inputs = following, (*inputs, bias)
            following = only_reader(read_by, last)
        if following is not None and following.type_name in _ACTIVATIONS:
            last, activation = following, following.operation
        if last is not node:
            new[last.id] = replace(last, inputs=inputs, operation=FusedLinear(node.operation, activation), type_name="FusedLinear")
    return replaced(model, new) if new else model


def _is_constant(model: Model, source: Source) -> bool:
    return model.spec(source).value is not None


def _bias(model: Model, product: Node, addition: Node) -> Source | None:
    """The other input of an addition, when it is a constant with one value for each column of the product."""
    others = [source for source in addition.inputs if source != Source(product.id, 0)]
    if len(others) != 1 or not _is_constant(model, others[0]):
        return None
    other = others[0]
    shape, bias = product.outputs[0].spec.shape, model.spec(other).shape
    if shape.rank is None or shape.rank < 1 or not shape[-1].is_static or bias.rank is None or not 1 <= bias.rank <= shape.rank:
        return None
    return other if bias[-1] == shape[-1] and all(dim == 1 for dim in bias[:-1]) else None
