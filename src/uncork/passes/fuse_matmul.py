"""MatMul with constant weights, the addition of a constant bias and an activation become one step."""

from __future__ import annotations

from dataclasses import replace

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.fused import FusedLinear
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.passes.rewrite import constant_addend, only_reader, readers, replaced
from uncork.types import ElementType

#: Activations that the kernel of a linear layer can end with.
_ACTIVATIONS = frozenset({"ReLU", "Sigmoid", "Tanh"})


def fuse_linear(model: Model) -> Model:
    """Chains MatMul -> Add -> activation, each the only reader of the one before, as one node under the last one's id."""
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        compressed = isinstance(node.operation, CompressedLinear)
        if not compressed and (node.type_name != "MatMul" or node.operation is None or model.spec(node.inputs[1]).value is None):
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
            operation: Operation
            if isinstance(node.operation, CompressedLinear):
                operation = CompressedLinear(node.operation.product, node.operation.weights, activation)
            else:
                assert node.operation is not None
                operation = FusedLinear(node.operation, activation)
            new[last.id] = replace(last, inputs=inputs, operation=operation, type_name=operation.type_name)
    return replaced(model, new) if new else model


def _bias(model: Model, product: Node, addition: Node) -> Source | None:
    """The other input of an addition, when it is a constant with one value for each column of the product."""
    other = constant_addend(model, product, addition)
    if other is None:
        return None
    shape, bias = product.outputs[0].spec.shape, model.spec(other).shape
    if shape.rank is None or shape.rank < 1 or not shape[-1].is_static or bias.rank is None or not 1 <= bias.rank <= shape.rank:
        return None
    return other if bias[-1] == shape[-1] and all(dim == 1 for dim in bias[:-1]) else None
