"""Attention that no kernel computes (heads whose size a call tells, or very long ones, as where
channels attend to channels) becomes the products and the Softmax that it means.
"""

from __future__ import annotations

from uncork.decompositions.registry import decomposed
from uncork.ir.model import Model, Node, Source
from uncork.kernels.runtime.target import Target
from uncork.ops.attention import ScaledDotProductAttention
from uncork.passes.rewrite import NewLayers, has_kernel


def take_apart(model: Model, target: Target) -> Model:
    """The model with the layers that such attention means in its place."""
    layers = NewLayers(model)

    def take(node: Node) -> None:
        operation = node.operation
        if not isinstance(operation, ScaledDotProductAttention) or has_kernel(model, node, target):
            return
        specs = [model.spec(source) for source in node.inputs]
        outputs = [port.spec for port in node.outputs]
        parts = decomposed(operation, specs, outputs)
        given = zip(parts.inputs, node.inputs, strict=False)
        own: dict[Source, Source] = {inner: source for inner, source in given if inner is not None}
        for part in parts.nodes:
            inputs = [own[source] for source in part.inputs]
            own[Source(part.id, 0)] = layers.put(part.checked_operation, *inputs, name=node.name)
        layers.finish(node)

    return layers.rewritten(take)
