"""The differences between a model and the one made of it, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.ir.model import Model, all_nodes
from uncork.ops.parameter import Const
from uncork.surgery._model import input_names, output_names


def changes(before: Model, after: Model) -> list[str]:
    """Inputs, outputs and constants that came, went or changed, and the number of layers."""
    return [*_ports(before, after), *_constants(before, after), *_layers(before, after)]


def _listed(model: Model, kind: str) -> dict[str, str]:
    names = input_names(model) if kind == "input" else output_names(model)
    found: dict[str, str] = {}
    for position, own in enumerate(names):
        if kind == "input":
            spec = model.by_id[model.parameters[position]].outputs[0].spec
        else:
            spec = model.spec(model.by_id[model.results[position]].inputs[0])
        shape = "[..]" if spec.rank is None else str(spec.shape)
        found[own[0] if own else str(position)] = f"{spec.element_type}{shape}"
    return found


def _ports(before: Model, after: Model) -> Iterator[str]:
    for kind in ("input", "output"):
        old, new = _listed(before, kind), _listed(after, kind)
        for name, spec in old.items():
            if name not in new:
                yield f"{kind} {name} {spec}: is gone"
            elif new[name] != spec:
                yield f"{kind} {name}: {spec} -> {new[name]}"
        for name, spec in new.items():
            if name not in old:
                yield f"{kind} {name} {spec}: is new"


def _constants(before: Model, after: Model) -> Iterator[str]:
    """Those of bodies too. Layers keep their places when constants are replaced."""
    old, new = list(all_nodes(before)), list(all_nodes(after))
    for node, was in zip(new, old) if len(new) == len(old) else ():
        constant = node.operation
        if isinstance(constant, Const) and constant is not was.operation and node.id == was.id:
            shape = list(constant.shape.static)
            yield f"constant {node.name} {constant.element_type}{shape}: has other values"


def _layers(before: Model, after: Model) -> Iterator[str]:
    if len(before.nodes) != len(after.nodes):
        yield f"layers: {len(before.nodes)} -> {len(after.nodes)}"
