"""What a native segment does, as data: steps, and where their arguments come from when a call binds
its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Union

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from uncork.kernels.runtime import layout
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.target import Target, host_target
from uncork.types import Array


class CannotBeKnown(Exception):
    """A plan reads an argument in a way that only each call can tell."""


class Slot(Struct, frozen=True):
    """A number that the context holds: a symbol, a constant or a result of the size program."""

    index: int


#: An offset in bytes, or a number: known, or held by the context.
SizeOperand = Union[int, Slot]


class ArgumentAddress(Struct, frozen=True):
    """The address of an array of the call, plus an offset in bytes."""

    argument: int
    offset: SizeOperand = 0


class BufferAddress(Struct, frozen=True):
    """The address of a buffer in the working memory, plus an offset in bytes."""

    buffer: int
    offset: SizeOperand = 0


class TensorAddress(Struct, frozen=True):
    """The address of a small tensor that is made of sizes, in bytes from the first of them, plus an
    offset in bytes.
    """

    first: int
    offset: int = 0


class KnownAddress(Struct, frozen=True):
    """The address of memory that lies where it lies, plus an offset in bytes that sizes tell."""

    address: int
    offset: Slot


class CallTable(Struct, frozen=True):
    """The address of a table of calls (kernel, arguments), which `dispatch.dispatch` makes
    together.
    """

    calls: tuple[Step, ...]


class SlotAddress(Struct, frozen=True):
    """The address of a slot, for a kernel that writes a size to it."""

    slot: Slot


class VersionAddress(Struct, frozen=True):
    """The address of the number that grows whenever a size changes."""


class BodyTable(Protocol):
    """What native code reads of a body that a step runs, with memory of its own."""

    @property
    def address(self) -> int: ...

    def word_address(self, kind: str, index: int, axis: int) -> int:
        """The address of a word: of a "parameter", "size", "result", "buffer" or "kept" (see
        `turns_layout`).
        """
        ...

    def lacking(self) -> int:
        """The bytes of working memory that the last call has asked for in vain, or 0."""
        ...

    def misfits(self) -> bool:
        """Whether the last call was not for this plan of the body, whatever its values."""
        ...

    @property
    def working_bytes(self) -> int: ...


class StepBody(Struct, eq=False):
    """A body that a step runs. Each segment has a table of its own of it, with memory of so many
    bytes.
    """

    made: Callable[[int], BodyTable]
    #: Is told that a call did not fit.
    refuse: Callable[[], None]
    #: What it runs one behind the other, in which steps may run bodies, too.
    segments: list[SegmentPlan]
    #: The most bytes that one has asked for.
    bytes: int = 0
    #: A call did not fit.
    is_unfit: bool = False

    def give_up(self) -> None:
        """Give up the body after a call that did not fit: the layer runs in another way from now
        on.
        """
        self.is_unfit = True
        self.refuse()


class BodyAddress(Struct, frozen=True):
    """The address of the table of a body or, with a `kind`, of a word in it: see
    `BodyTable.place`.
    """

    body: StepBody
    kind: str = ""
    index: int = 0
    axis: int = 0


KernelArgument = Union[
    int,
    Slot,
    SlotAddress,
    VersionAddress,
    ArgumentAddress,
    BufferAddress,
    TensorAddress,
    KnownAddress,
    CallTable,
    BodyAddress,
]


class Step(Struct, frozen=True):
    """One call of a kernel: its address, its arguments; it is left out when `condition` is 0."""

    function: int
    arguments: tuple[KernelArgument, ...]
    condition: Slot | None = None

    @property
    def every_argument(self) -> Iterator[KernelArgument]:
        """The arguments, with those of the calls of a table in place of it."""
        for argument in self.arguments:
            if isinstance(argument, CallTable):
                for call in argument.calls:
                    yield from call.every_argument
            else:
                yield argument

    def map_arguments(self, change: Callable[[KernelArgument], KernelArgument]) -> Step:
        """The step with each argument replaced by what `change` makes of it."""
        arguments = (
            CallTable(tuple(call.map_arguments(change) for call in argument.calls))
            if isinstance(argument, CallTable)
            else change(argument)
            for argument in self.arguments
        )
        return replace(self, arguments=tuple(arguments))


class ArrayGuard(Struct, frozen=True):
    """A guard of an array of the call: exactly of this type, in C order, of these sizes. None is
    any size.

    `written`: it is written to. `dtype` is the very object that NumPy gives its own arrays.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    written: bool = False


class IdentityGuard(Struct, frozen=True):
    """A guard of an argument that is no array: it must be this very object."""

    what: object


class Bind(Struct, frozen=True):
    """The binding of a symbol: the size of an argument along an axis, or an element of it (`offset`
    in bytes).
    """

    slot: Slot
    argument: int
    axis: int = 0
    element: str = ""  # "i64" or "i32": an element, not a size
    offset: int = 0

    def value_of(self, array: Array) -> int:
        """The number for this array as the argument."""
        if self.element:
            return int(array.reshape(-1)[self.offset // array.itemsize])
        return int(array.shape[self.axis])


class Op(Struct, frozen=True):
    """One operation of the size program."""

    operation: str
    a: Slot
    b: Slot
    result: Slot


class SizeCheck(Struct, frozen=True):
    """A check of two numbers: "equal" or "at_least", and for guards "not_equal" as well. `index`
    tells it apart.
    """

    kind: str
    a: Slot
    b: Slot
    guard: bool
    index: int

    @property
    def code(self) -> int:
        """The number by which native code knows what to check (see `layout`)."""
        if self.guard:
            return {
                "equal": layout.GUARD_EQUAL,
                "at_least": layout.GUARD_AT_LEAST,
                "not_equal": layout.GUARD_NOT_EQUAL,
            }[self.kind]
        return {"equal": layout.CHECK_EQUAL, "at_least": layout.CHECK_AT_LEAST}[self.kind]


class BufferLifetime(Struct, frozen=True):
    """A buffer, by number, of so many bytes, that is used from step `first` to step `last`."""

    buffer: int
    bytes: Slot
    first: int
    last: int


class MadeResult(Struct, frozen=True):
    """A result that the call makes: its element type and sizes."""

    dtype: np.dtype[Any]
    sizes: tuple[SizeOperand, ...]


class SizeTensor(Struct, frozen=True):
    """A small tensor that is made of sizes: where it begins (see `TensorAddress`), the bytes of an
    element, its elements.
    """

    first: int
    width: int
    elements: tuple[SizeOperand, ...]


class SegmentPlan(Struct, frozen=True):
    """What a segment does, without memory of its own: see the classes above. `cost` is in
    nanoseconds.
    """

    steps: tuple[Step, ...] = ()
    binds: tuple[Bind, ...] = ()
    ops: tuple[Op, ...] = ()
    checks: tuple[SizeCheck, ...] = ()
    buffers: tuple[BufferLifetime, ...] = ()
    cost: Slot | None = None
    tensors: tuple[SizeTensor, ...] = ()
    #: What its kernels are for, and the functions by which they are called.
    target: Target = field(default_factory=host_target)

    @property
    def runs_bodies(self) -> bool:
        """Whether one of the steps runs a body."""
        return bool(self.bodies)

    @property
    def bodies(self) -> set[StepBody]:
        """The bodies that steps run."""
        return {
            argument.body
            for step in self.steps
            for argument in step.every_argument
            if isinstance(argument, BodyAddress)
        }

    def forget_memory(self) -> None:
        """Have bodies ask again how much memory they need."""
        for body in self.bodies:
            body.bytes = 0
            for segment in body.segments:
                segment.forget_memory()

    def with_arguments(self, positions: Mapping[int, int]) -> SegmentPlan:
        """The plan for arrays that come as other arguments of the call: `positions` maps the old
        positions to the new ones.
        """
        if all(index == position for index, position in positions.items()):
            return self

        def change(argument: KernelArgument) -> KernelArgument:
            return (
                replace(argument, argument=positions.get(argument.argument, argument.argument))
                if isinstance(argument, ArgumentAddress)
                else argument
            )

        steps = tuple(step.map_arguments(change) for step in self.steps)
        binds = tuple(
            replace(bind, argument=positions.get(bind.argument, bind.argument))
            for bind in self.binds
        )
        return replace(self, steps=steps, binds=binds)

    def with_known(
        self, arrays: Mapping[int, Array]
    ) -> tuple[SegmentPlan, tuple[tuple[Slot, int], ...]]:
        """The plan for calls in which some arguments, by position, are always these arrays, and the
        numbers that it would read of them.

        The arrays must live, and stay as they are, as long as segments of the plan. Raises
        CannotBeKnown where a body may read them, or only the call knows which place in one.
        """
        if not arrays:
            return self, ()
        if self.runs_bodies or any(
            isinstance(argument, ArgumentAddress)
            and argument.argument in arrays
            and isinstance(argument.offset, Slot)
            for step in self.steps
            for argument in step.every_argument
        ):
            raise CannotBeKnown

        def change(argument: KernelArgument) -> KernelArgument:
            if not isinstance(argument, ArgumentAddress) or argument.argument not in arrays:
                return argument
            assert isinstance(argument.offset, int)
            return address_of(arrays[argument.argument]) + argument.offset

        steps = tuple(step.map_arguments(change) for step in self.steps)
        numbers = tuple(
            (bind.slot, bind.value_of(arrays[bind.argument]))
            for bind in self.binds
            if bind.argument in arrays
        )
        binds = tuple(bind for bind in self.binds if bind.argument not in arrays)
        return replace(self, steps=steps, binds=binds), numbers
