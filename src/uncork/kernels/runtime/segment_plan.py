"""What a native segment does, as data: steps, and where their arguments come from when a call binds
its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Union

import numpy as np


@dataclass(frozen=True, slots=True)
class Slot:
    """A number that the context holds: a symbol, a constant or a result of the size program."""

    number: int


#: An offset in bytes, or a number: known, or held by the context.
Number = Union[int, Slot]


@dataclass(frozen=True, slots=True)
class ArgumentAddress:
    """The address of an array of the call, plus an offset in bytes."""

    argument: int
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class BufferAddress:
    """The address of a buffer in the working memory, plus an offset in bytes."""

    buffer: int
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """The address of a small tensor that is made of sizes, in bytes from the first of them, plus an
    offset in bytes.
    """

    first: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CallTable:
    """The address of a table of calls (kernel, arguments), which `thread_pool.dispatch` makes
    together.
    """

    calls: tuple[Step, ...]


class BodyTable(Protocol):
    """What native code reads of a body that a step runs, with memory of its own."""

    @property
    def address(self) -> int: ...

    def place(self, kind: str, number: int, axis: int) -> int:
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


@dataclass(slots=True, eq=False)
class StepBody:
    """A body that a step runs. Each segment has a table of its own of it, with memory of so many
    bytes.
    """

    made: Callable[[int], BodyTable]
    #: Is told that a call did not fit.
    refuse: Callable[[], None]
    #: What it runs, in which steps may run bodies, too.
    segment: SegmentPlan
    #: The most bytes that one has asked for.
    bytes: int = 0
    #: A call did not fit.
    is_unfit: bool = False

    def give_up(self) -> None:
        """A call did not fit: the layer runs in another way from now on."""
        self.is_unfit = True
        self.refuse()


@dataclass(frozen=True, slots=True)
class BodyAddress:
    """The address of the table of a body or, with a `kind`, of a word in it: see
    `BodyTable.place`.
    """

    body: StepBody
    kind: str = ""
    number: int = 0
    axis: int = 0


Word = Union[int, Slot, ArgumentAddress, BufferAddress, TensorAddress, CallTable, BodyAddress]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a kernel: its address, its arguments; it is left out when `condition` is 0."""

    function: int
    words: tuple[Word, ...]
    condition: Slot | None = None

    @property
    def every_word(self) -> Iterator[Word]:
        """The arguments, with those of the calls of a table in place of it."""
        for word in self.words:
            if isinstance(word, CallTable):
                for call in word.calls:
                    yield from call.every_word
            else:
                yield word

    def with_words(self, change: Callable[[Word], Word]) -> Step:
        """The step with every argument changed so."""
        words = (
            CallTable(tuple(call.with_words(change) for call in word.calls))
            if isinstance(word, CallTable)
            else change(word)
            for word in self.words
        )
        return replace(self, words=tuple(words))


@dataclass(frozen=True, slots=True)
class ArrayGuard:
    """A guard of an array of the call: exactly of this type, in C order, of these sizes. None is
    any size.

    `written`: it is written to. `dtype` is the very object that NumPy gives its own arrays.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    written: bool = False

    def fits(self, array: Any) -> bool:
        """Whether the array is as it must be; the native entry looks in the same way."""
        if (
            type(array) is not np.ndarray
            or array.dtype is not self.dtype
            or array.ndim != len(self.shape)
        ):
            return False
        if not array.flags.c_contiguous or (self.written and not array.flags.writeable):
            return False
        return all(want is None or want == got for want, got in zip(self.shape, array.shape))


@dataclass(frozen=True, slots=True)
class IdentityGuard:
    """A guard of an argument that is no array: it must be this very object."""

    what: object

    def fits(self, argument: Any) -> bool:
        return argument is self.what


@dataclass(frozen=True, slots=True)
class Bind:
    """The binding of a symbol: the size of an argument along an axis, or an element of it (`offset`
    in bytes).
    """

    slot: Slot
    argument: int
    axis: int = 0
    element: str = ""  # "i64" or "i32": an element, not a size
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the size program."""

    operation: str
    a: Slot
    b: Slot
    result: Slot


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """A check of two numbers: "equal" or "at_least", and for guards "not_equal" as well. `number`
    tells it apart.
    """

    kind: str
    a: Slot
    b: Slot
    guard: bool
    number: int


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer, by number, of so many bytes, that is used from step `first` to step `last`."""

    buffer: int
    bytes: Slot
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MadeResult:
    """A result that the call makes: its element type and sizes."""

    dtype: np.dtype[Any]
    sizes: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class SizeTensor:
    """A small tensor that is made of sizes: where it begins (see `TensorAddress`), the bytes of an
    element, its elements.
    """

    first: int
    width: int
    elements: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """What a segment does, without memory of its own: see the classes above. `cost` is in
    nanoseconds.
    """

    steps: tuple[Step, ...] = ()
    binds: tuple[Bind, ...] = ()
    ops: tuple[Op, ...] = ()
    checks: tuple[SizeCheck, ...] = ()
    buffers: tuple[PlacedBuffer, ...] = ()
    cost: Slot | None = None
    tensors: tuple[SizeTensor, ...] = ()

    @property
    def runs_bodies(self) -> bool:
        """One of the steps runs bodies."""
        return bool(self.bodies)

    @property
    def bodies(self) -> set[StepBody]:
        """The bodies that steps run."""
        return {
            word.body
            for step in self.steps
            for word in step.every_word
            if isinstance(word, BodyAddress)
        }

    def forget_memory(self) -> None:
        """Have bodies ask again how much memory they need."""
        for body in self.bodies:
            body.bytes = 0
            body.segment.forget_memory()

    def with_arguments(self, positions: Mapping[int, int]) -> SegmentPlan:
        """The segment for arrays that come as other arguments."""
        if all(number == position for number, position in positions.items()):
            return self

        def change(word: Word) -> Word:
            return (
                replace(word, argument=positions.get(word.argument, word.argument))
                if isinstance(word, ArgumentAddress)
                else word
            )

        steps = tuple(step.with_words(change) for step in self.steps)
        binds = tuple(
            replace(bind, argument=positions.get(bind.argument, bind.argument))
            for bind in self.binds
        )
        return replace(self, steps=steps, binds=binds)
