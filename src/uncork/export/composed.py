"""Composites in a system's terms: their layers, lowered in the place of the operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from uncork.decompositions.registry import decomposed
from uncork.ir.model import Node, Source
from uncork.ops.parameter import Const
from uncork.types import TensorSpec


def composer(
    written: Callable[[Any, Node, Sequence[Any]], Sequence[Any]],
    constant: Callable[[Any, Const], Any],
    spec: Callable[[Any], TensorSpec],
) -> Callable[..., list[Any]]:
    """The lowering of composites to a system: `written` gives the outputs of a layer, `constant` a
    number that a composite needs, `spec` what is known of a tensor.
    """

    def composed(writer: Any, operation: Any, *inputs: Any) -> list[Any]:
        """By the layers that it consists of."""
        outputs = writer.outputs
        known = [None if tensor is None else spec(tensor) for tensor in inputs]
        layers = decomposed(operation, known, outputs)
        given = zip(layers.inputs, layers.shapes, inputs, strict=True)
        values = {source: replace(tensor, shape=shape) for source, shape, tensor in given if source}
        for node in layers.nodes:
            writer.outputs = tuple(port.spec for port in node.outputs)
            if isinstance(node.operation, Const):
                made = [constant(writer, node.operation)]
            else:
                made = list(written(writer, node, [values[source] for source in node.inputs]))
            values.update((Source(node.id, i), tensor) for i, tensor in enumerate(made))
        writer.outputs = outputs
        return [values[source] for source in layers.outputs]

    return composed
