"""Branches of If layers whose conditions are known, in the place of the layers.

A condition that follows from sizes is a number once a guard supposes it: what the plan runs is then
one of the bodies, whose layers are layers like others. Calls with the other answer have another
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from uncork.ir.graph import Graph, Node, Source
from uncork.ops._body import Body, BodyMap, SubGraphOperation
from uncork.types import PartialShape, TensorSpec

#: Gives the graph of a body as it runs; None for one that stays a body.
GraphOf = Callable[[Body], "Graph | None"]

#: Layers that are more than what they compute of their inputs.
_OF_STATE = ("Assign", "ReadValue")


class TakenBranches:
    """The branches of the If layers of one graph, and of those in them.

    A layer of a branch has the same id in every plan: what is known of sizes that it has found is
    said by ids.
    """

    def __init__(self, graph: Graph, graph_of: GraphOf) -> None:
        self._graph_of = graph_of
        self._ids: dict[tuple[int, str, int], int] = {}
        self._next = count(graph.next_id)

    def _id(self, key: tuple[int, str, int]) -> int:
        known = self._ids.get(key)
        return self._ids.setdefault(key, next(self._next)) if known is None else known

    def walk(
        self,
        nodes: Sequence[Node],
        specs: Mapping[Source, TensorSpec],
        at: Callable[[int, str], None] = lambda node, where: None,
    ) -> Iterator[Node]:
        """The nodes in their order, with the layers of a branch in the place of each If of which
        `specs`, when it is reached, tell the condition. `at` is told who demands.
        """
        moved: dict[Source, Source] = {}
        pending = [*reversed(nodes)]
        while pending:
            node = pending.pop()
            if any(source in moved for source in node.inputs):
                node = replace(node, inputs=tuple(_final(moved, s) for s in node.inputs))
            found = self._taken(node, specs, at)
            if found is None:
                yield node
                continue
            name, branch, graph = found
            inner, outputs = self._inside(node, name, branch, graph)
            pending += reversed(inner)
            moved.update(outputs)

    def _taken(
        self, node: Node, specs: Mapping[Source, TensorSpec], at: Callable[[int, str], None]
    ) -> tuple[str, BodyMap, Graph] | None:
        """The name and the branch of an If that runs, with its graph; None where that is not
        known, or it stays a body.
        """
        operation = node.operation
        if node.type_name != "If" or not isinstance(operation, SubGraphOperation):
            return None
        condition = specs.get(node.inputs[0])
        if condition is None or condition.value is None or condition.value.size != 1:
            return None
        name = operation.body_names[0 if condition.value.reshape(-1)[0] else 1]
        branch = operation.bodies[name]
        given = [
            (specs.get(node.inputs[entry.port]), branch.body.input_specs[entry.parameter])
            for entry in branch.fed
            if entry.port < len(node.inputs)
        ]
        if len(given) < len(branch.inputs) or not all(_may_take(*pair) for pair in given):
            return None
        graph = self._graph_of(branch.body)
        if graph is None or any(inner.type_name in _OF_STATE for inner in graph.nodes):
            return None
        at(node.id, node.label)
        # What the body says of its parameters is demanded of the call.
        fits = (
            a.agrees(b) and a.covers(b.low)
            for spec, declared in given
            if spec is not None and declared.rank is not None
            for a, b in zip(spec.shape, declared.shape, strict=True)
        )
        return (name, branch, graph) if all(fits) else None

    def _inside(
        self, node: Node, name: str, branch: BodyMap, graph: Graph
    ) -> tuple[list[Node], dict[Source, Source]]:
        """The layers of a branch, reading what the If reads, and what its outputs are."""
        moved = {
            Source(graph.parameters[entry.parameter], 0): node.inputs[entry.port]
            for entry in branch.fed
        }
        ports = {*graph.parameters, *graph.results}
        inner: list[Node] = []
        for layer in graph.nodes:
            if layer.id in ports:
                continue
            number = self._id((node.id, name, layer.id))
            moved |= {Source(layer.id, i): Source(number, i) for i in range(len(layer.outputs))}
            inner.append(
                replace(
                    layer,
                    id=number,
                    name=f"{node.name} <{name}> {layer.name}",
                    inputs=tuple(moved[source] for source in layer.inputs),
                )
            )
        results = [moved[graph.by_id[result].inputs[0]] for result in graph.results]
        outputs = {Source(node.id, output.port): results[output.result] for output in branch.given}
        return inner, outputs


def _final(moved: Mapping[Source, Source], source: Source) -> Source:
    """Where a tensor comes from: what an If gave may be of an If in its branch."""
    while source in moved:
        source = moved[source]
    return source


def _may_take(given: TensorSpec | None, declared: TensorSpec) -> bool:
    """Whether a parameter surely takes such a tensor, but for sizes that can be demanded."""
    return (
        given is not None
        and given.rank is not None
        and given.element_type is declared.element_type
        and _may_have(given.shape, declared.shape)
    )


def _may_have(given: PartialShape, declared: PartialShape) -> bool:
    if declared.rank is None:
        return True
    return given.rank == declared.rank and all(
        size.compatible(said)
        and (
            said.high is None
            or said.is_static
            or (size.low >= said.low and size.high is not None and size.high <= said.high)
        )
        for size, said in zip(given, declared, strict=True)
    )
