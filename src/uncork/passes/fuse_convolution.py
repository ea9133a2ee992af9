"""Convolutions with constant filters, the addition of a number to each channel and an activation become one step."""

from __future__ import annotations

from dataclasses import replace

from uncork.internal_ops.fused_convolution import FusedConvolution
from uncork.ir.model import Model, Node, Source
from uncork.passes.rewrite import only_reader, readers, replaced
from uncork.types import ElementType

_CONVOLUTIONS = frozenset({"Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData"})
#: Activations that the kernels can end with.
_ACTIVATIONS = frozenset({"ReLU", "Sigmoid", "Tanh"})


def fuse_convolution(model: Model) -> Model:
    """Chains convolution -> Add -> activation, each the only reader of the one before, as one node under the last one's id."""
    if not any(node.type_name in _CONVOLUTIONS for node in model.nodes):
        return model
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        if node.type_name not in _CONVOLUTIONS or node.operation is None or model.spec(node.inputs[1]).value is None:
            continue
        if model.spec(node.inputs[0]).element_type is not ElementType.f32:
            continue
        last, inputs, activation = node, node.inputs[:2], None
        following = only_reader(read_by, last)
        if following is not None and following.type_name == "Add" and (bias := _bias(model, last, following)) is not None:
            last, inputs = following, (*inputs, bias, *node.inputs[2:])
            following = only_reader(read_by, last)
        elif len(node.inputs) > 2:
            continue  # inputs are given by position: the sizes of the output come after a bias
        if following is not None and following.type_name in _ACTIVATIONS:
            last, activation = following, following.operation
        if last is not node:
            fused = FusedConvolution(node.operation, activation)
            new[last.id] = replace(last, inputs=inputs, operation=fused, type_name=fused.type_name)
    return replaced(model, new) if new else model


def _bias(model: Model, product: Node, addition: Node) -> Source | None:
    """The other input of an addition, when it is a constant with one number for each channel."""
    others = [source for source in addition.inputs if source != Source(product.id, 0)]
    if len(others) != 1 or model.spec(others[0]).value is None:
        return None
    shape, bias = product.outputs[0].spec.shape, model.spec(others[0]).shape
    if shape.rank is None or not shape[1].is_static or bias.rank is None or not shape.rank - 1 <= bias.rank <= shape.rank:
        return None
    dims = [1] * (shape.rank - bias.rank) + list(bias.static)
    fits = dims[1] == shape[1].size and all(dim == 1 for axis, dim in enumerate(dims) if axis != 1)
    return others[0] if fits else None
