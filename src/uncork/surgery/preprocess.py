"""A model that takes pictures as they are read: what is made of them becomes layers of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.errors import InputError
from uncork.ir.model import Model, Source
from uncork.onnx.graph import Graph
from uncork.preprocessing.pictures import Pictures, plan
from uncork.surgery._model import checked, input_names, port


def preprocess(model: Model, inputs: Mapping[str, Pictures]) -> Model:
    """The model with inputs, by name or position, that take pictures as they are read: u8, of any
    height and width, with the axes N, H, W, C in this order.

    `{"image": Pictures(mean=(123.7, 116.3, 103.5), scale=(58.4, 57.1, 57.4))}` says how the
    model's own input `image` is made of them. Raises InputError where an input takes no pictures.
    """
    found = {port(input_names(model), name, "input"): how for name, how in inputs.items()}
    InputError.when(len(found) < len(inputs), f"an input is named twice: {', '.join(inputs)}")
    for position, how in found.items():
        model = _with_pictures(model, position, how)
    return checked(model)


def _with_pictures(model: Model, position: int, how: Pictures) -> Model:
    """The model with one input that takes pictures."""
    own = model.by_id[model.parameters[position]]
    made = plan(model.inputs[position], how)
    graph = Graph(own.name)
    picture = graph.parameter(own.name, "u8", made.picture_shape)
    graph.result(made.prepared(graph, picture))
    added = graph.model()
    # Ids and names that no layer of the model has.
    first = model.next_id
    taken = {node.name for node in model.nodes}
    nodes = []
    for node in added.nodes[: -len(added.results)]:
        name = node.name if node.id in added.parameters else f"{own.name}/{node.name}"
        while name in taken and node.id not in added.parameters:
            name += "_"
        taken.add(name)
        inputs = tuple(Source(first + source.node, source.output) for source in node.inputs)
        nodes.append(replace(node, id=first + node.id, name=name, inputs=inputs))
    end = added.by_id[added.results[0]].inputs[0]
    prepared = Source(first + end.node, end.output)
    ports = (replace(nodes[0].outputs[0], names=own.outputs[0].names),)
    nodes[0] = replace(nodes[0], outputs=ports)
    for node in model.nodes:
        if node.id != own.id:
            inputs = tuple(prepared if s.node == own.id else s for s in node.inputs)
            nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
    parameters = [*model.parameters]
    parameters[position] = nodes[0].id
    return replace(model, nodes=tuple(nodes), parameters=tuple(parameters))
