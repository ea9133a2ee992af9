"""States that go in and out of a model as inputs and outputs, made into variables inside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.errors import InputError, Label, Problem
from uncork.ir.model import Model, Node, Port, Source, node_of
from uncork.ops import Operation
from uncork.ops.parameter import Const
from uncork.ops.state import Assign6, ReadValue6
from uncork.storage import encode
from uncork.surgery._model import checked, input_names, output_names, port
from uncork.types import Array, ElementType, PartialShape


def with_state(
    model: Model, states: Mapping[str, str], initial: Mapping[str, Any] | None = None
) -> Model:
    """The model with variables in place of inputs and outputs: what an output gives in one call,
    the input of the same state reads in the next.

    `states` has the output of each input that is a state, by names or positions. Each begins as
    `initial` says, by the input's name, or as zeros; open sizes are 1 then. Raises InputError with
    everything that does not fit.
    """
    InputError.when(not states, "expected an output for each input that is a state, got none")
    pairs: dict[int, int] = {}
    problems: list[Problem] = []
    for given, result in states.items():
        first = port(input_names(model), given, "input")
        second = port(output_names(model), result, "output")
        why = _mismatch(model, first, second)
        if first in pairs or second in pairs.values():
            why = "is named twice: a state has one input and one output"
        if why:
            problems.append(Problem(f"state {given}={result}", why))
        pairs[first] = second
    begun = {port(input_names(model), name, "input"): v for name, v in (initial or {}).items()}
    for position in begun:
        if position not in pairs:
            name = model.name_of_input(position)
            problems.append(Problem(f"input '{name}'", "has an initial value and is no state"))
    if len(pairs) == len(model.results) and not problems:
        problems.append(Problem("", "every output is a state: nothing is left that a call gives"))
    InputError.when_any(model.source, problems)
    return _made(model, pairs, begun)


def _mismatch(model: Model, first: int, second: int) -> str:
    """Why an input cannot be what an output gave; empty where it can."""
    a, b = model.inputs[first], model.outputs[second]
    if a.element_type is not b.element_type:
        return f"the input takes {a.element_type}, the output gives {b.element_type}"
    if a.shape.rank is None or not a.shape.compatible(b.shape):
        return f"the input takes shape {a.shape}, the output gives {b.shape}"
    return ""


def _made(model: Model, pairs: Mapping[int, int], begun: Mapping[int, Any]) -> Model:
    fresh = model.next_id
    reads = {model.parameters[position]: position for position in pairs}
    assigns = {model.results[result]: position for position, result in pairs.items()}
    nodes: list[Node] = []
    for node in model.nodes:
        if node.id in reads:
            position = reads[node.id]
            constant = _constant(model, position, begun.get(position), fresh)
            spec = node.outputs[0].spec
            read = ReadValue6(
                variable_id=_variable(model, position),
                variable_type=spec.element_type,
                variable_shape=spec.shape,
            )
            nodes += [constant, _layer(node, read, (Source(fresh, 0),), node.outputs)]
            fresh += 1
        elif node.id in assigns:
            assign = Assign6(variable_id=_variable(model, assigns[node.id]))
            nodes.append(_layer(node, assign, node.inputs, (Port(model.spec(node.inputs[0])),)))
        else:
            nodes.append(node)
    return checked(
        replace(
            model,
            nodes=tuple(nodes),
            parameters=tuple(p for p in model.parameters if p not in reads),
            results=tuple(r for r in model.results if r not in assigns),
            sinks=(*model.sinks, *assigns),
        )
    )


def _layer(
    node: Node, operation: Operation, inputs: tuple[Source, ...], outputs: tuple[Port, ...]
) -> Node:
    """The node with another operation."""
    return replace(
        node,
        file_type=operation.type_name,
        opset="opset6",
        attributes=dict(operation.to_text()),
        inputs=inputs,
        outputs=outputs,
        operation=operation,
        layer_attributes=(),
    )


def _variable(model: Model, position: int) -> str:
    """The id of a new variable: the input's name."""
    taken = {getattr(node.operation, "variable_id", None) for node in model.nodes}
    name = model.name_of_input(position)
    while name in taken:
        name += "_state"
    return name


def _constant(model: Model, position: int, value: Any, number: int) -> Node:
    """What a state begins with."""
    own = model.inputs[position]
    array = _initial(Label(f"input '{own.name}'"), own.element_type, own.shape, value)
    operation = Const.of_array(own.element_type, array)
    name = f"{model.name_of_input(position)}/initial"
    return node_of(number, name, operation, (), [Port(operation.infer())])


def _initial(where: Label, kind: ElementType, shape: PartialShape, value: Any) -> Array:
    if value is None:
        InputError.when(
            kind is ElementType.string, "is a state of strings: give its initial value", where
        )
        sizes = [1 if dim.static_size is None else dim.static_size for dim in shape]
        return np.zeros(sizes, kind.dtype)
    array = np.asarray(value)
    InputError.when(
        not shape.contains(array.shape),
        f"expected an initial value of {shape}, got {list(array.shape)}",
        where,
    )
    return np.ascontiguousarray(array if array.dtype == kind.dtype else encode(array, kind))
