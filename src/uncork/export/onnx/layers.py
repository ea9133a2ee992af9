"""What is said of nodes in a row that are one layer of the IR, so that it is read back as one."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from typing import Any

from msgspec import structs

from uncork.errors import UncorkError
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.signatures import carrier
from uncork.ir.model import Node
from uncork.onnx.layers import KEY, TOLD, Layer, Place, Told, told
from uncork.ops._body import SubGraphOperation
from uncork.types import Array, ElementType


def tell_layers(graph: Graph, kept: Set[int]) -> None:
    """Put into the last of a layer's nodes which layer they are, with its inputs and outputs."""
    for node, inputs, outputs, made in graph.layers:
        nodes = [n for n in made if id(n) in kept]
        layer = _layer(graph, node, inputs, outputs, nodes) if nodes else None
        if layer is not None:
            text = json.dumps(structs.asdict(layer), separators=(",", ":"))
            nodes[-1].metadata_props.add(key=KEY, value=text)


def _layer(
    graph: Graph,
    node: Node,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    nodes: Sequence[Any],
) -> Layer | None:
    """What the nodes are; None where they read what is no input of the layer, as of those of
    variables and bodies, or where a tensor has another type than in the IR.
    """
    operation = node.operation
    if operation is None or isinstance(operation, SubGraphOperation):
        return None
    if any(carrier(tensor.type) is not tensor.type for tensor in (*inputs, *outputs)):
        return None
    read = {name: (i, j) for i, n in enumerate(nodes) for j, name in enumerate(n.input)}
    made = {name: (i, j) for i, n in enumerate(nodes) for j, name in enumerate(n.output)}
    places: list[Place | None] = []
    constants: list[Told] = []
    for tensor in inputs:
        place = read.get(tensor.name)
        if place is None:
            if tensor.value is None or tensor.value.size > TOLD:
                return None
            constants.append(told(tensor.value, tensor.type))
        places.append(place)
    layer = Layer(
        operation.type_name,
        operation.opset,
        operation.to_text(),
        len(nodes),
        places,
        [made.get(tensor.name) for tensor in outputs],
        constants,
    )

    def constant(name: str) -> tuple[Array, ElementType] | None:
        found, weight = graph.settings.constants.get(name), graph.settings.weights.get(name)
        if found is not None:
            return None if found.value is None else (found.value, found.type)
        if weight is None or weight.count > TOLD:
            return None
        return weight.value, weight.element_type

    try:
        own = layer.operation()
        if own is None or own.to_text() != layer.attributes:
            return None
        return structs.replace(layer, digest=layer.digested(nodes, constant))
    except (LookupError, UncorkError):
        return None
