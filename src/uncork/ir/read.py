"""`model.xml` to `Model`: structure, attributes and constants. Every problem of the file is found, not only the first.

What the shapes and types have to say is checked afterwards, by `validate`. Format: IR versions 10 and 11.
"""

from __future__ import annotations

import difflib
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uncork import storage
from uncork.errors import Problem, ReadError, UncorkError, UnsupportedError, ValidationError
from uncork.ir import xml
from uncork.ir.bodies import attach
from uncork.ir.model import Model, Node, Port, Source, XmlElement, split_names
from uncork.ir.weights import Weights
from uncork.ops import Operation, find, type_names, versions_of
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import DYNAMIC, Dimension, ElementType, PartialShape, TensorSpec

#: Layer types that the file spells differently from OpenVINO's class names.
_SPELLINGS = {"Constant": "Const", "Relu": "ReLU", "PRelu": "PReLU", "Softmax": "SoftMax"}
#: Sub-graphs in sub-graphs: deeper than any converter nests them.
_MAX_BODIES = 32
_SINKS = frozenset({"Assign"})


@dataclass
class Findings:
    """Everything wrong with a file, and every operation that is missing, in the order found."""

    problems: list[Problem] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)

    def add(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))

    def all(self) -> list[Problem]:
        """The problems, then one for each missing operation with its layers."""
        return self.problems + [Problem("", _missing_text(operation, layers)) for operation, layers in self.missing.items()]

    def raise_if_any(self, subject: str) -> None:
        """One error for all: UnsupportedError when nothing but operations is missing, else the class that fits."""
        if self.problems:
            raise ValidationError.of_all(subject, self.all())
        if self.missing:
            raise UnsupportedError.of_all(subject, self.all())


def _missing_text(operation: str, layers: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in layers[:5]) + (f" and {len(layers) - 5} more" if len(layers) > 5 else "")
    return f"operation {operation} is not supported ({'layer' if len(layers) == 1 else 'layers'} {shown}){_advice(operation)}"


def _advice(operation: str) -> str:
    type_name, _, opset = operation.partition("@")
    versions = versions_of(type_name)
    if versions:
        return (
            f"; {type_name} is known from opset{min(versions)} on" if _opset_number(opset) is not None else f"; no extension '{opset}' is known"
        )
    near = {n.lower(): n for n in type_names()}.get(type_name.lower()) or next(
        iter(difflib.get_close_matches(type_name, type_names(), 1)), None
    )
    return f"; did the file mean {near}?" if near else ""


def read_structure(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> tuple[Model, Findings]:
    """The model as far as it can be read, and everything that is wrong with it.

    Raises ReadError when there is no model at all: the file is missing, is not XML, or is not an IR of version 10 or 11.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", str(path)) from None
    try:
        root = xml.parse(data)
        version = _ir_version(root)
        for legacy in ("pre-process", "statistics"):
            if root.find(legacy) is not None:
                raise ReadError(f"has a <{legacy}> section, which would change the inputs and is not supported; convert the model again")
    except UncorkError as error:
        raise error.at(str(path)) from None
    findings = Findings()
    reader = _Reader(version, Weights(Path(weights) if weights is not None else path.with_suffix(".bin")), findings)
    model = reader.graph(root, root.get("name", ""), str(path), depth=0)
    return model, findings


def _ir_version(root: ElementTree.Element) -> int:
    if root.tag != "net":
        raise ReadError(f"expected <net> as the outermost element of an IR file, got <{root.tag}>")
    text = root.get("version", "")
    if text not in ("10", "11"):
        hint = ": convert the model with a current OpenVINO" if text.isdigit() and int(text) < 10 else ""
        raise ReadError(f"expected IR version 10 or 11, got {repr(text) if text else 'none'}{hint}")
    return int(text)


@dataclass
class _Layer:
    """A <layer>, its ports by id, before it is known whether anything needs it."""

    element: ElementTree.Element
    id: int
    name: str
    type_name: str
    opset: str
    inputs: list[int]
    outputs: list[int]

    @property
    def label(self) -> str:
        return f"layer '{self.name}' ({self.type_name}@{self.opset}, id {self.id})"


@dataclass
class _Reader:
    version: int
    weights: Weights
    findings: Findings

    def graph(self, net: ElementTree.Element, name: str, source: str, depth: int, place: str = "") -> Model:
        """A <net> or a body: its layers that a Result or an Assign needs, in an order that can be run."""
        layers = self._layers(net, place)
        sources = self._edges(net, layers, place)
        order = self._ordered(layers, sources, place)
        nodes: list[Node] = []
        for layer_id in order:
            arguments = [sources.get((layer_id, position)) for position in range(len(layers[layer_id].inputs))]
            for position, argument in enumerate(arguments):
                if argument is None:
                    self.findings.add(place + layers[layer_id].label, f"input port {layers[layer_id].inputs[position]} has no edge")
            nodes.append(self._node(layers[layer_id], tuple(a for a in arguments if a is not None), depth, place))
        reached = set(order)
        in_file = [i for i in layers if i in reached]
        if not any(layers[i].type_name == "Result" or layers[i].type_name in _SINKS for i in layers):
            self.findings.add(place.rstrip(": "), "has no Result layer: there is nothing to compute")
        self._check_variables(nodes, place)
        return Model(
            name=name,
            ir_version=self.version,
            nodes=tuple(nodes),
            parameters=tuple(i for i in in_file if layers[i].type_name == "Parameter"),
            results=tuple(i for i in in_file if layers[i].type_name == "Result"),
            sinks=tuple(i for i in in_file if layers[i].type_name in _SINKS),
            extras=tuple(xml.frozen(e) for e in net if e.tag not in ("layers", "edges")),
            source=source,
        )

    def _check_variables(self, nodes: list[Node], place: str) -> None:
        known = {n.operation.variable_id for n in nodes if isinstance(n.operation, ReadValue3)}
        for node in nodes:
            if isinstance(node.operation, Assign3) and node.operation.variable_id not in known:
                self.findings.add(place + node.label, f"assigns to variable '{node.operation.variable_id}', which no ReadValue reads")

    def _layers(self, net: ElementTree.Element, place: str) -> dict[int, _Layer]:
        layers: dict[int, _Layer] = {}
        container = net.find("layers")
        if container is None:
            self.findings.add(place.rstrip(": "), "has no <layers>")
            return layers
        for number, element in enumerate(container):
            name, type_name, opset = element.get("name", ""), element.get("type", ""), element.get("version", "")
            type_name = _SPELLINGS.get(type_name, type_name)
            where = f"{place}layer '{name}'" if name else f"{place}layer number {number}"
            layer_id = _unsigned(element.get("id"))
            if element.tag != "layer" or layer_id is None or not type_name or not opset:
                self.findings.add(where, "expected <layer> with an id (a number), a type and a version such as opset8")
                continue
            if layer_id in layers:
                self.findings.add(where, f"id {layer_id} is already that of layer '{layers[layer_id].name}'")
                continue
            inputs = self._port_ids(element, "input", where)
            outputs = self._port_ids(element, "output", where)
            layers[layer_id] = _Layer(element, layer_id, name, type_name, opset, inputs, outputs)
        return layers

    def _port_ids(self, element: ElementTree.Element, direction: str, where: str) -> list[int]:
        ids: list[int] = []
        for port in element.iterfind(f"{direction}/port"):
            port_id = _unsigned(port.get("id"))
            if port_id is None or port_id in ids:
                self.findings.add(where, f"{direction} port id: expected a number not used before, got {port.get('id')!r}")
                port_id = -1 - len(ids)
            ids.append(port_id)
        return ids

    def _edges(self, net: ElementTree.Element, layers: dict[int, _Layer], place: str) -> dict[tuple[int, int], Source]:
        """For each (layer, input position) the output it reads."""
        sources: dict[tuple[int, int], Source] = {}
        for element in net.iterfind("edges/edge"):
            texts = [element.get(a) for a in ("from-layer", "from-port", "to-layer", "to-port")]
            numbers = [_unsigned(t) for t in texts]
            where = f"{place}edge {texts[0]}:{texts[1]} -> {texts[2]}:{texts[3]}"
            from_layer, from_port, to_layer, to_port = numbers
            if from_layer is None or from_port is None or to_layer is None or to_port is None:
                self.findings.add(where, "expected four numbers: from-layer, from-port, to-layer, to-port")
                continue
            absent = [i for i in (from_layer, to_layer) if i not in layers]
            if absent:
                self.findings.add(where, f"there is no layer with id {absent[0]}")
                continue
            if from_port not in layers[from_layer].outputs:
                self.findings.add(where, f"{layers[from_layer].label} has no output port {from_port}; it has {layers[from_layer].outputs}")
                continue
            if to_port not in layers[to_layer].inputs:
                self.findings.add(where, f"{layers[to_layer].label} has no input port {to_port}; it has {layers[to_layer].inputs}")
                continue
            target = (to_layer, layers[to_layer].inputs.index(to_port))
            if target in sources:
                self.findings.add(where, f"input port {to_port} of {layers[to_layer].label} has an edge already")
                continue
            sources[target] = Source(from_layer, layers[from_layer].outputs.index(from_port))
        return sources

    def _ordered(self, layers: dict[int, _Layer], sources: dict[tuple[int, int], Source], place: str) -> list[int]:
        """The layers that a Result or an Assign needs (and all Parameters), each after its inputs. Iterative: chains are long."""
        order: list[int] = []
        done: set[int] = set()
        open_layers: set[int] = set()
        starts = [i for i, layer in layers.items() if layer.type_name in ("Parameter", "Result") or layer.type_name in _SINKS]
        for start in starts:
            stack: list[tuple[int, Iterator[int]]] = []

            def visit(layer_id: int, stack: list[tuple[int, Iterator[int]]] = stack) -> None:
                if layer_id in done:
                    return
                if layer_id in open_layers:
                    inside = [i for i, _ in stack]
                    cycle = inside[inside.index(layer_id) :]
                    names = " -> ".join(f"'{layers[i].name}'" for i in reversed(cycle[:6]))
                    self.findings.add(place + layers[layer_id].label, f"is its own input: the layers {names} form a cycle")
                    return
                open_layers.add(layer_id)
                count = len(layers[layer_id].inputs)
                inputs = (sources[(layer_id, p)].node for p in range(count) if (layer_id, p) in sources)
                stack.append((layer_id, iter(list(inputs))))

            visit(start)
            while stack:
                layer_id, remaining = stack[-1]
                following = next(remaining, None)
                if following is not None:
                    visit(following)
                    continue
                stack.pop()
                open_layers.discard(layer_id)
                done.add(layer_id)
                order.append(layer_id)
        return order

    def _node(self, layer: _Layer, arguments: tuple[Source, ...], depth: int, place: str) -> Node:
        element = layer.element
        data = element.find("data")
        attributes = dict(data.attrib) if data is not None else {}
        bodies: list[tuple[str, Model]] = []
        extras: list[XmlElement] = []
        for child in element:
            if child.tag.endswith("body"):
                if depth >= _MAX_BODIES:
                    self.findings.add(place + layer.label, f"sub-graphs are nested more than {_MAX_BODIES} deep")
                    continue
                inner = f"{place}{layer.label} <{child.tag}>: "
                bodies.append((child.tag, self.graph(child, layer.name, child.tag, depth + 1, inner)))
            elif child.tag not in ("data", "input", "output"):
                extras.append(xml.frozen(child))
        ports = tuple(self._port(port, place + layer.label, position) for position, port in enumerate(element.iterfind("output/port")))
        return Node(
            id=layer.id,
            name=layer.name,
            type_name=layer.type_name,
            opset=layer.opset,
            attributes=attributes,
            inputs=arguments,
            outputs=self._with_version_10_names(layer, ports),
            operation=self._operation(layer, attributes, bodies, place),
            bodies=tuple(bodies),
            extras=tuple(extras),
            layer_attributes=tuple((k, v) for k, v in element.attrib.items() if k not in ("id", "name", "type", "version")),
        )

    def _with_version_10_names(self, layer: _Layer, ports: tuple[Port, ...]) -> tuple[Port, ...]:
        """Version 10 has no tensor names: there the layer's own name, with the port when there are several, serves as one."""
        if self.version != 10:
            return ports
        own = [layer.name] if len(ports) == 1 else [f"{layer.name}.{i}" for i in range(len(ports))]
        return tuple(Port(p.spec, tuple(dict.fromkeys((*p.names, n))), p.extras) for p, n in zip(ports, own))

    def _port(self, element: ElementTree.Element, where: str, position: int) -> Port:
        element_type = ElementType.f32
        precision = element.get("precision")
        try:
            element_type = ElementType.parse(precision or "")
        except KeyError:
            self.findings.add(where, f"output {position}: expected a precision such as FP32 or I64, got {precision!r}")
        dims: list[Dimension] = []
        for dim in element.iterfind("dim"):
            text = (dim.text or "").strip()
            size = DYNAMIC if text == "-1" else _unsigned(text)
            if size is None:
                self.findings.add(where, f"output {position}: expected a dimension of -1 or more, got '{text[:40]}'")
                size = DYNAMIC
            dims.append(Dimension.of(size))
        extras = tuple(xml.frozen(e) for e in element if e.tag != "dim")
        return Port(TensorSpec(element_type, PartialShape(dims)), split_names(element.get("names", "")), extras)

    def _operation(self, layer: _Layer, attributes: dict[str, str], bodies: Sequence[tuple[str, Model]], place: str) -> Operation | None:
        number = _opset_number(layer.opset)
        cls = find(layer.type_name, number) if number is not None else None
        if cls is None:
            self.findings.missing.setdefault(f"{layer.type_name}@{layer.opset}", []).append(layer.name)
            return None
        try:
            operation = cls.from_text(attributes)
            if isinstance(operation, Const):
                self._read_constant(operation, attributes)
            elif isinstance(operation, SubGraphOperation):
                attach(operation, layer.element, bodies, layer.inputs, layer.outputs)
            elif place and isinstance(operation, (ReadValue3, Assign3)):
                raise UnsupportedError("a variable inside a sub-graph is not supported")
            return operation
        except UncorkError as error:
            self.findings.add(place + layer.label, error.message)
            return None

    def _read_constant(self, constant: Const, attributes: dict[str, str]) -> None:
        numbers: list[int] = []
        for name in ("offset", "size"):
            number = _unsigned(attributes.get(name))
            if number is None:
                raise ReadError(f"attribute '{name}': expected a number of bytes, got {attributes.get(name)!r}")
            numbers.append(number)
        offset, size = numbers
        needed = storage.packed_size(constant.element_type, constant.count)
        if size < needed:
            raise ReadError(f"expected {needed} bytes for {constant.element_type}[{constant.shape.format()}], the attribute 'size' says {size}")
        data = self.weights.slice(offset, size) if size else memoryview(b"")
        values = storage.unpack(data, constant.element_type, constant.count)
        constant.value = values.reshape(constant.shape.static)


_UNSIGNED = re.compile(r"\s*\d{1,40}\s*", re.ASCII)
_OPSET = re.compile(r"opset(\d{1,4})", re.ASCII)


def _unsigned(text: str | None) -> int | None:
    return int(text) if text is not None and _UNSIGNED.fullmatch(text) else None


def _opset_number(opset: str) -> int | None:
    # Early converters wrote these two words for operations that opset6 then took over.
    if opset in ("experimental", "extension"):
        return 6
    match = _OPSET.fullmatch(opset)
    return int(match.group(1)) if match else None


def missing_operations(findings: Findings) -> Iterable[str]:
    """`type@opset` of everything that is not supported."""
    return tuple(findings.missing)
