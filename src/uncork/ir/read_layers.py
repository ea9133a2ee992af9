"""The <layer> elements of an IR file, with their ports: what is there before edges are read."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

from msgspec import Struct

from uncork.errors import Label, shortened
from uncork.ir.diagnostics import Diagnostics, Refused, ports_of, shown, unsigned

#: Layer types that the file spells differently from OpenVINO's class names.
_SPELLINGS = {"Constant": "Const", "Relu": "ReLU", "PRelu": "PReLU", "Softmax": "SoftMax"}


class Layer(Struct):
    """A <layer> before it is known whether anything needs it.

    `inputs` and `outputs` are the positions of its ports, by id.
    """

    element: ElementTree.Element
    id: int
    name: str
    type_name: str
    opset: str
    input_ports: list[ElementTree.Element]
    output_ports: list[ElementTree.Element]
    inputs: dict[int, int]
    outputs: dict[int, int]
    #: What is wrong with it in itself; reported when something needs the layer, or cannot find a
    #: port of it.
    problems: list[str]

    @property
    def label(self) -> str:
        return Label(
            f"layer '{shortened(self.name)}' "
            f"({shortened(f'{self.type_name}@{self.opset}')}, id {self.id})",
            self.name,
        )


def report(layer: Layer, place: str, diagnostics: Diagnostics) -> None:
    """Add what is wrong with a layer in itself to the diagnostics, once."""
    where = place + layer.label
    for problem in layer.problems:
        diagnostics.add(where, problem, ports_of(where))
    layer.problems.clear()


def layers_of(
    net: ElementTree.Element, place: str, refused: Refused, diagnostics: Diagnostics
) -> dict[int, Layer]:
    """The <layer> elements of a <net> or a body, by id."""
    layers: dict[int, Layer] = {}
    container = net.find("layers")
    if container is None:
        diagnostics.add(place.rstrip(": "), "has no <layers>", f"{place}layers")
        refused.layers[None] = f"{place}layers"
        return layers
    for index, element in enumerate(container):
        name, type_name, opset = (
            element.get("name", ""),
            element.get("type", ""),
            element.get("version", ""),
        )
        type_name = _SPELLINGS.get(type_name, type_name)
        where = f"{place}layer '{shortened(name)}'" if name else f"{place}layer number {index}"
        layer_id = unsigned(element.get("id"))
        if element.tag != "layer" or layer_id is None or not type_name or not opset:
            diagnostics.add(
                where,
                "expected <layer> with an id (a number), a type and a version such as opset8",
            )
            refused.layers[layer_id] = where
            continue
        if layer_id in layers:
            diagnostics.add(
                where,
                f"id {layer_id} is already that of layer '{shortened(layers[layer_id].name)}'",
            )
            refused.layers[layer_id] = where
            continue
        problems: list[str] = []
        ins, outs = (
            [p for part in element if part.tag == tag for p in part if p.tag == "port"]
            for tag in ("input", "output")
        )
        inputs, outputs = (
            _port_ids(ins, "input", problems),
            _port_ids(outs, "output", problems),
        )
        layers[layer_id] = Layer(
            element, layer_id, name, type_name, opset, ins, outs, inputs, outputs, problems
        )
    return layers


def _port_ids(
    ports: Iterable[ElementTree.Element], direction: str, problems: list[str]
) -> dict[int, int]:
    ids: dict[int, int] = {}
    for port in ports:
        port_id = unsigned(port.get("id"))
        if port_id is None or port_id in ids:
            problems.append(
                f"{direction} port id: expected a number not used before, "
                f"got {shown(port.get('id'))}"
            )
            port_id = -1 - len(ids)
        ids[port_id] = len(ids)
    return ids
