"""Changes to the shapes and names of a model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uncork.errors import InputError
from uncork.ir.model import Model, Node, Port, join_names, split_names
from uncork.ir.reshape import with_shape
from uncork.surgery._model import checked, input_names, output_names, port
from uncork.types import PartialShape


def reshape(model: Model, shapes: Mapping[str, PartialShape | Sequence[int | None]]) -> Model:
    """The model with other shapes of inputs, by name; None or -1 is an open size.

    Everything behind is inferred anew; a layer that does not fit is named in the ValidationError.
    """
    given: dict[int, PartialShape] = {}
    for name, shape in shapes.items():
        node = model.by_id[model.parameters[port(input_names(model), name, "input")]]
        whole = shape if isinstance(shape, PartialShape) else PartialShape(shape)
        own = node.outputs[0].spec
        if own.rank is not None and whole.rank != own.rank:
            raise InputError(
                f"input '{name}': expected {own.rank} sizes as in {own.shape}, got {whole}"
            )
        given[node.id] = whole
    nodes = tuple(with_shape(n, given[n.id]) if n.id in given else n for n in model.nodes)
    return checked(replace(model, nodes=nodes))


def rename(
    model: Model, inputs: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None
) -> Model:
    """The model with other names of inputs and outputs: old name (or position) to new one."""
    ports: dict[tuple[int, int], tuple[str, str]] = {}
    for old, new in (inputs or {}).items():
        ports[model.parameters[port(input_names(model), old, "input")], 0] = (old, new)
    for old, new in (outputs or {}).items():
        result = model.by_id[model.results[port(output_names(model), old, "output")]]
        ports[result.inputs[0].node, result.inputs[0].output] = (old, new)
    _check_new(model, [new for _, new in ports.values()])
    nodes = []
    for node in model.nodes:
        made = [_renamed(p, ports.get((node.id, i))) for i, p in enumerate(node.outputs)]
        given = (
            ports.get((node.inputs[0].node, node.inputs[0].output))
            if node.id in model.results
            else None
        )
        nodes.append(_renamed_result(replace(node, outputs=tuple(made)), given))
    return checked(replace(model, nodes=tuple(nodes)))


def _check_new(model: Model, names: Sequence[str]) -> None:
    taken = {n for node in model.nodes for p in node.outputs for n in p.names}
    for name in names:
        InputError.when(not name, "expected a new name, got an empty one")
        InputError.when(
            name in taken or list(names).count(name) > 1,
            f"'{name}' is the name of another tensor already",
        )


def _renamed_result(node: Node, names: tuple[str, str] | None) -> Node:
    """The result with the new name among its own names, if it has any, as they come before the
    tensor's.
    """
    attributes = dict(node.layer_attributes)
    own = split_names(attributes.get("output_names", ""))
    if names is None or not own:
        return node
    old, new = names
    attributes["output_names"] = join_names((new, *(n for n in own if n != old)))
    return replace(node, layer_attributes=tuple(attributes.items()))


def _renamed(before: Port, names: tuple[str, str] | None) -> Port:
    """The port with the new name first, in place of the old one or before all others."""
    if names is None:
        return before
    old, new = names
    return replace(before, names=(new, *(n for n in before.names if n != old)))
