"""`model.xml` to `Model`: structure, attributes and constants. Every problem of the file is found, not only the first.

What the shapes and types have to say is checked afterwards, by `validate`. Format: IR versions 10 and 11.
"""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from uncork import files, storage
from uncork.errors import Label, ReadError, UncorkError, UnsupportedError, shortened
from uncork.internal_ops.quantized_lookup import PackedConst
from uncork.ir import foreign, xml
from uncork.ir.diagnostics import Findings, Refused, inputs_of, listed, opset_number, ports_of, shown, unsigned
from uncork.ir.model import Model, Node, Port, Source, XmlElement, split_names
from uncork.ir.subgraphs import with_bodies
from uncork.ir.validate import agree, settled
from uncork.ir.weights import MissingBytes, Weights
from uncork.ops import Operation, find
from uncork.ops._body import SubGraphOperation
from uncork.ops._operation import FOLD_LIMIT
from uncork.ops.parameter import Const
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec

#: Layer types that the file spells differently from OpenVINO's class names.
_SPELLINGS = {"Constant": "Const", "Relu": "ReLU", "PRelu": "PReLU", "Softmax": "SoftMax"}
#: Operations that came with opset2 though early converters wrote them as opset1.
_SINCE_2 = frozenset({"MVN", "ROIPooling", "ReorgYolo"})
#: Sub-graphs in sub-graphs: deeper than any converter nests them.
_MAX_BODIES = 32
_SINKS = frozenset({"Assign"})
#: An IR file of a model with 100,000 layers has a tenth of this.
_MOST_BYTES = 1 << 30
#: Bytes that tell what a file is that is no XML.
_HEAD = 1 << 16


def read_structure(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None, mmap: bool = True) -> tuple[Model, Findings]:
    """The model as far as it can be read, and everything that is wrong with it. `mmap`: large weights are mapped, not copied.

    Raises ReadError when there is no model at all: the file is missing, is not XML, or is not an IR of version 10 or 11.
    """
    path = Path(path)
    data = _contents(path)
    try:
        root = xml.parse(data)
        version = _ir_version(root)
        for legacy in ("pre-process", "statistics"):
            if root.find(legacy) is not None:
                raise ReadError(f"has a <{legacy}> section, which would change the inputs and is not supported; convert the model again")
    except UncorkError as error:
        raise error.at(str(path)) from None
    findings = Findings(extension=_extension(root))
    reader = _Reader(version, Weights(Path(weights) if weights is not None else path.with_suffix(".bin"), mmap), findings)
    model = reader.graph(root, root.get("name", ""), str(path), depth=0)
    lacking = reader.weights.problem(root, sound=not findings.problems)
    if lacking is not None:
        findings.add(lacking.where, lacking.message)
    return model, findings


def _contents(path: Path) -> bytes:
    """The bytes of a model.xml. Raises ReadError that says what is there instead."""
    try:
        with files.opened(path) as file:
            head = file.read(_HEAD)
        known = "" if _looks_like_xml(head) else foreign.describe(path, head)
        if known:
            raise ReadError(known, str(path))
        return files.read_whole(path, _MOST_BYTES)
    except OSError as error:
        known = foreign.describe(path) if path.is_dir() else ""
        beside = Path(f"{path}.xml")
        hint = f"; is it '{beside}'?" if not path.exists() and beside.is_file() else ""
        raise ReadError(known or f"cannot be read: {error.strerror or error}{hint}", str(path)) from None


def _looks_like_xml(head: bytes) -> bool:
    """Whether the first letter is <, in any encoding that XML may have."""
    return head.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"


def _extension(root: ElementTree.Element) -> str:
    """The package of OpenVINO's extensions that wrote the model, which its runtime information names by its version."""
    names = (child.tag.removesuffix("_version") for child in root.iterfind("rt_info/*") if child.tag.endswith("_version"))
    return next((name for name in names if name.startswith("openvino_")), "")


def _ir_version(root: ElementTree.Element) -> int:
    if root.tag != "net":
        raise ReadError(f"expected <net> as the outermost element of an IR file, got <{shortened(root.tag)}>")
    text = root.get("version", "")
    if text not in ("10", "11"):
        hint = ": convert the model with a current OpenVINO" if (unsigned(text) or 10) < 10 else ""
        raise ReadError(f"expected IR version 10 or 11, got {shown(text) if text else 'none'}{hint}")
    return int(text)


@dataclass
class _Layer:
    """A <layer> before it is known whether anything needs it. `inputs` and `outputs` are the positions of its ports, by id."""

    element: ElementTree.Element
    id: int
    name: str
    type_name: str
    opset: str
    input_ports: list[ElementTree.Element]
    output_ports: list[ElementTree.Element]
    inputs: dict[int, int]
    outputs: dict[int, int]
    #: What is wrong with it in itself; reported when something needs the layer, or cannot find a port of it.
    problems: list[str]

    @property
    def label(self) -> str:
        return Label(f"layer '{shortened(self.name)}' ({shortened(f'{self.type_name}@{self.opset}')}, id {self.id})", self.name)


@dataclass
class _Reader:
    version: int
    weights: Weights
    findings: Findings
    #: Good ports read before, by what they say: most ports of a file say what another said.
    ports: dict[tuple[str | None, ...], Port] = field(default_factory=dict)
    #: Outputs that layers read otherwise than they are said to be, with the inputs that were the first to do so.
    disputed: dict[tuple[str, int, int, str], str] = field(default_factory=dict)

    def graph(self, net: ElementTree.Element, name: str, source: str, depth: int, place: str = "") -> Model:
        """A <net> or a body: its layers that a Result or an Assign needs, in an order that can be run."""
        refused = Refused()
        layers = self._layers(net, place, refused)
        sources = self._edges(net, layers, place, refused)
        order = self._ordered(layers, sources, place)
        nodes: dict[int, Node] = {}
        for layer_id in order:
            layer = layers[layer_id]
            arguments = [sources.get((layer_id, position)) for position in range(len(layer.inputs))]
            without = [i for i, a in zip(layer.inputs, arguments) if a is None]
            node = self._node(layer, tuple(a for a in arguments if a is not None), depth, place)
            # With an input missing, what inference says of the others would be about the wrong ports.
            incomplete = None in arguments or layer_id in refused.readers
            nodes[layer_id] = replace(node, operation=None) if incomplete else node
            self._report(layer, place)
            for port_id in without:
                where = place + layer.label
                explained_by = [ports_of(where)] if port_id < 0 else refused.edge_to(layer_id, port_id)
                self.findings.add(where, f"input port {port_id} has no edge", explained_by=explained_by)
            self._check_input_ports(layer, arguments, nodes, place)
        in_file = [i for i in layers if i in nodes]
        if not any(layers[i].type_name == "Result" or layers[i].type_name in _SINKS for i in layers):
            message = "has no Result layer: there is nothing to compute"
            self.findings.add(place.rstrip(": "), message, f"{place}results", refused.layers.values())
        self._check_variables(nodes.values(), place)
        return Model(
            name=name,
            ir_version=self.version,
            nodes=tuple(nodes.values()),
            parameters=tuple(i for i in in_file if layers[i].type_name == "Parameter"),
            results=tuple(i for i in in_file if layers[i].type_name == "Result"),
            sinks=tuple(i for i in in_file if layers[i].type_name in _SINKS),
            extras=tuple(xml.frozen(e) for e in net if e.tag not in ("layers", "edges")),
            source=source,
        )

    def _report(self, layer: _Layer, place: str) -> None:
        where = place + layer.label
        for problem in layer.problems:
            self.findings.add(where, problem, ports_of(where))
        layer.problems.clear()

    def _check_input_ports(self, layer: _Layer, arguments: Sequence[Source | None], nodes: Mapping[int, Node], place: str) -> None:
        """What the file says at the end of an edge must not contradict what it says at its beginning."""
        for position, (element, source) in enumerate(zip(layer.input_ports, arguments)):
            said = self._port(element, f"input {position}", place + layer.label, precision_needed=False)
            if source is None or source.node not in nodes:  # reported as a missing edge, or as a cycle
                continue
            producer = nodes[source.node]
            given = producer.outputs[source.output]
            if said.spec is given.spec:
                continue
            # Without dimensions: a scalar, or of unknown rank.
            contradicts = given.spec.rank != 0 and not agree(said.spec.shape, given.spec.shape)
            typed = said.typed and given.typed
            if contradicts or (typed and said.spec.element_type is not given.spec.element_type):
                self._contradiction(place, nodes[layer.id], position, said.spec, producer, source.output)

    def _contradiction(self, place: str, node: Node, position: int, said: TensorSpec, producer: Node, output: int) -> None:
        """What a layer is said to read is not what the layer before is said to give.

        That is explained by a problem of the layer before, and is one mistake with other layers that read the same so.
        """
        where = place + node.label
        key, subject = (place, producer.id, output, str(said)), inputs_of(where)
        first = self.disputed.get(key)
        if first == subject:
            return
        self.disputed.setdefault(key, subject)
        explained_by = [place + producer.label, *([first] if first else [])]
        given = producer.outputs[output].spec
        message = f"input {position}: the file says {said} here and {given} at output {output} of {producer.label}"
        self.findings.add(where, message, subject, explained_by)

    def _check_variables(self, nodes: Iterable[Node], place: str) -> None:
        # Also one that cannot be read for another reason reads its variable.
        known = {n.attributes.get("variable_id") for n in nodes if n.type_name == "ReadValue"}
        for node in nodes:
            if isinstance(node.operation, Assign3) and node.operation.variable_id not in known:
                name = shortened(node.operation.variable_id)
                self.findings.add(place + node.label, f"assigns to variable '{name}', which no ReadValue reads")

    def _layers(self, net: ElementTree.Element, place: str, refused: Refused) -> dict[int, _Layer]:
        layers: dict[int, _Layer] = {}
        container = net.find("layers")
        if container is None:
            self.findings.add(place.rstrip(": "), "has no <layers>", f"{place}layers")
            refused.layers[None] = f"{place}layers"
            return layers
        for number, element in enumerate(container):
            name, type_name, opset = element.get("name", ""), element.get("type", ""), element.get("version", "")
            type_name = _SPELLINGS.get(type_name, type_name)
            where = f"{place}layer '{shortened(name)}'" if name else f"{place}layer number {number}"
            layer_id = unsigned(element.get("id"))
            if element.tag != "layer" or layer_id is None or not type_name or not opset:
                self.findings.add(where, "expected <layer> with an id (a number), a type and a version such as opset8")
                refused.layers[layer_id] = where
                continue
            if layer_id in layers:
                self.findings.add(where, f"id {layer_id} is already that of layer '{shortened(layers[layer_id].name)}'")
                refused.layers[layer_id] = where
                continue
            problems: list[str] = []
            ins, outs = ([p for part in element if part.tag == tag for p in part if p.tag == "port"] for tag in ("input", "output"))
            inputs, outputs = self._port_ids(ins, "input", problems), self._port_ids(outs, "output", problems)
            layers[layer_id] = _Layer(element, layer_id, name, type_name, opset, ins, outs, inputs, outputs, problems)
        return layers

    def _port_ids(self, ports: Iterable[ElementTree.Element], direction: str, problems: list[str]) -> dict[int, int]:
        ids: dict[int, int] = {}
        for port in ports:
            port_id = unsigned(port.get("id"))
            if port_id is None or port_id in ids:
                problems.append(f"{direction} port id: expected a number not used before, got {shown(port.get('id'))}")
                port_id = -1 - len(ids)
            ids[port_id] = len(ids)
        return ids

    def _edges(self, net: ElementTree.Element, layers: dict[int, _Layer], place: str, refused: Refused) -> dict[tuple[int, int], Source]:
        """For each (layer, input position) the output it reads."""
        sources: dict[tuple[int, int], Source] = {}
        for element in net.iterfind("edges/edge"):
            texts = [element.get(a) for a in ("from-layer", "from-port", "to-layer", "to-port")]
            where = "{}edge {}:{} -> {}:{}".format(place, *(shown(t).strip("'") for t in texts))
            explained_by: list[str] = []
            from_layer, from_port, to_layer, to_port = (unsigned(t) for t in texts)
            if from_layer is None or from_port is None or to_layer is None or to_port is None:
                message = "expected four numbers: from-layer, from-port, to-layer, to-port"
            else:
                message, explained_by = self._wrong_edge(layers, sources, (from_layer, from_port, to_layer, to_port), where, place, refused)
            if message:
                self.findings.add(where, message, explained_by=explained_by)
                end = layers.get(-1 if to_layer is None else to_layer)
                refused.edge(to_layer, to_port if end is None or to_port in end.inputs else None, where)
            elif from_layer is not None and from_port is not None and to_layer is not None and to_port is not None:
                source = Source(from_layer, layers[from_layer].outputs[from_port])
                sources[to_layer, layers[to_layer].inputs[to_port]] = source
        return sources

    def _wrong_edge(
        self,
        layers: Mapping[int, _Layer],
        sources: Mapping[tuple[int, int], Source],
        edge: tuple[int, int, int, int],
        where: str,
        place: str,
        refused: Refused,
    ) -> tuple[str, list[str]]:
        """What is wrong with an edge, "" for nothing, and what explains it."""
        from_layer, from_port, to_layer, to_port = edge
        absent = [i for i in (from_layer, to_layer) if i not in layers]
        if absent:
            # All edges of one layer that is not there are one mistake.
            explained_by = [f"{place}results", *refused.layer(absent[0])]
            first = refused.absent.setdefault(absent[0], where)
            return f"there is no layer with id {absent[0]}", explained_by + [first] * (first != where)
        begin, end = layers[from_layer], layers[to_layer]
        if begin.type_name == "Result":
            return f"{begin.label} is where a value leaves the model: no layer can read it there", []
        for layer, kind, ports, port in ((begin, "output", begin.outputs, from_port), (end, "input", end.inputs, to_port)):
            if port not in ports:
                self._report(layer, place)
                explained_by = [ports_of(place + layer.label), *refused.layer(layer.id)]
                return f"{layer.label} has no {kind} port {port}; it has {listed(ports)}", explained_by
        if (to_layer, end.inputs[to_port]) in sources:
            return f"input port {to_port} of {end.label} has an edge already", refused.layer(to_layer)
        return "", []

    def _ordered(self, layers: dict[int, _Layer], sources: dict[tuple[int, int], Source], place: str) -> list[int]:
        """The layers that a Result or an Assign needs (and all Parameters), each after its inputs. Iterative: chains are long."""
        order: list[int] = []
        done: set[int] = set()
        path: list[int] = []  # from a start to the layer looked at, each an input of the one before
        remaining: list[Iterator[int]] = []  # for each of them, the inputs not looked at yet
        depth_of: dict[int, int] = {}
        needed_by = [i for i, layer in layers.items() if layer.type_name in ("Parameter", "Result") or layer.type_name in _SINKS]
        for start in needed_by:
            following: int | None = start
            while following is not None or path:
                if following is None:
                    done.add(path[-1])
                    order.append(path[-1])
                    del depth_of[path.pop()]
                    remaining.pop()
                elif following in depth_of:
                    cycle = path[depth_of[following] : depth_of[following] + 6]
                    names = " -> ".join(f"'{shortened(layers[i].name)}'" for i in reversed(cycle))
                    self.findings.add(place + layers[following].label, f"is its own input: the layers {names} form a cycle")
                elif following not in done:
                    depth_of[following] = len(path)
                    path.append(following)
                    ports = range(len(layers[following].inputs))
                    remaining.append(iter([sources[following, p].node for p in ports if (following, p) in sources]))
                following = next(remaining[-1], None) if path else None
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
                inner = f"{place}{layer.label} <{shortened(child.tag)}>: "
                bodies.append((child.tag, settled(self.graph(child, layer.name, child.tag, depth + 1, inner))))
            elif child.tag not in ("data", "input", "output"):
                extras.append(xml.frozen(child))
        where = place + layer.label
        said = [self._port(port, f"output {i}", where) for i, port in enumerate(layer.output_ports)]
        outputs = tuple(Port(p.spec, split_names(port.get("names", "")), _extras(port), p.typed) for p, port in zip(said, layer.output_ports))
        if layer.type_name == "Parameter" and not outputs:
            self.findings.add(where, "has no output port", ports_of(where))
            outputs = (Port(TensorSpec(ElementType.f32, PartialShape())),)
        input_extras = tuple(map(_extras, layer.input_ports))
        return Node(
            id=layer.id,
            name=layer.name,
            file_type=layer.type_name,
            opset=layer.opset,
            attributes=attributes,
            inputs=arguments,
            outputs=outputs,
            operation=self._operation(layer, attributes, bodies, place),
            bodies=tuple(bodies),
            extras=tuple(extras),
            layer_attributes=tuple((k, v) for k, v in element.attrib.items() if k not in ("id", "name", "type", "version")),
            input_extras=input_extras if any(input_extras) else (),
        )

    def _port(self, element: ElementTree.Element, port: str, where: str, precision_needed: bool = True) -> Port:
        """What the file says of a port. Of a precision that it leaves open (`dynamic`) nothing is said."""
        element_type = ElementType.f32
        precision = element.get("precision")
        key = (precision, *(dim.text for dim in element if dim.tag == "dim"))
        if key in self.ports:
            return self.ports[key]
        good = typed = True
        try:
            element_type = ElementType.parse(precision or "")
        except KeyError:
            typed = False
            good = (precision or "").strip().lower() in ("dynamic", "undefined")
            if not good and (precision_needed or precision):
                self.findings.add(where, f"{port}: expected a precision such as FP32 or I64, got {shown(precision)}")
        dims: list[Dimension] = []
        for dim in key[1:]:
            text = (dim or "").strip()
            size = -1 if text == "-1" else unsigned(text)
            if size is None or size >= 2**63:
                self.findings.add(where, f"{port}: expected a dimension from -1 to 2**63 - 1, got {shown(text)}")
                size, good = -1, False
            dims.append(Dimension.of(size))
        result = Port(TensorSpec(element_type, PartialShape(dims)), typed=typed)
        if good:
            self.ports[key] = result
        return result

    def _operation(self, layer: _Layer, attributes: dict[str, str], bodies: Sequence[tuple[str, Model]], place: str) -> Operation | None:
        number = opset_number(layer.opset)
        if number == 1 and layer.type_name in _SINCE_2:
            number = 2
        cls = find(layer.type_name, number) if number is not None else None
        if cls is None:
            self.findings.missing.setdefault(f"{layer.type_name}@{layer.opset}", []).append(layer.name)
            return None
        try:
            operation = cls.from_text(attributes)
            if isinstance(operation, Const):
                operation = self._read_constant(operation, attributes)
            elif isinstance(operation, SubGraphOperation):
                operation = with_bodies(operation, layer.element, bodies, layer.inputs, layer.outputs)
            elif place and isinstance(operation, (ReadValue3, Assign3)):
                raise UnsupportedError("a variable inside a sub-graph is not supported")
            return operation
        except MissingBytes as error:
            self.weights.missed(place + layer.label, error)
        except UncorkError as error:
            self.findings.add(place + layer.label, error.message)
        return None

    def _read_constant(self, constant: Const, attributes: dict[str, str]) -> Const:
        numbers: list[int] = []
        for name in ("offset", "size"):
            number = unsigned(attributes.get(name))
            if number is None:
                raise ReadError(f"attribute '{name}': expected a number of bytes, got {shown(attributes.get(name))}")
            numbers.append(number)
        offset, size = numbers
        needed = storage.packed_size(constant.element_type, constant.count)
        if size < needed:
            raise ReadError(f"expected {needed} bytes for {constant.element_type}[{constant.shape.format()}], the attribute 'size' says {size}")
        # NumPy refuses shapes with a product beyond its index type even where a 0 among the dimensions makes it empty.
        if math.prod(max(d, 1) for d in constant.shape.static) * constant.element_type.dtype.itemsize >= 2**63:
            raise ReadError(f"expected a shape of less than 2**63 bytes, got [{constant.shape.format()}]")
        data = self.weights.slice(offset, size) if size else memoryview(b"")
        if constant.element_type in (ElementType.u4, ElementType.i4) and constant.count > FOLD_LIMIT:
            # As arrays these would take twice the room, and memory of their own: they stay mapped until somebody asks for values.
            return PackedConst.of(constant.element_type, constant.shape.static, np.frombuffer(data, np.uint8, needed))
        values = storage.unpack(data, constant.element_type, constant.count)
        return constant.replace(value=values.reshape(constant.shape.static))


def _extras(port: ElementTree.Element) -> tuple[XmlElement, ...]:
    """What a port has beyond its dimensions."""
    return tuple(xml.frozen(e) for e in port if e.tag != "dim")
