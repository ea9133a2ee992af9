"""`reshape`: a model for other shapes of its inputs, checked anew. Found by `Model.reshape`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from uncork.errors import InputError, Problem, UncorkError, ValidationError
from uncork.ir.graph import AnyGraph, Node
from uncork.ir.ports import ModelPort, find_port, listed, no_such_port
from uncork.ir.validate import infer
from uncork.ops.parameter import Parameter
from uncork.types import PartialShape


def reshaped(model: AnyGraph, inputs: Sequence[ModelPort], shapes: Any) -> AnyGraph:
    """The model with these shapes of its inputs: of the only one, or a mapping by name, position or
    port.

    Raises InputError for shapes that cannot be read or inputs that are not there, ValidationError
    when layers do not fit them.
    """
    wanted = _by_position(inputs, shapes)
    new = {model.parameters[position]: shape for position, shape in wanted.items()}
    nodes = []
    for node in model.nodes:
        if node.id in new:
            node = with_shape(node, new[node.id])
        nodes.append(node)
    made, problems = infer(replace(model, nodes=tuple(nodes)), trust_ports=True)
    if problems:
        said = ", ".join(f"{inputs[i].name} {shape}" for i, shape in wanted.items())
        raise ValidationError.of_all(f"{model.source}, reshaped to {said}", problems)
    return made


def with_shape(node: Node, shape: PartialShape) -> Node:
    """A Parameter that takes another shape."""
    port = node.outputs[0]
    operation = Parameter(element_type=port.spec.element_type, shape=shape)
    return replace(
        node,
        operation=operation,
        attributes={**node.attributes, **operation.to_text()},
        outputs=(replace(port, spec=operation.infer()),),
    )


def _by_position(ports: Sequence[ModelPort], shapes: Any) -> dict[int, PartialShape]:
    if not isinstance(shapes, Mapping):
        if len(ports) != 1:
            if not ports:
                raise InputError("the model has no inputs, so no shapes can be given", "reshape")
            raise InputError(
                f"the model has {len(ports)} inputs: give a mapping such as "
                f"{{'{ports[0].name}': [1, 8]}}; inputs: {listed(ports)}",
                "reshape",
            )
        shapes = {0: shapes}
    wanted: dict[int, PartialShape] = {}
    problems: list[Problem] = []
    for key, text in shapes.items():
        position = find_port(ports, key)
        if position is None:
            problems.append(Problem("reshape", no_such_port(ports, key, "input")))
            continue
        try:
            wanted[position] = shape_of(text)
        except (ValueError, TypeError) as error:
            problems.append(Problem(f"reshape, input '{ports[position].name}'", str(error)))
    InputError.when_any("", problems)
    return wanted


def shape_of(value: Any) -> PartialShape:
    """A shape as people write it: `[1, None, (2, 8)]`, "1,?,2..8" or a PartialShape.

    Raises ValueError or TypeError.
    """
    if isinstance(value, PartialShape):
        return value
    try:
        return (
            PartialShape.parse(value.strip("[]")) if isinstance(value, str) else PartialShape(value)
        )
    except (TypeError, UncorkError):
        raise ValueError(f"expected a shape such as [1, None, (2, 8)], got {value!r}") from None
