"""`Model`, `Node`, `Port`: the graph as plain frozen data. Reading, writing, checking and running are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from uncork.ops import Operation
from uncork.types import TensorSpec


@dataclass(frozen=True, slots=True)
class XmlElement:
    """A part of the file that is kept as it is: runtime information, port maps of sub-graphs."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    text: str = ""
    children: tuple[XmlElement, ...] = ()


class Source(NamedTuple):
    """Where an input comes from: a node's id and the position of its output."""

    node: int
    output: int


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a node: its spec (as the file says; as inferred once the model is checked) and its tensor names."""

    spec: TensorSpec
    names: tuple[str, ...] = ()
    extras: tuple[XmlElement, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One layer of the file. `operation` is None while its type is not known to this version of uncork."""

    id: int
    name: str
    type_name: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[Source, ...]
    outputs: tuple[Port, ...]
    operation: Operation | None = None
    bodies: tuple[tuple[str, Model], ...] = ()
    extras: tuple[XmlElement, ...] = ()
    #: Further attributes of the <layer> element itself (`output_names` of Result).
    layer_attributes: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """How messages name the layer: `layer 'emb' (Gather-8, id 12)`."""
        version = self.operation.label() if self.operation else f"{self.type_name}@{self.opset}"
        return f"layer '{self.name}' ({version}, id {self.id})"


@dataclass(frozen=True)
class Model:
    """A graph. `nodes` are in an order in which each comes after its inputs; parameters and results in the order of the file."""

    name: str
    ir_version: int
    nodes: tuple[Node, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    #: Assign nodes: they have to run though nothing reads them.
    sinks: tuple[int, ...] = ()
    extras: tuple[XmlElement, ...] = ()
    #: What messages call the model: its file's path.
    source: str = field(default="model", compare=False)

    @cached_property
    def by_id(self) -> Mapping[int, Node]:
        return {node.id: node for node in self.nodes}

    def spec(self, source: Source) -> TensorSpec:
        """The spec of an output."""
        return self.by_id[source.node].outputs[source.output].spec

    def names_of_input(self, position: int) -> tuple[str, ...]:
        """Tensor names of a parameter, then its layer name."""
        node = self.by_id[self.parameters[position]]
        return tuple(dict.fromkeys((*node.outputs[0].names, node.name)))

    def names_of_output(self, position: int) -> tuple[str, ...]:
        """Names of a result: those of the tensor it takes, the Result's own, and the name of the layer that computes it."""
        result = self.by_id[self.results[position]]
        written = dict(result.layer_attributes).get("output_names", "")
        names = [*split_names(written), *(n for port in result.outputs for n in port.names)]
        if result.inputs:
            source = result.inputs[0]
            producer = self.by_id[source.node]
            names += producer.outputs[source.output].names
            names.append(result.name)
            if len(producer.outputs) == 1:
                names.append(producer.name)
        return tuple(dict.fromkeys(names))


def split_names(text: str) -> tuple[str, ...]:
    r"""Tensor names from their attribute: separated by commas, a comma inside a name is written `\,`."""
    names: list[str] = []
    current = ""
    escaped = False
    for character in text:
        if escaped:
            current += character if character == "," else "\\" + character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            names.append(current)
            current = ""
        else:
            current += character
    names.append(current + ("\\" if escaped else ""))
    return tuple(n for n in names if n)


def join_names(names: tuple[str, ...]) -> str:
    """The inverse of `split_names`."""
    return ",".join(n.replace(",", "\\,") for n in names)
