"""`Graph`, `Node`, `Port`: layers and what they read, as plain frozen data.

`Model` (`ir/model.py`) is a graph that people hold: it knows names and can be reshaped. What reads,
checks and rewrites layers needs no more than the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from uncork.concurrency import lazy
from uncork.errors import Label, shortened
from uncork.ir.hints import NO_HINTS, Hints
from uncork.ops import Operation
from uncork.types import TensorSpec

if TYPE_CHECKING:
    from uncork.ir.model import Model


#: The opset of a layer that stands for all layers of a compiled model.
COMPILED_LAYERS = "compiled"


class XmlElement(Struct, frozen=True):
    """A part of the file that is kept as it is: runtime information, port maps of sub-graphs."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    text: str = ""
    children: tuple[XmlElement, ...] = ()


class Source(NamedTuple):
    """Where an input comes from: a node's id and the position of its output."""

    node: int
    output: int


class Port(Struct, frozen=True):
    """An output of a node: its spec (as the file says; as inferred once the model is checked) and
    its tensor names.
    """

    spec: TensorSpec
    names: tuple[str, ...] = ()
    extras: tuple[XmlElement, ...] = ()
    #: False while nobody says the element type: the file has none, or none that can be read, and
    #: nothing was inferred.
    typed: bool = True


AnyOperation = TypeVar("AnyOperation", bound=Operation)


class Node(Struct, frozen=True):
    """One layer of the file.

    `operation` is None where its type is not known to this version of uncork.
    """

    id: int
    name: str
    #: The type as the file has it; `type_name` is the type of the operation.
    file_type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[Source, ...]
    outputs: tuple[Port, ...]
    operation: Operation | None = None
    bodies: tuple[tuple[str, Model], ...] = ()
    extras: tuple[XmlElement, ...] = ()
    #: Further attributes of the <layer> element itself (`output_names` of Result).
    layer_attributes: tuple[tuple[str, str], ...] = ()
    #: What the file keeps at each input port (runtime information); empty when there is nothing at
    #: any.
    input_extras: tuple[tuple[XmlElement, ...], ...] = ()
    hints: Hints = NO_HINTS

    @property
    def checked_operation(self) -> Operation:
        """The operation of a layer of a checked model, where none is unknown."""
        assert self.operation is not None, self.label
        return self.operation

    def of(self, kind: type[AnyOperation]) -> AnyOperation:
        """The operation, which the caller knows to be of this kind."""
        assert isinstance(self.operation, kind), self.label
        return self.operation

    def reading(self, moved: Mapping[Source, Source]) -> Node:
        """The layer reading other tensors in place of those that are `moved`."""
        inputs = tuple(moved.get(source, source) for source in self.inputs)
        return self if inputs == self.inputs else replace(self, inputs=inputs)

    def ports(self, specs: Iterable[TensorSpec]) -> tuple[Port, ...]:
        """The outputs with these specs in place of their own."""
        ports = zip(self.outputs, specs, strict=True)
        return tuple(replace(port, spec=spec) for port, spec in ports)

    @property
    def type_name(self) -> str:
        """The type of the operation; as the file has it where the operation is not known."""
        return self.file_type if self.operation is None else self.operation.type_name

    def __repr__(self) -> str:
        """One line, without the values of constants."""
        inputs = ", ".join(f"{source.node}:{source.output}" for source in self.inputs)
        outputs = ", ".join(str(port.spec) for port in self.outputs)
        return f"<Node {self.label}: [{inputs}] -> {outputs or 'no outputs'}>"

    @property
    def label(self) -> str:
        """How messages name the layer: `layer 'emb' (Gather-8, id 12)`."""
        version = (
            self.operation.label()
            if self.operation
            else shortened(f"{self.type_name}@{self.opset}")
        )
        return Label(f"layer '{shortened(self.name)}' ({version}, id {self.id})", self.name)


def node_of(
    number: int,
    name: str,
    operation: Operation,
    inputs: Iterable[Source],
    outputs: Iterable[Port],
    bodies: tuple[tuple[str, Model], ...] = (),
) -> Node:
    """The layer of an operation, as a file would have it."""
    return Node(
        number,
        name,
        operation.type_name,
        f"opset{operation.opset}",
        operation.to_text(),
        tuple(inputs),
        tuple(outputs),
        operation,
        bodies,
    )


class Graph(Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Layers in an order in which each comes after its inputs.

    Parameters and results are in the order of the file.
    """

    name: str
    ir_version: int
    nodes: tuple[Node, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    #: Assign nodes: they have to run though nothing reads them.
    sinks: tuple[int, ...] = ()
    extras: tuple[XmlElement, ...] = ()
    #: What messages call the model: its file's path.
    source: str = "model"

    @lazy
    def by_id(self) -> Mapping[int, Node]:
        return {node.id: node for node in self.nodes}

    @property
    def next_id(self) -> int:
        """An id that no layer has, nor any above it."""
        return 1 + max((node.id for node in self.nodes), default=0)

    def spec(self, source: Source) -> TensorSpec:
        """The spec of an output."""
        return self.by_id[source.node].outputs[source.output].spec


#: A graph of either kind; what rewrites one gives one of its kind.
AnyGraph = TypeVar("AnyGraph", bound=Graph)


def all_nodes(model: Model) -> Iterator[Node]:
    """Every node, those of bodies after the node that holds them."""
    for node in model.nodes:
        yield node
        for _, body in node.bodies:
            yield from all_nodes(body)
