"""`GraphReader`: a <net> or a body of an IR file as a `Model`, every problem noted."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from uncork.errors import UncorkError, UnsupportedError, shortened
from uncork.ir import xml
from uncork.ir.diagnostics import (
    Diagnostics,
    Refused,
    inputs_of,
    opset_number,
    ports_of,
    shown,
    unsigned,
)
from uncork.ir.model import Model, Node, Port, Source, XmlElement, split_names
from uncork.ir.read_constant import read_constant
from uncork.ir.read_edges import SINKS, edges_of, ordered
from uncork.ir.read_layers import Layer, layers_of, report
from uncork.ir.validate import agree, specialised
from uncork.ir.weights import MissingBytes, Weights
from uncork.ops import Operation, find
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec

#: Operations that came with opset2 though early converters wrote them as opset1.
_SINCE_2 = frozenset({"MVN", "ROIPooling", "ReorgYolo"})
#: Sub-graphs in sub-graphs: deeper than any converter nests them.
_MAX_BODIES = 32


class GraphReader(Struct):
    """Reads the <net> of a file, and the bodies in it."""

    version: int
    weights: Weights
    diagnostics: Diagnostics
    #: Good ports read before, by what they say: most ports of a file say what another said.
    ports: dict[tuple[str | None, ...], Port] = field(default_factory=dict)
    #: Outputs that layers read otherwise than they are said to be, with the inputs that were the
    #: first to do so.
    disputed: dict[tuple[str, int, int, str], str] = field(default_factory=dict)

    def graph(
        self, net: ElementTree.Element, name: str, source: str, depth: int, place: str = ""
    ) -> Model:
        """A <net> or a body: its layers that a Result or an Assign needs, in an order that can be
        run.
        """
        refused = Refused()
        layers = layers_of(net, place, refused, self.diagnostics)
        sources = edges_of(net, layers, place, refused, self.diagnostics)
        order = ordered(layers, sources, place, self.diagnostics)
        nodes: dict[int, Node] = {}
        for layer_id in order:
            layer = layers[layer_id]
            arguments = [sources.get((layer_id, position)) for position in range(len(layer.inputs))]
            without = [i for i, a in zip(layer.inputs, arguments, strict=True) if a is None]
            node = self._node(layer, tuple(a for a in arguments if a is not None), depth, place)
            # With an input missing, what inference says of the others would be about the wrong
            # ports.
            incomplete = None in arguments or layer_id in refused.readers
            nodes[layer_id] = replace(node, operation=None) if incomplete else node
            report(layer, place, self.diagnostics)
            for port_id in without:
                where = place + layer.label
                explained_by = (
                    [ports_of(where)] if port_id < 0 else refused.edge_to(layer_id, port_id)
                )
                self.diagnostics.add(
                    where, f"input port {port_id} has no edge", explained_by=explained_by
                )
            self._check_input_ports(layer, arguments, nodes, place)
        in_file = [i for i in layers if i in nodes]
        if not any(layers[i].type_name == "Result" or layers[i].type_name in SINKS for i in layers):
            message = "has no Result layer: there is nothing to compute"
            self.diagnostics.add(
                place.rstrip(": "), message, f"{place}results", refused.layers.values()
            )
        self._check_variables(nodes.values(), place)
        return Model(
            name=name,
            ir_version=self.version,
            nodes=tuple(nodes.values()),
            parameters=tuple(i for i in in_file if layers[i].type_name == "Parameter"),
            results=tuple(i for i in in_file if layers[i].type_name == "Result"),
            sinks=tuple(i for i in in_file if layers[i].type_name in SINKS),
            extras=tuple(xml.frozen(e) for e in net if e.tag not in ("layers", "edges")),
            source=source,
        )

    def _check_input_ports(
        self,
        layer: Layer,
        arguments: Sequence[Source | None],
        nodes: Mapping[int, Node],
        place: str,
    ) -> None:
        """Check that what the file says at the end of an edge does not contradict what it says at
        its beginning.
        """
        for position, (element, source) in enumerate(
            zip(layer.input_ports, arguments, strict=True)
        ):
            said = self._port(
                element, f"input {position}", place + layer.label, precision_needed=False
            )
            # reported as a missing edge, or as a cycle
            if source is None or source.node not in nodes:
                continue
            producer = nodes[source.node]
            given = producer.outputs[source.output]
            if said.spec is given.spec:
                continue
            # Without dimensions: a scalar, or of unknown rank.
            contradicts = given.spec.rank != 0 and not agree(said.spec.shape, given.spec.shape)
            typed = said.typed and given.typed
            if contradicts or (typed and said.spec.element_type is not given.spec.element_type):
                self._contradiction(
                    place, nodes[layer.id], position, said.spec, producer, source.output
                )

    def _contradiction(
        self, place: str, node: Node, position: int, said: TensorSpec, producer: Node, output: int
    ) -> None:
        """Report that what a layer is said to read is not what the layer before is said to give.

        That is explained by a problem of the layer before, and is one mistake with other layers
        that read the same so.
        """
        where = place + node.label
        key, subject = (place, producer.id, output, str(said)), inputs_of(where)
        first = self.disputed.get(key)
        if first == subject:
            return
        self.disputed.setdefault(key, subject)
        explained_by = [place + producer.label, *([first] if first else [])]
        given = producer.outputs[output].spec
        message = (
            f"input {position}: the file says {said} here and {given} at output {output} "
            f"of {producer.label}"
        )
        self.diagnostics.add(where, message, subject, explained_by)

    def _check_variables(self, nodes: Iterable[Node], place: str) -> None:
        # Also one that cannot be read for another reason reads its variable.
        known = {n.attributes.get("variable_id") for n in nodes if n.type_name == "ReadValue"}
        for node in nodes:
            if isinstance(node.operation, Assign3) and node.operation.variable_id not in known:
                name = shortened(node.operation.variable_id)
                self.diagnostics.add(
                    place + node.label, f"assigns to variable '{name}', which no ReadValue reads"
                )

    def _node(self, layer: Layer, arguments: tuple[Source, ...], depth: int, place: str) -> Node:
        element = layer.element
        data = element.find("data")
        attributes = dict(data.attrib) if data is not None else {}
        bodies: list[tuple[str, Model]] = []
        extras: list[XmlElement] = []
        for child in element:
            if child.tag.endswith("body"):
                if depth >= _MAX_BODIES:
                    self.diagnostics.add(
                        place + layer.label, f"sub-graphs are nested more than {_MAX_BODIES} deep"
                    )
                    continue
                inner = f"{place}{layer.label} <{shortened(child.tag)}>: "
                bodies.append(
                    (
                        child.tag,
                        specialised(self.graph(child, layer.name, child.tag, depth + 1, inner)),
                    )
                )
            elif child.tag not in ("data", "input", "output"):
                extras.append(xml.frozen(child))
        where = place + layer.label
        said = [self._port(port, f"output {i}", where) for i, port in enumerate(layer.output_ports)]
        outputs = tuple(
            Port(p.spec, split_names(port.get("names", "")), _extras(port), p.typed)
            for p, port in zip(said, layer.output_ports, strict=True)
        )
        if layer.type_name == "Parameter" and not outputs:
            self.diagnostics.add(where, "has no output port", ports_of(where))
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
            layer_attributes=tuple(
                (k, v)
                for k, v in element.attrib.items()
                if k not in ("id", "name", "type", "version")
            ),
            input_extras=input_extras if any(input_extras) else (),
        )

    def _port(
        self, element: ElementTree.Element, port: str, where: str, precision_needed: bool = True
    ) -> Port:
        """What the file says of a port.

        Of a precision that it leaves open (`dynamic`) nothing is said.
        """
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
                self.diagnostics.add(
                    where,
                    f"{port}: expected a precision such as FP32 or I64, got {shown(precision)}",
                )
        dims: list[Dimension] = []
        for dim in key[1:]:
            text = (dim or "").strip()
            size = -1 if text == "-1" else unsigned(text)
            if size is None or size >= 2**63:
                self.diagnostics.add(
                    where, f"{port}: expected a dimension from -1 to 2**63 - 1, got {shown(text)}"
                )
                size, good = -1, False
            dims.append(Dimension.of(size))
        result = Port(TensorSpec(element_type, PartialShape(dims)), typed=typed)
        if good:
            self.ports[key] = result
        return result

    def _operation(
        self,
        layer: Layer,
        attributes: dict[str, str],
        bodies: Sequence[tuple[str, Model]],
        place: str,
    ) -> Operation | None:
        number = opset_number(layer.opset)
        if number == 1 and layer.type_name in _SINCE_2:
            number = 2
        cls = find(layer.type_name, number) if number is not None else None
        if cls is None:
            self.diagnostics.missing.setdefault(f"{layer.type_name}@{layer.opset}", []).append(
                layer.name
            )
            return None
        try:
            operation = cls.from_text(attributes)
            if isinstance(operation, Const):
                operation = read_constant(operation, attributes, self.weights)
            elif isinstance(operation, SubGraphOperation):
                if any(
                    not body.by_id[result].inputs for _, body in bodies for result in body.results
                ):
                    return None  # the Result was reported: it gives nothing
                from uncork.ir.subgraphs import with_bodies

                operation = with_bodies(
                    operation, layer.element, bodies, layer.inputs, layer.outputs
                )
            UnsupportedError.when(
                place and isinstance(operation, (ReadValue3, Assign3)),
                "a variable inside a sub-graph is not supported",
            )
            return operation
        except MissingBytes as error:
            self.weights.missed(place + layer.label, error)
        except UncorkError as error:
            self.diagnostics.add(place + layer.label, error.message)
        return None


def _extras(port: ElementTree.Element) -> tuple[XmlElement, ...]:
    """What a port has beyond its dimensions."""
    return tuple(xml.frozen(e) for e in port if e.tag != "dim")
