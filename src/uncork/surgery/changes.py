"""The differences between a model and the one made of it, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uncork.ir.model import Model, all_nodes
from uncork.ops.parameter import Const
from uncork.surgery._model import input_names, output_names
from uncork.types import Array


def changes(before: Model, after: Model) -> list[str]:
    """Inputs, outputs and constants that came, went or changed, and the number of layers."""
    return [*_ports(before, after), *_constants(before, after), *_layers(before, after)]


def _listed(model: Model, kind: str) -> dict[str, str]:
    names = input_names(model) if kind == "input" else output_names(model)
    result: dict[str, str] = {}
    for position, own in enumerate(names):
        if kind == "input":
            spec = model.by_id[model.parameters[position]].outputs[0].spec
        else:
            spec = model.spec(model.by_id[model.results[position]].inputs[0])
        shape = "[..]" if spec.rank is None else str(spec.shape)
        result[own[0] if own else str(position)] = f"{spec.element_type}{shape}"
    return result


def _ports(before: Model, after: Model) -> Iterator[str]:
    for kind in ("input", "output"):
        old, new = _listed(before, kind), _listed(after, kind)
        if len(old) == len(new):
            for (name, spec), (now, other) in zip(
                list(old.items()), list(new.items()), strict=True
            ):
                if name not in new and now not in old and spec == other:
                    yield f"{kind} {name} {spec}: is called {now}"
                    del old[name], new[now]
        for name, spec in old.items():
            if name not in new:
                yield f"{kind} {name} {spec}: is gone"
            elif new[name] != spec:
                yield f"{kind} {name}: {spec} -> {new[name]}"
        for name, spec in new.items():
            if name not in old:
                yield f"{kind} {name} {spec}: is new"


def _constants(before: Model, after: Model) -> Iterator[str]:
    """The constants that have other values, those in bodies too. Layers keep their places when
    constants are replaced.
    """
    old, new = list(all_nodes(before)), list(all_nodes(after))
    for node, was in zip(new, old, strict=True) if len(new) == len(old) else ():
        constant = node.operation
        if not isinstance(constant, Const) or constant is was.operation or node.id != was.id:
            continue
        if isinstance(was.operation, Const) and _same(was.operation.value, constant.value):
            continue
        yield f"constant {node.name} {constant.element_type}{constant.shape}: has other values"


def _same(old: Array, new: Array) -> bool:
    if old.shape != new.shape or old.dtype != new.dtype:
        return False
    return bool(np.array_equal(old, new, equal_nan=old.dtype.kind == "f"))


def _layers(before: Model, after: Model) -> Iterator[str]:
    if len(before.nodes) != len(after.nodes):
        yield f"layers: {len(before.nodes)} -> {len(after.nodes)}"
