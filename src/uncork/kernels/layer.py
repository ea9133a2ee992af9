"""A layer as selectors of kernels see it: what it lacks declines the kernel, in the words that
plans print.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar, Union

from msgspec import Struct

from uncork.ir.hints import NO_HINTS, Hints
from uncork.kernels.extents import KernelDeclined, decline_if, elements_of, extents, largest
from uncork.kernels.kernel_plan import (
    KernelCall,
    KernelPlan,
    Scratch,
    Stages,
    Workspace,
    grid,
    whole_lines,
)
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import stored_type
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: The most bytes of a layer's tables, where `memory_limit` is not lower.
MOST_TABLE_BYTES = 1 << 28
AnyOperation = TypeVar("AnyOperation", bound=Operation)


def most_table_bytes(memory_limit: int | None) -> int:
    """The most bytes of a layer's tables, where calls take at most `memory_limit` bytes."""
    return MOST_TABLE_BYTES if memory_limit is None else min(MOST_TABLE_BYTES, memory_limit)


class Layer(Struct, frozen=True):
    """An operation with the specs of its inputs and outputs, and the processor it shall run on.

    Every method that reads a tensor raises KernelDeclined where the tensor is not of the kind that
    is asked for; `select_kernel` makes that the reason why there is no kernel.
    """

    operation: Operation
    #: None for an optional input that is absent.
    inputs: Sequence[Union[TensorSpec, None]]
    outputs: Sequence[TensorSpec]
    target: Target
    hints: Hints = NO_HINTS
    #: The most bytes that its tables may take while it is planned.
    table_bytes: int = MOST_TABLE_BYTES

    def of(self, kind: type[AnyOperation]) -> AnyOperation:
        """The operation, of a kind that the table of selectors promises."""
        assert isinstance(self.operation, kind), self.operation
        return self.operation

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> TensorSpec:
        """An input that must be given."""
        spec = self.inputs[position] if position < len(self.inputs) else None
        if spec is None:
            raise KernelDeclined(f"no kernel without input {position}")
        return spec

    def optional(self, position: int) -> TensorSpec | None:
        """An input, or None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def shape(self, position: int) -> tuple[SizeLike, ...]:
        """The sizes of an input, numbers or expressions."""
        return extents(self.input(position))

    def result(self, position: int = 0) -> tuple[SizeLike, ...]:
        """The sizes of an output, numbers or expressions."""
        return extents(self.outputs[position])

    def stored(self, position: int) -> str:
        """The name of the type by which an input's elements lie in memory."""
        return self._readable(self.input(position), stored_type(self.input(position).element_type))

    def require(self, position: int, *element_types: ElementType) -> None:
        """Decline where the elements of an input are of another type than these."""
        found = self.input(position).element_type
        decline_if(found not in element_types, f"no kernel for {found}")

    def require_numbers(self, position: int) -> None:
        """Decline where the elements of an input are strings."""
        decline_if(self.input(position).element_type is ElementType.string, "no kernel for strings")

    def constant(self, position: int, what: str) -> Array:
        """The value of an input that the model holds; `what` it is, in a plan's words."""
        value = self.input(position).value
        if value is None:
            raise KernelDeclined(f"{what} known at the call only")
        return value

    def numbers(self, position: int, what: str) -> list[SizeLike]:
        """The elements of a small integer input, as numbers or expressions; `what` they are."""
        found = elements_of(self.input(position))
        if found is None:
            raise KernelDeclined(f"{what} known at the call only")
        return found

    def number(self, position: int, what: str) -> SizeLike:
        """The first of these elements; `what` it is."""
        found = self.numbers(position, what)
        decline_if(not found, f"{what} known at the call only")
        return found[0]

    def axis(self, position: int, rank: int) -> int:
        """The axis that an input says of a tensor of so many axes."""
        axis = self.constant(position, "the axis is")
        return normalised_axis(self.operation, int(axis.reshape(-1)[0]), rank)

    def require_room(self, needed: int) -> None:
        """Decline where a table takes more bytes than there are for tables: to be called before it
        is made, since a size is one number of a file.
        """
        decline_if(
            needed > self.table_bytes,
            f"its tables need {needed:,} bytes, more than {self.table_bytes:,}",
        )

    @staticmethod
    def _readable(spec: TensorSpec, name: str | None) -> str:
        if name is None:
            raise KernelDeclined(f"no kernel for {spec.element_type}")
        return name


def present(spec: TensorSpec | None) -> TensorSpec:
    """A tensor that must be given."""
    if spec is None:
        raise KernelDeclined("no kernel without one of its inputs")
    return spec


def one_call(
    call: KernelCall, cost: float | Size, workspace: Workspace | None = None
) -> KernelPlan:
    """The plan of a single call of a kernel."""
    return KernelPlan(
        call[0].name, [call], scratch=0 if workspace is None else workspace.bytes, cost=cost
    )


def shared_call(
    part: Callable[..., KernelCall],
    shared: SizeLike | Sequence[tuple[SizeLike, int]],
    cost: float | Size,
    keep: Sequence[object] = (),
    own: SizeLike | None = None,
) -> KernelPlan:
    """The plan of a call that threads share: `part(first, some)` is the call for some of so many
    things, or for some along each of several axes (how many, of which whole blocks stay together).
    With `own` bytes of working memory for each thread, `part` is given its address at last.
    """
    axes = [(shared, 1)] if isinstance(shared, (int, Size)) else shared
    room = 0 if own is None else whole_lines(own)

    def split(threads: int) -> Stages:
        calls: list[KernelCall] = []
        for number, some in enumerate(grid(axes, threads)):
            memory = () if own is None else (Scratch(room * number),)
            calls.append(part(*chain(*some), *memory))
        return Stages([calls], room * len(calls))

    return staged(split, cost, keep)


def joined(parts: Sequence[Stages]) -> Stages:
    """The stages of several works, one after the other, which share their working memory."""
    when = [condition for part in parts for condition in part.when or [None] * len(part.stages)]
    return Stages(
        [stage for part in parts for stage in part.stages],
        functools.reduce(largest, [part.scratch for part in parts]),
        when if any(when) else (),
    )


def staged(
    split: Callable[[int], Stages],
    cost: float | Size,
    keep: Sequence[object] = (),
    name: str = "",
) -> KernelPlan:
    """The plan of work that is done in stages, named after the last kernel where no name is given:
    one thread makes all of its calls one after the other.
    """
    alone = split(1)
    calls = [call for stage in alone.stages for call in stage]
    when = [
        condition for stage, condition in zip(alone.stages, alone.when, strict=False) for _ in stage
    ]
    return KernelPlan(
        name or calls[-1][0].name,
        calls,
        alone.scratch,
        keep,
        cost,
        split,
        when if any(when) else (),
    )
