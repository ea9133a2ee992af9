"""Which kernel runs a sequence of which only the last states are wanted, and which one tells how far its rows must run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.internal_ops.final_states import LastStates, StepLengths
from uncork.internal_ops.looked_up_sequence import LookedUp
from uncork.kernels.names import flags
from uncork.kernels.recurrent.select import Lookup, sequence_of
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.select import Choice, In, Native, Operand, Out, chooses
from uncork.ops import Operation
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.gather import Gather7
from uncork.types import TensorSpec


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
        return f"step_lengths_{self.index}_{self.lengths}" + flags(self, "wraps", "zeros")


@chooses("StepLengths")
def choose_lengths(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    indices, lengths = inputs
    assert indices is not None and lengths is not None and isinstance(operation, StepLengths)
    if not indices.shape.is_static or not lengths.shape.is_static:
        return "shapes are known at the call only"
    wraps = operation.counts_from_end and indices.element_type.dtype.kind == "i"
    spec = Lengths(indices.element_type.name, lengths.element_type.name, wraps, operation.zeros)

    def make() -> str:
        from uncork.kernels.recurrent.emit_step_lengths import emit_lengths

        return emit_lengths(spec)

    (batch,) = lengths.shape.static
    stride = operation.stride * indices.element_type.dtype.itemsize
    words: list[Operand] = [In(0), stride, In(1), Out(0), batch, operation.steps]
    return Native(spec.name, [(STORE.function(spec.name, repr(spec), make), words)], cost=2.0 * batch)


@chooses("LastStates")
def choose_states(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, LastStates)
    return sequence_of(operation.sequence, inputs, outputs, states_only=True)


@chooses("LookedUp")
def choose_looked_up(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, LookedUp) and isinstance(operation.gather, Gather7)
    *own, table, _ = inputs
    assert table is not None and table.value is not None
    states_only = isinstance(operation.sequence, LastStates)
    sequence = operation.sequence.sequence if isinstance(operation.sequence, LastStates) else operation.sequence
    assert isinstance(sequence, RecurrentSequence)
    lookup = Lookup(table.value, operation.gather.counts_from_end, operation.gather.strict)
    return sequence_of(sequence, own, outputs, states_only, lookup)
