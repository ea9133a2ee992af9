"""Lowerings by operation type: functions that say an operation in another system's terms."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

from uncork.decompositions.registry import composites
from uncork.errors import UnsupportedError
from uncork.ir.model import Model, all_nodes

#: `lowering(writer, operation, *inputs)`: what it is given and returns is the target's own.
Lowering = Callable[..., Any]
Function = TypeVar("Function", bound=Lowering)

#: Layers that the export writes itself.
_FRAME = frozenset({"Const", "Parameter", "Result"})


class Registry:
    """The lowerings to one target. Families of them are modules of one package."""

    def __init__(self, target: str, package: str) -> None:
        """`target` is the system's name in errors, `package` the package of the families."""
        self._target, self._package = target, package
        self._lowerings: dict[str, Lowering] = {}
        self._imported = False
        self._composed: Set[str] = frozenset()

    def lowers(self, *type_names: str) -> Callable[[Function], Function]:
        """Function decorator: this function lowers these operations, in all their versions."""

        def add(function: Function) -> Function:
            for type_name in type_names:
                if type_name in self._lowerings:
                    raise AssertionError(f"{type_name} has two lowerings")
                self._lowerings[type_name] = function
            return function

        return add

    def lowerings(self) -> Mapping[str, Lowering]:
        """Every lowering by the type name of its operation; a composite that has none of its own
        is lowered by its layers. Imports all families.
        """
        if not self._imported:
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._imported = True
            composed = importlib.import_module(f"{self._package.rpartition('.')[0]}.composed")
            self._composed = composites().keys() - self._lowerings.keys()
            self._lowerings.update(dict.fromkeys(self._composed, composed.composed))
        return self._lowerings

    def composes(self, type_name: str) -> bool:
        """Whether an operation is lowered by the layers of its composite."""
        return type_name in self._composed

    def check(self, model: Model) -> None:
        """Raise UnsupportedError that names every operation of the model without a lowering."""
        missing: dict[str, int] = {}
        for node in all_nodes(model):
            if node.type_name not in _FRAME and node.type_name not in self.lowerings():
                operation = node.operation
                label = operation.label() if operation else f"{node.type_name}@{node.opset}"
                missing[label] = missing.get(label, 0) + 1
        if missing:
            listed = ", ".join(
                f"{label} ({count} {'layers' if count > 1 else 'layer'})"
                for label, count in sorted(missing.items())
            )
            raise UnsupportedError(f"no export to {self._target} for: {listed}", model.source)
