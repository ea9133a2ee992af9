"""Parts of a model: what lies between some layers, or between some tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from uncork.compiler.arguments import did_you_mean
from uncork.errors import InputError
from uncork.ir.model import Model, Node, Port, Source, node_of
from uncork.ops.parameter import Parameter, Result
from uncork.ops.state import Assign3, ReadValue3
from uncork.surgery._model import checked, layer
from uncork.types import TensorSpec


def cut(model: Model, start: Sequence[str] = (), end: Sequence[str] = ()) -> Model:
    """The part of a model from some layers to some layers, both included, by their names.

    What the first layers take of other layers, but for constants, becomes inputs; all that the last
    ones give, outputs. Without `start` it begins where the model does, without `end` it ends there.
    """
    constant = _constant_nodes(model)
    inputs = [s for n in start for s in layer(model, n).inputs if s.node not in constant]
    InputError.when(
        start and not inputs, f"{', '.join(start)}: nothing but constants goes in there"
    )
    last = [layer(model, name) for name in end]
    outputs = [Source(node.id, i) for node in last for i in range(len(node.outputs))]
    return _part(model, list(dict.fromkeys(inputs)), outputs)


def extract(model: Model, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Model:
    """The part of a model that computes some tensors from others, by the names of tensors or
    layers; "gru:1" is the second output of a layer.
    """
    given = [_tensor(model, name) for name in inputs]
    return _part(model, given, [_tensor(model, name) for name in outputs])


def _tensor(model: Model, name: str) -> Source:
    found = [
        Source(node.id, i)
        for node in model.nodes
        for i, port in enumerate(node.outputs)
        if name in port.names
    ]
    if not found:
        found = _outputs_of_layers(model, name)
    if len(found) == 1:
        return found[0]
    if found:
        ways = [f"'{model.by_id[s.node].name}:{s.output}'" for s in found[:8]]
        raise InputError(f"'{name}' is the name of {len(found)} tensors: {', '.join(ways)}")
    known = [n for node in model.nodes for p in node.outputs for n in (*p.names, node.name)]
    raise InputError(f"the model has no tensor '{name}'{did_you_mean(name, known)}")


def _outputs_of_layers(model: Model, name: str) -> list[Source]:
    """The outputs of the layers of this name, or the one of "name:1"."""
    result = [Source(n.id, i) for n in model.nodes if n.name == name for i in range(len(n.outputs))]
    layer_name, colon, position = name.rpartition(":")
    if result or not colon or not position.isdecimal():
        return result
    named = [n for n in model.nodes if n.name == layer_name and int(position[:9]) < len(n.outputs)]
    return [Source(n.id, int(position)) for n in named]


def _constant_nodes(model: Model) -> set[int]:
    """Layers that depend on no input and no variable."""
    result: set[int] = set()
    for node in model.nodes:
        varies = node.type_name in ("Parameter", "ReadValue") or any(
            s.node not in result for s in node.inputs
        )
        if not varies:
            result.add(node.id)
    return result


def _part(model: Model, begins: Sequence[Source], ends: Sequence[Source]) -> Model:
    """The part of a model that computes the ends from some given tensors; without ends, all
    results.
    """
    fresh = model.next_id
    parameters: dict[Source, Node] = {}
    for source in begins:
        node = model.by_id[source.node]
        if node.type_name != "Parameter":
            parameters[source] = _parameter(model, source, fresh)
            fresh += 1
    moved = {source: Source(node.id, 0) for source, node in parameters.items()}
    nodes = [n.reading(moved) for n in model.nodes]
    results = [n for n in nodes if n.type_name == "Result"]
    if ends:
        kept = [n for n in results if model.by_id[n.id].inputs[0] in ends]
        served = {model.by_id[n.id].inputs[0] for n in kept}
        results = kept + [
            _result(moved.get(s, s), fresh + i)
            for i, s in enumerate(e for e in dict.fromkeys(ends) if e not in served)
        ]
    body = [*parameters.values(), *(n for n in nodes if n.type_name != "Result"), *results]
    needed = layers_needed(body, [n.id for n in results])
    left = tuple(n for n in body if n.id in needed)
    InputError.when(
        not any(n.id in needed for n in parameters.values()) and parameters,
        "the outputs do not depend on the layers that the part begins with",
    )
    old = {p: i for i, p in enumerate(model.parameters)}
    inputs = sorted(
        (n.id for n in left if n.type_name == "Parameter"), key=lambda p: old.get(p, len(old) + p)
    )
    sinks = tuple(n.id for n in left if isinstance(n.operation, Assign3))
    made = replace(
        model,
        nodes=left,
        parameters=tuple(inputs),
        results=tuple(n.id for n in results),
        sinks=sinks,
    )
    return checked(made)


def _parameter(model: Model, source: Source, number: int) -> Node:
    """A Parameter in place of a tensor, with the tensor's names."""
    node = model.by_id[source.node]
    port = node.outputs[source.output]
    spec = TensorSpec(port.spec.element_type, port.spec.shape)
    operation = Parameter(element_type=spec.element_type, shape=spec.shape)
    name = node.name if len(node.outputs) == 1 else f"{node.name}.{source.output}"
    return node_of(number, f"{name}/input", operation, (), [Port(spec, port.names or (name,))])


def _result(source: Source, number: int) -> Node:
    return node_of(number, f"result_{number}", Result(), [source], ())


def layers_needed(nodes: Sequence[Node], roots: Iterable[int]) -> set[int]:
    """The nodes that the roots depend on, with the Assigns of variables that they read."""
    by_id = {n.id: n for n in nodes}
    assigned = {n.operation.variable_id: n.id for n in nodes if isinstance(n.operation, Assign3)}
    result: set[int] = set()
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number in result:
            continue
        result.add(number)
        node = by_id[number]
        waiting.extend(s.node for s in node.inputs)
        if isinstance(node.operation, ReadValue3) and node.operation.variable_id in assigned:
            waiting.append(assigned[node.operation.variable_id])
    return result
