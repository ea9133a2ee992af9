"""The matcher of ids that come straight from inputs, through moves and integer conversions only.

An id that a caller gives may be reshaped, sliced or joined with others before a layer looks it up,
and converters put a Convert to i32 in the way; it is still the caller's id. What layers compute
from it (a hash, say) is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node, Source
from uncork.ir.validate import infer
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.ops._ports import Input
from uncork.ops.convert import Convert1, ConvertLike1

#: Inputs of the outermost model, by number.
Inputs = frozenset[int]


class Lookup(Struct, frozen=True):
    """A layer that is given ids straight from `inputs` of the model."""

    model: Model  # the one that has the layer: the model itself, or a body
    node: Node
    inputs: Inputs
    port: Input  # the input of the layer that takes them


def lookups(model: Model, roots: Mapping[int, Inputs] | None = None) -> Iterator[Lookup]:
    """Every look-up of ids that come straight from inputs, those in bodies included."""
    sources = straight(model, roots)
    for node in model.nodes:
        for position, source in enumerate(node.inputs):
            port = port_of(node, position)
            if port is not None and port.ids and source in sources:
                yield Lookup(model, node, sources[source], port)
        if isinstance(node.operation, SubGraphOperation):
            for joined in node.operation.bodies.values():
                given = given_to(node, joined)
                inner = {p: sources[s] for p, s in given.items() if s in sources}
                if inner and isinstance(joined.body, GraphBody):
                    yield from lookups(with_values(joined.body.model), inner)


def straight(model: Model, roots: Mapping[int, Inputs] | None) -> dict[Source, Inputs]:
    """The outputs of layers that hold integers straight from inputs, and from which.

    `roots` are the Parameters to begin at, by node id; by default all of the model's.
    """
    if roots is None:
        roots = {p: frozenset([index]) for index, p in enumerate(model.parameters)}
    result: dict[Source, Inputs] = {}
    for node in model.nodes:
        is_input = node.type_name == "Parameter"
        inputs = roots.get(node.id) if is_input else _passed_on(model, node, result)
        if inputs:
            for position, port in enumerate(node.outputs):
                if port.spec.element_type.is_integer:
                    result[Source(node.id, position)] = inputs
    return result


def _passed_on(model: Model, node: Node, found: Mapping[Source, Inputs]) -> Inputs | None:
    """The inputs whose numbers this node passes on; None when it does something else."""
    if converts_integers(model, node):
        return found.get(node.inputs[0])
    given = [node.inputs[position] for position in moved_inputs(node)]
    if all(source in found or model.spec(source).value is not None for source in given):
        return frozenset().union(*(found[source] for source in given if source in found)) or None
    return None


def converts_integers(model: Model, node: Node) -> bool:
    """Whether the node converts integers to integers."""
    if not isinstance(node.operation, (Convert1, ConvertLike1)):
        return False
    specs = (model.spec(node.inputs[0]), node.outputs[0].spec)
    return all(spec.element_type.is_integer for spec in specs)


def moved_inputs(node: Node) -> tuple[int, ...]:
    """The positions of the inputs that the node only moves into its outputs.

    Empty when there is more to it.
    """
    operation = node.operation
    if operation is None or not operation.moves_values or node.type_name == "Result":
        return ()
    if not operation.deterministic:  # values of other calls, or of a body
        return ()
    ports = [port_of(node, position) for position in range(len(node.inputs))]
    moved = [position for position, port in enumerate(ports) if port is not None and port.moved]
    variables = {port.type_variable for port in ports if port is not None and port.moved}
    types = {output.type_of for output in operation.outputs}
    return tuple(moved) if len(variables) == 1 and variables == types else ()


def port_of(node: Node, position: int) -> Input | None:
    """The declaration of an input of a node."""
    ports = () if node.operation is None else node.operation.inputs
    return ports[min(position, len(ports) - 1)] if ports else None


def with_values(body: Model) -> Model:
    """A body with its constants and small values known, as those of a whole model are.

    It stays as it is where that finds errors.
    """
    inferred, problems = infer(body, trust_ports=True)
    return body if problems else inferred


def given_to(node: Node, joined: BodyMap) -> dict[int, Source]:
    """The inputs of a node that reach Parameters of its body, by their ids, in every iteration."""
    if not isinstance(joined.body, GraphBody):
        return {}
    return {
        joined.body.model.parameters[entry.parameter]: node.inputs[entry.port]
        for entry in joined.fed
        if entry.parameter not in joined.carried
    }
