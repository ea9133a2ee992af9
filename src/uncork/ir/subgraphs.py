"""Sub-graphs of If, Loop and TensorIterator in the file: their port maps, read and written."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from uncork.errors import ReadError, UncorkError
from uncork.ir.bodies import GraphBody
from uncork.ir.diagnostics import listed
from uncork.ir.model import Model
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    SubGraphOperation,
    TurnNumber,
)


def with_bodies(
    operation: SubGraphOperation,
    element: ElementTree.Element,
    bodies: Sequence[tuple[str, Model]],
    input_ports: Mapping[int, int],
    output_ports: Mapping[int, int],
) -> SubGraphOperation:
    """The operation with the bodies of its <layer>, joined as the port maps say.

    Raises ReadError or ValidationError.
    """
    maps: dict[str, BodyMap] = {}
    for tag, model in bodies:
        prefix = tag.removesuffix("body")  # "", "then_", "else_"
        port_map = element.find(f"{prefix}port_map")
        if port_map is None:
            raise ReadError(f"has no <{prefix}port_map>")
        edges = element.findall("back_edges/edge")
        maps[tag] = _read_map(port_map, edges, model, input_ports, output_ports)
    return operation.with_bodies(maps)


def _read_map(
    port_map: ElementTree.Element,
    edges: Sequence[ElementTree.Element],
    model: Model,
    input_ports: Mapping[int, int],
    output_ports: Mapping[int, int],
) -> BodyMap:
    parameters, results = (
        {layer: i for i, layer in enumerate(layers)} for layers in (model.parameters, model.results)
    )
    inputs = tuple(_read_input(e, input_ports, parameters) for e in port_map.iterfind("input"))
    outputs = tuple(_read_output(e, output_ports, results) for e in port_map.iterfind("output"))
    back_edges = tuple(
        (
            _inner(edge, "from-layer", results, "Result"),
            _inner(edge, "to-layer", parameters, "Parameter"),
        )
        for edge in edges
    )
    return BodyMap(GraphBody(model), inputs, outputs, back_edges)


def _read_input(
    entry: ElementTree.Element, ports: Mapping[int, int], parameters: Mapping[int, int]
) -> BodyInput | TurnNumber:
    port = _external(entry, ports)
    parameter = _inner(entry, "internal_layer_id", parameters, "Parameter")
    slicing, purpose = _slicing(entry), entry.get("purpose", "")
    if port is None:
        ReadError.when(
            purpose != TurnNumber.purpose,
            "port map: an input that comes from no port must have purpose 'current_iteration'",
        )
        return TurnNumber(parameter)
    if slicing is None:
        return BodyInput(port, parameter, purpose=purpose)
    return SlicedInput(port, parameter, slicing, purpose=purpose)


def _read_output(
    entry: ElementTree.Element, ports: Mapping[int, int], results: Mapping[int, int]
) -> BodyOutput | InnerResult:
    port = _external(entry, ports)
    result = _inner(entry, "internal_layer_id", results, "Result")
    slicing, purpose = _slicing(entry), entry.get("purpose", "")
    if port is None:
        return InnerResult(result, purpose=purpose)
    if slicing is None:
        return BodyOutput(port, result, purpose=purpose)
    return JoinedOutput(port, result, slicing, purpose=purpose)


def _number(element: ElementTree.Element, name: str, default: int | None = None) -> int:
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        if text is None or len(text) > 20:
            raise ValueError(text)
        return int(text)
    except ValueError:
        raise ReadError(
            f"<{element.tag}> of the port map: attribute '{name}': "
            f"expected an integer, got {text!r}"
        ) from None


def _external(entry: ElementTree.Element, ports: Mapping[int, int]) -> int | None:
    port = _number(entry, "external_port_id")
    if port == -1:
        return None
    if port not in ports:
        raise ReadError(
            f"port map: the layer has no {entry.tag} port {port}; it has {listed(ports)}"
        )
    return ports[port]


def _inner(entry: ElementTree.Element, attribute: str, layers: Mapping[int, int], kind: str) -> int:
    layer = _number(entry, attribute)
    if layer not in layers:
        raise ReadError(
            f"port map: the body has no {kind} layer with id {layer}; it has {listed(layers)}"
        )
    return layers[layer]


def _slicing(entry: ElementTree.Element) -> Slicing | None:
    if entry.get("axis") is None:
        return None
    start, end = _number(entry, "start", 0), _number(entry, "end", -1)
    slicing = Slicing(
        _number(entry, "axis"),
        start,
        end,
        _number(entry, "stride", 1),
        _number(entry, "part_size", 1),
    )
    ReadError.when(
        slicing.stride == 0 or slicing.part_size < 1,
        "port map: stride must not be 0 and part_size at least 1, "
        f"got stride {slicing.stride}, part_size {slicing.part_size}",
    )
    return slicing


def write_maps(layer: ElementTree.Element, operation: SubGraphOperation, input_count: int) -> None:
    """The port maps and back edges of a <layer>, with its ports numbered from 0, inputs first."""
    for tag, body in operation.bodies.items():
        if not isinstance(body.body, GraphBody):
            raise UncorkError(f"<{tag}> is not a graph that can be written")
        model = body.body.model
        port_map = ElementTree.SubElement(layer, f"{tag.removesuffix('body')}port_map")
        for i in body.inputs:
            port = i.port if isinstance(i, BodyInput) else -1
            _write_entry(port_map, "input", port, model.parameters[i.parameter], i)
        for o in body.outputs:
            port = input_count + o.port if isinstance(o, BodyOutput) else -1
            _write_entry(port_map, "output", port, model.results[o.result], o)
        if body.back_edges:
            edges = ElementTree.SubElement(layer, "back_edges")
            for result, parameter in body.back_edges:
                numbers = {
                    "from-layer": str(model.results[result]),
                    "to-layer": str(model.parameters[parameter]),
                }
                ElementTree.SubElement(edges, "edge", numbers)


def _write_entry(
    port_map: ElementTree.Element,
    tag: str,
    port: int,
    layer: int,
    entry: BodyInput | TurnNumber | BodyOutput | InnerResult,
) -> None:
    attributes = {"external_port_id": str(port), "internal_layer_id": str(layer)}
    if isinstance(entry, SlicedInput | JoinedOutput):
        s = entry.slicing
        attributes |= {
            "axis": str(s.axis),
            "start": str(s.start),
            "end": str(s.end),
            "stride": str(s.stride),
            "part_size": str(s.part_size),
        }
    if entry.purpose:
        attributes["purpose"] = entry.purpose
    ElementTree.SubElement(port_map, tag, attributes)
