"""Inference of types and shapes over a whole graph, held against what the file says of ports."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.errors import Problem, UncorkError
from uncork.ir.boolean_sums import BooleanSums
from uncork.ir.graph import AnyGraph, Node, Port, Source
from uncork.types import PartialShape, TensorSpec


def infer(
    model: AnyGraph, inputs: Mapping[int, TensorSpec] | None = None, *, trust_ports: bool = False
) -> tuple[AnyGraph, list[Problem]]:
    """The model with its specs inferred, and every problem found on the way.

    `inputs` gives other specs to some parameters, by node id. The file's own statements are checked
    unless `trust_ports` says that they no longer hold (after a rewrite). With the file's own
    inputs, operations whose meaning depends on the model are settled too.

    One mistake is reported once. A node that cannot be inferred keeps the file's specs. Behind a
    node whose file says one thing and whose inputs give another, a node is wrong only if it is
    wrong by both.
    """
    problems: list[Problem] = []
    specs: dict[Source, TensorSpec] = {}
    contradicted: dict[Source, TensorSpec] = {}  # what the file says where that is not in `specs`
    nodes: list[Node] = []
    sums = BooleanSums(model) if inputs is None and not trust_ports else None
    for node in model.nodes:
        if sums is not None:
            node = _settled(sums.explicit(node, nodes, specs), specs)
        declared = {i: port.spec for i, port in enumerate(node.outputs) if port.typed}
        outputs, wrong = _infer_node(
            node, specs, contradicted, None if inputs is None else inputs.get(node.id), trust_ports
        )
        problems.extend(wrong)
        for position, spec in (declared if outputs is None else dict(enumerate(outputs))).items():
            specs[Source(node.id, position)] = spec
        if wrong:
            contradicted.update((Source(node.id, i), spec) for i, spec in declared.items())
        if sums is not None:
            sums.note(node, outputs)
        if outputs is not None and node.type_name != "Result":
            ports = (
                Port(spec, port.names, port.extras)
                for spec, port in zip(outputs, _padded(node.outputs, outputs), strict=False)
            )
            node = replace(node, outputs=tuple(ports))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes)), problems


def specialised(body: AnyGraph) -> AnyGraph:
    """A sub-graph with its operations specialised by what it says itself of its parameters, and its
    sums of booleans made explicit; everything else is unchanged.
    """
    checked, _ = infer(body)
    said = body.by_id
    return replace(
        body, nodes=tuple(_settled_as(said.get(node.id, node), node) for node in checked.nodes)
    )


def _settled_as(said: Node, checked: Node) -> Node:
    ports = zip(said.outputs, checked.outputs, strict=True)
    outputs = tuple(p if _is_said(p, c.spec) else c for p, c in ports)
    return replace(said, operation=checked.operation, inputs=checked.inputs, outputs=outputs)


def _is_said(port: Port, found: TensorSpec) -> bool:
    """Whether a port says what it is: one of no dimensions may be of any rank (see `agree`)."""
    same = port.spec.element_type is found.element_type
    return port.typed and same and (port.spec.rank != 0 or found.rank == 0)


def _settled(node: Node, specs: Mapping[Source, TensorSpec]) -> Node:
    if node.operation is None:
        return node
    operation = node.operation.specialised([specs.get(source) for source in node.inputs])
    return node if operation is node.operation else replace(node, operation=operation)


def _padded(ports: tuple[Port, ...], specs: tuple[TensorSpec, ...]) -> tuple[Port, ...]:
    return ports + tuple(Port(spec) for spec in specs[len(ports) :])


def _infer_node(
    node: Node,
    specs: Mapping[Source, TensorSpec],
    contradicted: Mapping[Source, TensorSpec],
    given: TensorSpec | None,
    trust_ports: bool,
) -> tuple[tuple[TensorSpec, ...] | None, list[Problem]]:
    """What a node gives, None where nothing can be inferred, and what is wrong with it."""
    if given is not None:
        return (given,), []
    # Without a spec: behind a cycle, or a layer that does not say what it gives. That is reported
    # there.
    if node.operation is None or any(source not in specs for source in node.inputs):
        return None, []
    outputs, wrong = _held_against_file(
        node, [specs[source] for source in node.inputs], trust_ports
    )
    if wrong and any(source in contradicted for source in node.inputs):
        by_the_file = [contradicted.get(source, specs[source]) for source in node.inputs]
        outputs_then, wrong_then = _held_against_file(node, by_the_file, trust_ports)
        if not wrong_then:
            return outputs_then, []
    return outputs, wrong


def _held_against_file(
    node: Node, arguments: list[TensorSpec], trust_ports: bool
) -> tuple[tuple[TensorSpec, ...] | None, list[Problem]]:
    try:
        inferred = node.checked_operation.describe(arguments)
    except UncorkError as error:
        return None, [
            replace(error.problems[0], where=node.label, message=error.message, layer=node.name)
        ]
    wrong: list[Problem] = []
    if node.type_name == "Result" or trust_ports:
        return inferred, wrong
    if len(node.outputs) > len(inferred):
        wrong.append(
            Problem(
                node.label,
                f"expected {len(inferred)} output ports, the file has {len(node.outputs)}",
            )
        )
    for position, (port, found) in enumerate(zip(node.outputs, inferred, strict=False)):
        said = port.spec
        if not port.typed:
            continue
        if said.element_type is not found.element_type:
            message = (
                f"output {position}: the file says {said.element_type}, "
                f"its inputs give {found.element_type}"
            )
            wrong.append(Problem(node.label, message))
        elif not agree(said.shape, found.shape):
            wrong.append(
                Problem(
                    node.label, f"output {position}: the file says {said}, its inputs give {found}"
                )
            )
    return inferred, wrong


def agree(said: PartialShape, found: PartialShape) -> bool:
    """Whether a port of which the file says one shape can have the other shape, which was found."""
    # The serializer writes an unknown rank as a port without dimensions, which is also how it
    # writes a scalar.
    return said.rank == 0 or said.compatible(found)
