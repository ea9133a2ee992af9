"""The plan of a call, for every size: native segments, and steps that Python makes between them.
Data only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
from msgspec import Struct, field

from uncork.ir.model import Node
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    ArrayGuard,
    BufferAddress,
    KernelArgument,
    MadeResult,
    SegmentPlan,
    SizeOperand,
    Slot,
    TensorAddress,
)
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Origin, Relation, SizeLike
from uncork.types import Array, ElementType, TensorSpec


class ConstantLocation(Struct, frozen=True, eq=False):
    """An array that is part of the model."""

    array: Array


#: Where a tensor lies: in an array of the call, in the working memory, among tensors of sizes, or
#: in the model.
Location = Union[ArgumentAddress, BufferAddress, TensorAddress, ConstantLocation]


class LocatedTensor(Struct, frozen=True):
    """The location of a tensor, with its element type and sizes. Sizes are None where the tensor is
    an array that has its own.
    """

    location: Location
    element_type: ElementType
    sizes: tuple[SizeOperand, ...] | None


class FoundSymbol(Struct, frozen=True):
    """A number that a step finds: the size of an output along an axis, or where `is_element`, an
    element in C order.
    """

    slot: Slot
    output: int
    position: int
    is_element: bool


class BranchTensor(Struct, frozen=True):
    """A tensor that a body takes or gives inside a segment: where it lies, its sizes and its
    bytes.
    """

    address: KernelArgument
    sizes: tuple[SizeOperand, ...]
    bytes: SizeOperand


class BodyRun(Protocol):
    """A run of a layer with bodies; raises UncorkError where the references have to say what is
    wrong.
    """

    def prepare(self, target: Target) -> None:
        """Have the native functions compiled that are no kernels of the bodies."""

    def evaluate(self, inputs: Sequence[Array]) -> Sequence[Array]: ...

    @property
    def working_bytes(self) -> int: ...

    def release_memory(self) -> None: ...


class ReferenceStep(Struct, frozen=True):
    """A step that runs a layer by its reference, or by its `body`. `outputs` are the numbers of the
    arguments that its outputs become, if they have the shapes that the plan knows.

    None is any size, or any shape: those that are expressions are among `found`, for the next
    segment to check.
    """

    node: Node
    #: Of the inputs, with expressions for what only a call knows.
    specs: tuple[TensorSpec, ...]
    inputs: tuple[LocatedTensor, ...]
    outputs: tuple[int, ...]
    shapes: tuple[tuple[int | None, ...] | None, ...]
    found: tuple[FoundSymbol, ...] = ()
    #: Runs a layer with bodies.
    body: BodyRun | None = None


class NativeStep(Struct, frozen=True):
    """A native segment, and the results of the model, by number, that it makes.

    One native call runs those that follow each other: one ends where it has found a size.
    """

    segment: SegmentPlan
    makes: tuple[tuple[int, MadeResult], ...] = ()


Part = Union[NativeStep, ReferenceStep]


class PlannedStep(Struct, frozen=True):
    """A layer as the plan runs it, for display: its kernel or the reason why it has none, the note
    of a pass, and where its result lies.
    """

    node: Node
    kernel: str
    reason: str
    note: str
    location: Location | None


class ResultSpec(Struct, frozen=True):
    """A result of the model: its NumPy type, its sizes, and the argument number of its array.
    Without sizes the array has its own.
    """

    dtype: np.dtype[Any]
    sizes: tuple[SizeOperand, ...] | None
    argument: int


class CallPlan(Struct, frozen=True, eq=False):
    """The plan of a call: what a compiled model does, as data. Contexts and segments for calls are
    made from it; all of them share it.
    """

    parts: tuple[Part, ...]
    #: What each slot of a context holds at first.
    slots: tuple[int, ...]
    buffers: int
    tensor_bytes: int
    #: What the inputs must be.
    array_guards: tuple[ArrayGuard, ...]
    results: tuple[ResultSpec, ...]
    #: Arrays in all: inputs, results, outputs of references.
    arguments: int
    #: Guards and checks by the numbers that segments report.
    relations: tuple[Relation, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    keep: tuple[object, ...] = ()
    #: The layer of each buffer, for messages.
    buffer_layers: tuple[str, ...] = ()
    #: The most bytes of working memory that a call may take; None: as many as there are.
    memory_limit: int | None = None
    #: Where the symbols are, by what they stand for.
    symbols: Mapping[Origin, Slot] = field(default_factory=dict)
    #: Inputs, by number, that the plan writes to, and the shapes that they must have at least: as
    #: expressions, and as the context holds them.
    extended: tuple[tuple[int, tuple[SizeLike, ...], tuple[SizeOperand, ...]], ...] = ()
    #: The most threads of a call, those of NumPy's products among them.
    threads: int = 1

    @property
    def is_native(self) -> bool:
        """Whether the plan is one native segment."""
        return len(self.parts) == 1 and isinstance(self.parts[0], NativeStep)

    @property
    def native_steps(self) -> tuple[NativeStep, ...]:
        """Its native segments, whatever lies between them."""
        return tuple(part for part in self.parts if isinstance(part, NativeStep))

    @property
    def segment_plans(self) -> tuple[SegmentPlan, ...]:
        """The plans of all its native segments."""
        return tuple(step.segment for step in self.native_steps)

    @property
    def segments(self) -> tuple[NativeStep, ...]:
        """Its native segments where it consists of nothing else, so that one native call makes
        all; none otherwise.
        """
        return self.native_steps if len(self.native_steps) == len(self.parts) else ()

    @property
    def made(self) -> list[tuple[int, tuple[SizeOperand, ...] | None]]:
        """The arrays that segments make for results of the model, in order: their argument numbers
        and sizes.
        """
        first = len(self.array_guards)
        return [(first + n, made.sizes) for step in self.native_steps for n, made in step.makes]

    @property
    def gives_what_is_made(self) -> bool:
        """Whether these are the results of the model, all and in order, with just their sizes."""
        results = [(result.argument, result.sizes) for result in self.results]
        return bool(results) and self.made == results


class Stop(Struct, frozen=True):
    """Why a call gave no results: a status of `runtime.layout`, and the numbers that had been found
    until then.
    """

    status: int
    found: Mapping[Origin, int] = field(default_factory=dict)
