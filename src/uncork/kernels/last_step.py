"""Which kernel runs a sequence of which only the last states are wanted, and which one tells how far its rows must run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from uncork.kernels.choose import Choice, In, KernelCall, Native, Operand, Out, Room, Stages, chooses
from uncork.kernels.recurrent import ARGUMENTS, choose_sequence
from uncork.kernels.store import STORE
from uncork.ops import Operation
from uncork.ops._last_step import LastStates, StepLengths
from uncork.types import PartialShape, TensorSpec

_LINE = 64


@dataclass(frozen=True, slots=True)
class Lengths:
    """What a kernel is specialised for: types of the indices and of the lengths, and what indices beyond the steps mean."""

    index: str
    lengths: str
    #: A negative index counts from the end.
    wraps: bool
    #: An index outside gives a length of 0; otherwise it is refused.
    zeros: bool

    @property
    def name(self) -> str:
        return f"step_lengths_{self.index}_{self.lengths}{'_wraps' if self.wraps else ''}{'_zeros' if self.zeros else ''}"


@chooses("StepLengths")
def choose_lengths(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    indices, lengths = inputs
    assert indices is not None and lengths is not None and isinstance(operation, StepLengths)
    if not indices.shape.is_static or not lengths.shape.is_static:
        return "shapes are known at the call only"
    wraps = operation.counts_from_end and indices.element_type.dtype.kind == "i"
    spec = Lengths(indices.element_type.name, lengths.element_type.name, wraps, operation.zeros)

    def make() -> str:
        from uncork.kernels.last_step_code import emit_lengths

        return emit_lengths(spec)

    (batch,) = lengths.shape.static
    stride = operation.stride * indices.element_type.dtype.itemsize
    words: list[Operand] = [In(0), stride, In(1), Out(0), batch, operation.steps]
    return Native(spec.name, [(STORE.function(spec.name, repr(spec), make), words)], cost=2.0 * batch)


@chooses("LastStates")
def choose_states(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    """The kernel of the sequence. All rows write their Y over each other, into a few lines that stay in the cache."""
    assert isinstance(operation, LastStates)
    x = inputs[0]
    assert x is not None
    if not x.shape.is_static or not outputs[0].shape.is_static:
        return "shapes are known at the call only"
    batch, directions, hidden = outputs[0].shape.static
    steps = x.shape.static[1]
    y = TensorSpec(x.element_type, PartialShape([batch, directions, steps, hidden]))
    choice = choose_sequence(operation.sequence, inputs, [y, *outputs])
    if not isinstance(choice, Native):
        return choice
    size = -(-steps * hidden * 4 // _LINE) * _LINE
    split = choice.split

    def narrower(threads: int) -> Stages:
        assert split is not None
        stages = split(threads)
        room = -(-stages.room // _LINE) * _LINE
        (calls,) = stages.stages  # which run at the same time: each has a Y of its own
        return Stages([[_without_y(call, room + number * size) for number, call in enumerate(calls)]], room + len(calls) * size)

    room = -(-choice.room // _LINE) * _LINE
    whole = [_without_y(call, room) for call in choice.calls]
    return replace(choice, calls=whole, room=room + size, split=narrower if split else None)


def _without_y(call: KernelCall, room: int) -> KernelCall:
    """A call of a sequence's kernel that has its Y in the step's working memory, and its states one output further to the front."""
    function, words = call
    named = dict(zip(ARGUMENTS, words, strict=True))
    named |= {"y": Room(room), "y_row": 0}
    for name in ("ho", "co"):
        state = named[name]
        if isinstance(state, Out):
            named[name] = Out(state.position - 1, state.offset)
    return function, list(named.values())
