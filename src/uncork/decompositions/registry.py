"""Composites by operation type, and an operation taken apart into the layers that mean it."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from uncork.decompositions.language import Layers
from uncork.errors import UncorkError, UnsupportedError
from uncork.ir.model import Node, Source
from uncork.ops import Operation
from uncork.types import ElementType, PartialShape, TensorSpec

#: `composite(layers, operation, *inputs)` returns the output, or a sequence of them.
Composite = Callable[..., Any]
Function = TypeVar("Function", bound=Composite)

_COMPOSITES: dict[str, Composite] = {}
_AS_GIVEN: set[str] = set()
_NARROW = (ElementType.f16, ElementType.bf16)


def composite(*type_names: str, as_given: bool = False) -> Callable[[Function], Function]:
    """Function decorator: this function takes these operations apart, in all their versions. It is
    given f16 and bf16 as f32, or all inputs as they are.
    """

    def add(function: Function) -> Function:
        for type_name in type_names:
            if type_name in _COMPOSITES:
                raise AssertionError(f"{type_name} is taken apart twice")
            _COMPOSITES[type_name] = function
            _AS_GIVEN.update([type_name] if as_given else ())
        return function

    return add


@functools.cache
def composites() -> Mapping[str, Composite]:
    """Every composite by the type name of its operation."""
    package = __package__ or ""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return _COMPOSITES


@dataclass(frozen=True)
class Decomposition:
    """Layers in order, the tensors that they are given (None for an absent input) and their shapes,
    and the tensors that are the outputs.
    """

    nodes: Sequence[Node]
    inputs: Sequence[Source | None]
    shapes: Sequence[PartialShape | None]
    outputs: Sequence[Source]


def decomposed(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]
) -> Decomposition:
    """An operation taken apart for such inputs. What is computed of f16 and bf16 is computed in f32
    and rounded once.

    Raises UnsupportedError where the composite cannot say it.
    """
    layers = Layers(operation.type_name)
    absent = [None] * (len(operation.inputs) - len(inputs))
    given = [None if spec is None else layers.given(spec) for spec in (*inputs, *absent)]
    wide, function = given, composites()[operation.type_name]
    if not operation.moves_values and operation.type_name not in _AS_GIVEN:
        wide = [
            layers.convert(source, ElementType.f32)
            if source is not None and layers.type(source) in _NARROW
            else source
            for source in given
        ]
    try:
        made = function(layers, operation, *wide)
    except UncorkError as error:  # which names a layer that nobody has written
        raise UnsupportedError(error.message) from None
    several = [made] if isinstance(made, Source) else list(made)
    results = [
        layers.convert(source, spec.element_type)
        for source, spec in zip(several, outputs, strict=False)
    ]
    shapes = [None if source is None else layers.spec(source).shape for source in given]
    return Decomposition(layers.needed(results), given, shapes, results)
