"""Finds the lowering of an operation: a function that writes the torch expression which means the
same.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

#: `lowering(writer, operation, *inputs)` returns an expression for each output, as `Written` tells.
Lowering = Callable[..., Any]
Function = TypeVar("Function", bound=Lowering)
_lowerings: dict[str, Lowering] = {}
_FAMILIES = Path(__file__).parent / "families"


def lowers(*type_names: str) -> Callable[[Function], Function]:
    """Function decorator: this function lowers these operations, in all their versions."""

    def add(function: Function) -> Function:
        for type_name in type_names:
            if type_name in _lowerings:
                raise AssertionError(f"{type_name} has two lowerings")
            _lowerings[type_name] = function
        return function

    return add


@functools.cache
def lowerings() -> dict[str, Lowering]:
    """Every lowering by the type name of its operation."""
    for module in pkgutil.iter_modules([str(_FAMILIES)]):
        importlib.import_module(f"{__package__}.families.{module.name}")
    return _lowerings
