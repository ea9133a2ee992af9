"""Models of nodes from uncork's models, and uncork's from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from uncork.errors import ValidationError
from uncork.ir.bodies import graphs_of
from uncork.ir.graph import Node as CoreNode
from uncork.ir.graph import Port, Source, XmlElement, node_of
from uncork.ir.model import Model as CoreModel
from uncork.ir.model import split_names
from uncork.ir.validate import infer
from uncork.openvino._errors import invalid
from uncork.openvino._node import Constant, Node, Parameter, Result
from uncork.openvino._ports import Output
from uncork.ops import parameter as ends


def nodes_of(model: CoreModel) -> dict[int, Node]:
    """Nodes for the layers of uncork's model, by their ids."""
    made: dict[int, Node] = {}
    for node in model.nodes:
        sources = [Output(made[s.node], s.output) for s in node.inputs]
        operation = node.operation
        if operation is None:
            raise invalid(f"{node.label} is not supported")
        if isinstance(operation, ends.Parameter):
            new: Node = Parameter(name=node.name, record=node, operation=operation)
        elif isinstance(operation, ends.Const):
            new = Constant(name=node.name, record=node, operation=operation)
        elif isinstance(operation, ends.Result):
            new = Result(sources[0], name=node.name, record=node)
        else:
            new = Node(operation, sources, node.name, node)
        made[node.id] = new
    _name_ends(model, made)
    return made


def _name_ends(model: CoreModel, made: dict[int, Node]) -> None:
    """Have tensors the names that version 10 makes of layers, and those of results."""
    for number in model.results:
        result = model.by_id[number]
        given = dict(result.layer_attributes).get("output_names", "")
        names = [*split_names(given), *(n for p in result.outputs for n in p.names)]
        made[number].output(0).add_names(names)
    if model.ir_version != 10:
        return
    for number in model.parameters:
        made[number].output(0).add_names([made[number].get_friendly_name()])
    for number in model.results:
        source = made[number].sources[0]
        name = source.node.get_friendly_name()
        several = source.node.get_output_size() > 1
        source.add_names([f"{name}.{source.index}" if several else name])


def ordered(ends_of: Iterable[Node]) -> list[Node]:
    """The nodes that some depend on, and these, each after its inputs."""
    done: set[int] = set()
    result: list[Node] = []
    for last in ends_of:
        waiting: list[tuple[Node, bool]] = [(last, False)]
        while waiting:
            node, ready = waiting.pop()
            if id(node) in done:
                continue
            if ready:
                done.add(id(node))
                result.append(node)
            else:
                waiting.append((node, True))
                waiting.extend((s.node, False) for s in reversed(node.sources))
    return result


def frozen(
    name: str,
    results: Sequence[Node],
    sinks: Sequence[Node],
    parameters: Sequence[Node],
    extras: tuple[XmlElement, ...],
    source: str,
) -> tuple[CoreModel, list[Node]]:
    """uncork's model of nodes, with types and shapes inferred, and the nodes in its order.

    Raises ValidationError with every layer that does not fit.
    """
    nodes = ordered([*parameters, *sinks, *results])
    numbers = {id(node): number for number, node in enumerate(nodes)}
    stray = [n for n in nodes if isinstance(n, Parameter) and all(n is not p for p in parameters)]
    if stray:
        raise ValidationError(
            f"{stray[0]!r} is read and is no parameter of the model: name it among its parameters",
            f"model '{name}'",
        )
    layers = tuple(_layer(node, number, numbers) for number, node in enumerate(nodes))
    model = CoreModel(
        name=name,
        ir_version=11,
        nodes=layers,
        parameters=tuple(numbers[id(n)] for n in parameters),
        results=tuple(numbers[id(n)] for n in results),
        sinks=tuple(numbers[id(n)] for n in sinks),
        extras=extras,
        source=source,
    )
    made, problems = infer(model, trust_ports=True)
    ValidationError.when_any(source, problems)
    return made, nodes


def _layer(node: Node, number: int, numbers: dict[int, int]) -> CoreNode:
    operation, record = node.operation, node.record
    ports = tuple(
        Port(spec, tuple(names), record.outputs[i].extras)
        if record is not None and i < len(record.outputs)
        else Port(spec, tuple(names))
        for i, (spec, names) in enumerate(zip(node.specs, node.tensor_names, strict=True))
    )
    inputs = tuple(Source(numbers[id(s.node)], s.index) for s in node.sources)
    if isinstance(node, Result):
        ports = ()
    if record is not None:
        changed = operation is not record.operation
        attributes = {**record.attributes, **operation.to_text()} if changed else record.attributes
        kept = record.input_extras if len(record.inputs) == len(inputs) else ()
        # Its names are those of the tensor that it takes by now.
        own = () if isinstance(node, Result) else record.layer_attributes
        return replace(
            record,
            id=number,
            name=node.get_friendly_name(),
            attributes=attributes,
            inputs=inputs,
            outputs=ports,
            operation=operation,
            layer_attributes=own,
            input_extras=kept,
        )
    name = node.get_friendly_name()
    return node_of(number, name, operation, inputs, ports, graphs_of(operation))


def info_of(extras: Sequence[XmlElement]) -> dict[str, Any]:
    """What a file says beside its layers, as nested dictionaries."""
    found: dict[str, Any] = {}
    for element in extras:
        if element.tag == "rt_info":
            found.update(_children(element))
    return found


def _children(element: XmlElement) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for child in element.children:
        attributes = dict(child.attributes)
        key = attributes.get("name", child.tag) if child.tag == "info" else child.tag
        made[key] = _children(child) if child.children else attributes.get("value", "")
    return made


def extras_with(extras: Sequence[XmlElement], info: dict[str, Any]) -> tuple[XmlElement, ...]:
    """What a file says beside its layers, with this runtime information."""
    if info == info_of(extras):
        return tuple(extras)
    others = tuple(e for e in extras if e.tag != "rt_info")
    return (*others, XmlElement("rt_info", children=_elements(info)))


def _elements(info: dict[str, Any]) -> tuple[XmlElement, ...]:
    return tuple(_element(key, value) for key, value in info.items())


def _element(key: str, value: Any) -> XmlElement:
    # A name that XML does not take as a tag is told by an attribute.
    is_tag = re.fullmatch(r"[A-Za-z_][\w.-]*", key, re.ASCII) is not None
    tag, named = (key, ()) if is_tag else ("info", (("name", key),))
    if isinstance(value, dict):
        return XmlElement(tag, named, children=_elements(value))
    return XmlElement(tag, (*named, ("value", _text(value))))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
