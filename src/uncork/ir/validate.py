"""Types and shapes of a whole graph, inferred from the operations and held against what the file says of its ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from uncork.errors import Problem, UncorkError
from uncork.ir.model import Model, Node, Port, Source
from uncork.types import PartialShape, TensorSpec


def infer(model: Model, inputs: Mapping[int, TensorSpec] | None = None, *, trust_ports: bool = False) -> tuple[Model, list[Problem]]:
    """The model with its specs inferred, and every problem found on the way.

    `inputs` gives other specs to some parameters, by node id. The file's own statements are checked unless `trust_ports`
    says that they no longer hold (after a rewrite). A node that cannot be inferred keeps the file's specs, so that one
    mistake is reported once. With the file's own inputs, operations whose meaning depends on the model are settled too.
    """
    problems: list[Problem] = []
    specs: dict[Source, TensorSpec] = {}
    nodes: list[Node] = []
    for node in model.nodes:
        if inputs is None and not trust_ports:
            node = _settled(node, specs)
        outputs = _infer_node(node, specs, problems, None if inputs is None else inputs.get(node.id), trust_ports)
        ports = tuple(Port(spec, port.names, port.extras) for spec, port in zip(outputs, _padded(node.outputs, outputs)))
        for position, spec in enumerate(outputs):
            specs[Source(node.id, position)] = spec
        nodes.append(replace(node, outputs=ports) if node.type_name != "Result" else node)
    return replace(model, nodes=tuple(nodes)), problems


def settled(body: Model) -> Model:
    """A sub-graph with its operations settled by what it says itself of its parameters; all else as it was."""
    checked, _ = infer(body)
    return replace(body, nodes=tuple(replace(n, operation=c.operation) for n, c in zip(body.nodes, checked.nodes)))


def _settled(node: Node, specs: Mapping[Source, TensorSpec]) -> Node:
    if node.operation is None:
        return node
    operation = node.operation.settled([specs.get(source) for source in node.inputs])
    return node if operation is node.operation else replace(node, operation=operation)


def _padded(ports: tuple[Port, ...], specs: tuple[TensorSpec, ...]) -> tuple[Port, ...]:
    return ports + tuple(Port(spec) for spec in specs[len(ports) :])


def _infer_node(
    node: Node, specs: dict[Source, TensorSpec], problems: list[Problem], given: TensorSpec | None, trust_ports: bool
) -> tuple[TensorSpec, ...]:
    declared = tuple(port.spec for port in node.outputs)
    if given is not None:
        return (given,)
    if node.operation is None:
        return declared
    arguments = [specs.get(source) for source in node.inputs]
    if any(a is None for a in arguments):  # behind a cycle or a layer without that output: reported already
        return declared
    try:
        inferred = node.operation.describe(arguments)
    except UncorkError as error:
        problems.append(Problem(node.label, error.message))
        return declared
    if node.type_name == "Result" or trust_ports:
        return inferred
    if len(declared) > len(inferred):
        problems.append(Problem(node.label, f"expected {len(inferred)} output ports, the file has {len(declared)}"))
    for position, (said, found) in enumerate(zip(declared, inferred)):
        if said.element_type is not found.element_type:
            problems.append(Problem(node.label, f"output {position}: the file says {said.element_type}, its inputs give {found.element_type}"))
        elif not agree(said.shape, found.shape):
            problems.append(Problem(node.label, f"output {position}: the file says {said}, its inputs give {found}"))
    return inferred


def agree(said: PartialShape, found: PartialShape) -> bool:
    """Whether a port of the file that says one shape can be of another."""
    # The serializer writes an unknown rank as a port without dimensions, which is also how it writes a scalar.
    return said.rank == 0 or said.compatible(found)
