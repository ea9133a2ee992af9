"""Helpers of all changes: find layers and ports by name, and check the new model."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.compiler.arguments import did_you_mean
from uncork.errors import InputError, ValidationError
from uncork.ir.model import Model, Node
from uncork.ir.validate import infer


def checked(model: Model) -> Model:
    """The model with types and shapes inferred anew. Raises ValidationError with all that does not
    fit.
    """
    made, problems = infer(model, trust_ports=True)
    ValidationError.when_any(model.source, problems)
    return made


def layer(model: Model, name: str) -> Node:
    """The layer with a name."""
    found = [node for node in model.nodes if node.name == name]
    if not found:
        near = did_you_mean(name, [node.name for node in model.nodes])
        raise InputError(f"the model has no layer '{name}'{near}")
    if len(found) > 1:
        listed = ", ".join(f"{n.type_name} (id {n.id})" for n in found)
        raise InputError(f"the model has {len(found)} layers called '{name}': {listed}")
    return found[0]


def port(names: Sequence[Sequence[str]], name: str, kind: str) -> int:
    """The position of an input or output by its name. A number that is no name is a position."""
    for position, own in enumerate(names):
        if name in own:
            return position
    if name.isdigit() and int(name) < len(names):
        return int(name)
    known = [own[0] if own else str(i) for i, own in enumerate(names)]
    near = did_you_mean(name, known)
    raise InputError(f"the model has no {kind} '{name}'{near}; it has {', '.join(known) or 'none'}")


def input_names(model: Model) -> list[tuple[str, ...]]:
    return [model.names_of_input(i) for i in range(len(model.parameters))]


def output_names(model: Model) -> list[tuple[str, ...]]:
    return [model.names_of_output(i) for i in range(len(model.results))]
