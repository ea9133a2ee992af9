"""A model with variables becomes one without: what it reads of them comes in, what it assigns to them goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from uncork.ir.model import Model, Node, Port, Source
from uncork.ops.parameter import Parameter, Result
from uncork.ops.state import Assign3, ReadValue3
from uncork.passes.rewrite import replaced


@dataclass(frozen=True)
class Lifted:
    """`model` takes the values of `reads` (ReadValue nodes of the model it was) after its own inputs, and gives those of the
    variables `assigned`, by id, after its own results."""

    model: Model
    reads: tuple[Node, ...]
    assigned: tuple[str, ...]


def functionalize_variables(model: Model) -> Lifted | None:
    """None when the variables' types contradict each other: the interpreter says what comes of that.

    A variable that is never assigned stays as it is: every call reads its initial value.
    """
    values: dict[str, Source] = {}  # the last assignment of a variable is the one that holds
    passed: dict[Source, Source] = {}  # an Assign also passes its value on
    reads: list[Node] = []
    for node in model.nodes:
        if isinstance(node.operation, Assign3):
            source = node.inputs[0]
            values[node.operation.variable_id] = passed[Source(node.id, 0)] = passed.get(source, source)
    nodes: list[Node] = []
    for node in model.nodes:
        operation = node.operation
        if isinstance(operation, Assign3):
            continue
        if isinstance(operation, ReadValue3) and operation.variable_id in values:
            spec = node.outputs[0].spec
            if model.spec(values[operation.variable_id]).element_type is not spec.element_type:
                return None
            reads.append(node)
            parameter = Parameter(element_type=spec.element_type, shape=spec.shape)
            node = replace(node, inputs=(), operation=parameter, outputs=(Port(spec),))
        elif any(source in passed for source in node.inputs):
            node = replace(node, inputs=tuple(passed.get(source, source) for source in node.inputs))
        nodes.append(node)
    first = max(node.id for node in model.nodes) + 1
    for number, (variable, source) in enumerate(values.items(), first):
        spec = model.spec(source)
        nodes.append(Node(number, f"{variable} assigned", "Result", "opset1", {}, (source,), (Port(spec),), Result()))
    lifted = replace(
        model,
        nodes=tuple(nodes),
        parameters=(*model.parameters, *(node.id for node in reads)),
        results=(*model.results, *range(first, first + len(values))),
        sinks=(),
    )
    return Lifted(replaced(lifted, {}), tuple(reads), tuple(values))


def initial_values(model: Model, reads: Sequence[Node]) -> Model | None:
    """The part of the model that computes what `reads` begin with; None where that depends on a variable."""
    first = max(node.id for node in model.nodes) + 1
    results = [
        Node(number, f"initial value {number}", "Result", "opset1", {}, node.inputs, (Port(model.spec(node.inputs[0])),), Result())
        for number, node in enumerate(reads, first)
    ]
    ids = tuple(result.id for result in results)
    part = replaced(replace(model, nodes=(*model.nodes, *results), results=ids, sinks=()), {})
    return None if any(isinstance(node.operation, (ReadValue3, Assign3)) for node in part.nodes) else part
