"""Sub-graphs of If, Loop and TensorIterator: their port maps from and to the file, and a graph that can be run as a body."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from uncork.concurrency import lazy
from uncork.errors import ReadError, UncorkError, ValidationError
from uncork.ir.diagnostics import listed
from uncork.ir.interpret import interpret
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.ops._common.body import Body, BodyInput, BodyMap, BodyOutput, Slicing, SubGraphOperation
from uncork.symbolic import facts_of
from uncork.types import Array, TensorSpec


class GraphBody:
    """A `Model` as the body of a layer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._described: dict[Hashable, tuple[TensorSpec, ...]] = {}

    @lazy
    def input_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(self.model.by_id[p].outputs[0].spec for p in self.model.parameters)

    @property
    def output_count(self) -> int:
        return len(self.model.results)

    def describe(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Specs of the results, inner layers named in the error when these inputs do not fit."""
        for number, (given, declared) in enumerate(zip(inputs, self.input_specs)):
            name = self.model.by_id[self.model.parameters[number]].name
            if given.element_type is not declared.element_type or not given.shape.compatible(declared.shape):
                raise ValidationError(f"parameter '{name}' of the body: expected {declared}, got {given}")
        # Bodies in bodies are described several times by each layer around them: without this memory the cost is exponential.
        key = (id(self), *((s.element_type, s.shape) for s in inputs))
        facts = facts_of(d.expression for s in inputs if s.rank is not None for d in s.shape)
        memory = self._described if facts is None else facts.described
        plain = all(s.value is None and s.elements is None for s in inputs)
        if plain and key in memory:
            return memory[key]
        checked, problems = infer(self.model, dict(zip(self.model.parameters, inputs)), trust_ports=True)
        if problems:
            raise ValidationError.of_all("", problems)
        results = tuple(checked.spec(checked.by_id[r].inputs[0]) for r in checked.results)
        if plain:
            memory[key] = results
        return results

    def check(self, inputs: Sequence[Array]) -> None:
        """Refuse arrays that the body's parameters do not take."""
        for array, declared, parameter in zip(inputs, self.input_specs, self.model.parameters):
            if not declared.shape.contains(array.shape):
                name = self.model.by_id[parameter].name
                raise ValidationError(f"parameter '{name}' of the body: expected shape {declared.shape}, got {list(array.shape)}")

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Carrier arrays of the results."""
        self.check(inputs)
        return interpret(self.model, inputs)

    def configured(self, strict: bool, loop_limit: int | None, direct_sums: bool = False) -> Body:
        return GraphBody(configure(self.model, strict, loop_limit, direct_sums))


def configure(model: Model, strict: bool, loop_limit: int | None, direct_sums: bool = False) -> Model:
    """The model with options of `compile_model` set on every operation, those in bodies included."""
    if not strict and loop_limit is None and not direct_sums:
        return model
    nodes = []
    variable: set[int] = set()  # nodes whose results differ from call to call
    for node in model.nodes:
        operation = node.operation
        varies = operation is None or not operation.deterministic or node.type_name == "Parameter"
        if varies or any(source.node in variable for source in node.inputs):
            variable.add(node.id)
        if isinstance(operation, SubGraphOperation):
            operation = operation.configured(strict, loop_limit, direct_sums)
        if operation is not None and direct_sums and operation.multiplies:
            operation = operation.with_direct_sums()
        if operation is None or not strict or isinstance(operation, SubGraphOperation):
            pass
        elif operation.strict_on_constants or node.id in variable:
            operation = operation.with_strict()
        nodes.append(replace(node, operation=operation))
    return replace(model, nodes=tuple(nodes))


def attach(
    operation: SubGraphOperation,
    element: ElementTree.Element,
    bodies: Sequence[tuple[str, Model]],
    input_ports: Mapping[int, int],
    output_ports: Mapping[int, int],
) -> None:
    """Give an operation the bodies of its <layer>, joined as the port maps say. Raises ReadError or ValidationError."""
    maps: dict[str, BodyMap] = {}
    for tag, model in bodies:
        prefix = tag.removesuffix("body")  # "", "then_", "else_"
        port_map = element.find(f"{prefix}port_map")
        if port_map is None:
            raise ReadError(f"has no <{prefix}port_map>")
        edges = element.findall("back_edges/edge")
        maps[tag] = _read_map(port_map, edges, model, input_ports, output_ports)
    operation.attach(maps)


def _read_map(
    port_map: ElementTree.Element,
    edges: Sequence[ElementTree.Element],
    model: Model,
    input_ports: Mapping[int, int],
    output_ports: Mapping[int, int],
) -> BodyMap:
    parameters, results = ({layer: i for i, layer in enumerate(layers)} for layers in (model.parameters, model.results))
    inputs = tuple(
        BodyInput(
            _external(entry, input_ports, "input"),
            _inner(entry, "internal_layer_id", parameters, "Parameter"),
            _slicing(entry),
            entry.get("purpose", ""),
        )
        for entry in port_map.iterfind("input")
    )
    outputs = tuple(
        BodyOutput(
            _external(entry, output_ports, "output"),
            _inner(entry, "internal_layer_id", results, "Result"),
            _slicing(entry),
            entry.get("purpose", ""),
        )
        for entry in port_map.iterfind("output")
    )
    for entry in inputs:
        if entry.port is None and entry.purpose != "current_iteration":
            raise ReadError("port map: an input that comes from no port must have purpose 'current_iteration'")
    back_edges = tuple((_inner(edge, "from-layer", results, "Result"), _inner(edge, "to-layer", parameters, "Parameter")) for edge in edges)
    return BodyMap(GraphBody(model), inputs, outputs, back_edges)


def _number(element: ElementTree.Element, name: str, default: int | None = None) -> int:
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        if text is None or len(text) > 20:
            raise ValueError(text)
        return int(text)
    except ValueError:
        raise ReadError(f"<{element.tag}> of the port map: attribute '{name}': expected an integer, got {text!r}") from None


def _external(entry: ElementTree.Element, ports: Mapping[int, int], direction: str) -> int | None:
    port = _number(entry, "external_port_id")
    if port == -1:
        return None
    if port not in ports:
        raise ReadError(f"port map: the layer has no {direction} port {port}; it has {listed(ports)}")
    return ports[port]


def _inner(entry: ElementTree.Element, attribute: str, layers: Mapping[int, int], kind: str) -> int:
    layer = _number(entry, attribute)
    if layer not in layers:
        raise ReadError(f"port map: the body has no {kind} layer with id {layer}; it has {listed(layers)}")
    return layers[layer]


def _slicing(entry: ElementTree.Element) -> Slicing | None:
    if entry.get("axis") is None:
        return None
    start, end = _number(entry, "start", 0), _number(entry, "end", -1)
    slicing = Slicing(_number(entry, "axis"), start, end, _number(entry, "stride", 1), _number(entry, "part_size", 1))
    if slicing.stride == 0 or slicing.part_size < 1:
        raise ReadError(f"port map: stride must not be 0 and part_size at least 1, got stride {slicing.stride}, part_size {slicing.part_size}")
    return slicing


def write_maps(layer: ElementTree.Element, operation: SubGraphOperation, input_count: int) -> None:
    """The port maps and back edges of a <layer>, with its ports numbered from 0, inputs first."""
    for tag, body in operation.bodies.items():
        if not isinstance(body.body, GraphBody):
            raise UncorkError(f"<{tag}> is not a graph that can be written")
        model = body.body.model
        port_map = ElementTree.SubElement(layer, f"{tag.removesuffix('body')}port_map")
        for i in body.inputs:
            _write_entry(port_map, "input", -1 if i.port is None else i.port, model.parameters[i.parameter], i)
        for o in body.outputs:
            _write_entry(port_map, "output", -1 if o.port is None else input_count + o.port, model.results[o.result], o)
        if body.back_edges:
            edges = ElementTree.SubElement(layer, "back_edges")
            for result, parameter in body.back_edges:
                numbers = {"from-layer": str(model.results[result]), "to-layer": str(model.parameters[parameter])}
                ElementTree.SubElement(edges, "edge", numbers)


def _write_entry(port_map: ElementTree.Element, tag: str, port: int, layer: int, entry: BodyInput | BodyOutput) -> None:
    attributes = {"external_port_id": str(port), "internal_layer_id": str(layer)}
    if entry.slicing is not None:
        s = entry.slicing
        attributes |= {"axis": str(s.axis), "start": str(s.start), "end": str(s.end), "stride": str(s.stride), "part_size": str(s.part_size)}
    if entry.purpose:
        attributes["purpose"] = entry.purpose
    ElementTree.SubElement(port_map, tag, attributes)
