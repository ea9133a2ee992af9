"""What a compiled model does in a call, for every size: native segments, and steps that Python makes between them. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from uncork.compiler.plan import Step as PrintedStep
from uncork.ir.model import Node
from uncork.kernels.runtime.segment_plan import ArgumentAddress, BufferAddress, Number, SegmentPlan, Slot, TensorAddress
from uncork.symbolic import Relation
from uncork.types import Array, ElementType


@dataclass(frozen=True, slots=True, eq=False)
class ConstantPlace:
    """An array that is part of the model."""

    array: Array


#: Where a tensor lies: in an array of the call, in the working memory, among tensors of sizes, or in the model.
Place = Union[ArgumentAddress, BufferAddress, TensorAddress, ConstantPlace]


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor where it lies, with its element type and sizes. Sizes are None where its own array tells them."""

    place: Place
    element_type: ElementType
    sizes: tuple[Number, ...] | None


@dataclass(frozen=True, slots=True)
class FoundSymbol:
    """A symbol that a step finds: the size of an output along an axis, or where `is_element`, an element in C order."""

    slot: Slot
    output: int
    position: int
    is_element: bool


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """A layer that its reference runs. Each output becomes the argument of this number."""

    node: Node
    inputs: tuple[PlacedTensor, ...]
    outputs: tuple[int, ...]
    found: tuple[FoundSymbol, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadStep:
    """Sizes that kernels have computed as values of tensors."""

    tensors: tuple[PlacedTensor, ...]
    found: tuple[FoundSymbol, ...]


Part = Union[SegmentPlan, ReferenceStep, ReadStep]


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """A result of the model: its NumPy type, its sizes, and the argument number of its array; `own` where the step before made it."""

    dtype: np.dtype[Any]
    sizes: tuple[Number, ...] | None
    argument: int


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """See the module. Contexts and segments for calls are made from it; it is shared by all of them."""

    parts: tuple[Part, ...]
    #: What each slot of a context holds at first.
    slots: tuple[int, ...]
    buffers: int
    tensor_bytes: int
    input_shapes: tuple[tuple[int | None, ...], ...]
    input_dtypes: tuple[np.dtype[Any], ...]
    results: tuple[ResultSpec, ...]
    #: Arrays in all: inputs, results, outputs of references.
    arguments: int
    #: Guards and checks by the numbers that segments report.
    relations: tuple[Relation, ...]
    printed: tuple[PrintedStep, ...] = ()
    keep: tuple[object, ...] = ()
    #: Slots by the names of symbols, to bind sizes without arrays and to show them.
    symbols: Mapping[str, Slot] = field(default_factory=dict)

    @property
    def is_native(self) -> bool:
        """One segment does all of it."""
        return len(self.parts) == 1 and isinstance(self.parts[0], SegmentPlan)
