"""Sums of booleans: OpenVINO counts in u8 and calls the counts boolean.

Here the graph says so, by Converts.

torch sums masks into integers. OpenVINO's converter leaves such a CumSum boolean, and the CPU
plugin carries booleans as u8: `[1, 1, 0, 1]` gives 1, 2, 2, 3 to whoever compares, gathers or
converts them, modulo 256. The specification has no CumSum of booleans. So the data of such a CumSum
are converted to u8 here, and what passes its counts on is u8 too, whatever the file calls it; where
nothing but booleans will do (a logical operation, a condition, a result of the model) a count is
converted back, and is true unless it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uncork.ir.graph import Graph, Node, Port, Source, node_of
from uncork.ops import Operation
from uncork.ops._ports import BOOLEAN
from uncork.ops.convert import Convert1
from uncork.types import ElementType, TensorSpec

_COUNTS, _BOOLEAN = ElementType.u8, ElementType.boolean


class BooleanSums:
    """Follows the counts through a graph whose nodes come in an order in which they can be run."""

    def __init__(self, model: Graph) -> None:
        self._counts: set[Source] = set()
        self._converts: dict[tuple[Source, ElementType], Source] = {}
        self._next_id = max((node.id for node in model.nodes), default=-1) + 1

    def explicit(self, node: Node, before: list[Node], specs: dict[Source, TensorSpec]) -> Node:
        """The node with inputs of types that it takes.

        Converts that this needs join the nodes `before` it and `specs`.
        """
        operation = node.operation
        if operation is None or not (
            self._begins(operation, node, specs) or self._counts.intersection(node.inputs)
        ):
            return node
        inputs = list(node.inputs)
        for position, source in enumerate(node.inputs):
            wanted = self._wanted(operation, node.inputs, position, specs)
            if wanted is not None:
                inputs[position] = self._converted(source, wanted, node, before, specs)
        if node.type_name == "Result":
            _take_names(inputs[0].node, before)
        # What the file calls boolean may be counts: the type is inferred.
        ports = (
            replace(port, typed=port.typed and port.spec.element_type is not _BOOLEAN)
            for port in node.outputs
        )
        return replace(node, inputs=tuple(inputs), outputs=tuple(ports))

    def note(self, node: Node, outputs: Sequence[TensorSpec] | None) -> None:
        """Remember which of a node's outputs are counts, now that its types are inferred."""
        if outputs is None:
            return
        for position, (port, spec) in enumerate(zip(node.outputs, outputs, strict=False)):
            if (
                not port.typed
                and port.spec.element_type is _BOOLEAN
                and spec.element_type is _COUNTS
            ):
                self._counts.add(Source(node.id, position))

    @staticmethod
    def _begins(operation: Operation, node: Node, specs: Mapping[Source, TensorSpec]) -> bool:
        """Whether this is a sum of booleans."""
        data = (
            specs.get(node.inputs[0]) if operation.type_name == "CumSum" and node.inputs else None
        )
        return data is not None and data.element_type is _BOOLEAN

    def _wanted(
        self,
        operation: Operation,
        inputs: Sequence[Source],
        position: int,
        specs: Mapping[Source, TensorSpec],
    ) -> ElementType | None:
        """The type that an input has to be converted to, None where it stays."""
        last = len(operation.inputs) - 1
        port = operation.inputs[min(position, last)]
        if inputs[position] in self._counts:
            return _BOOLEAN if operation.type_name == "Result" or port.types == BOOLEAN else None
        spec = specs.get(inputs[position])
        if spec is None or spec.element_type is not _BOOLEAN or _COUNTS not in port.types:
            return None
        # Beside counts, where all inputs have one type, a mask is converted too.
        beside = any(
            s in self._counts and operation.inputs[min(i, last)].type_variable == port.type_variable
            for i, s in enumerate(inputs)
        )
        return (
            _COUNTS if operation.type_name == "CumSum" or (port.type_variable and beside) else None
        )

    def _converted(
        self,
        source: Source,
        wanted: ElementType,
        node: Node,
        before: list[Node],
        specs: dict[Source, TensorSpec],
    ) -> Source:
        if (source, wanted) not in self._converts:
            operation = Convert1(destination_type=wanted)
            output = Source(self._next_id, 0)
            self._next_id += 1
            specs[output] = operation.describe([specs[source]])[0]
            name, port = f"{node.name}/{wanted}", Port(specs[output])
            before.append(node_of(output.node, name, operation, [source], [port]))
            self._converts[source, wanted] = output
        return self._converts[source, wanted]


def _take_names(number: int, nodes: list[Node]) -> None:
    """Move the names of the tensor that a result's Convert reads to the tensor that the Convert
    gives.
    """
    places = {node.id: index for index, node in enumerate(nodes)}
    convert = nodes[places[number]]
    source = convert.inputs[0]
    producer = nodes[places[source.node]]
    ports = list(producer.outputs)
    names = ports[source.output].names
    ports[source.output] = replace(ports[source.output], names=())
    nodes[places[source.node]] = replace(producer, outputs=tuple(ports))
    if names:
        nodes[places[number]] = replace(
            convert, outputs=(replace(convert.outputs[0], names=names),)
        )
