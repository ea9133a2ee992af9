"""Selection of the kernel of a sequence's last states, and of the one that tells how far its rows
must run.
"""

from __future__ import annotations

from uncork.internal_ops.final_states import LastStates, StepLengths
from uncork.internal_ops.looked_up_sequence import LookedUp
from uncork.kernels.extents import extents, nanoseconds
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer, one_call
from uncork.kernels.recurrent.select import sequence_of
from uncork.kernels.recurrent.sequence_calls import Lookup
from uncork.kernels.recurrent.spec import Lengths
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.gather import Gather7


def select_lengths(layer: Layer) -> Selection:
    operation = layer.of(StepLengths)
    indices, lengths = layer.input(0), layer.input(1)
    wraps = operation.counts_from_end and indices.element_type.dtype.kind == "i"
    spec = Lengths(indices.element_type.name, lengths.element_type.name, wraps, operation.zeros)

    (batch,) = extents(lengths)
    stride = operation.stride * indices.element_type.dtype.itemsize
    call = spec(
        indices=In(0),
        stride=stride,
        lengths=In(1),
        output=Out(0),
        batch=batch,
        steps=operation.steps,
    )
    return one_call(call, nanoseconds(batch, 2.0))


def select_states(layer: Layer) -> Selection:
    return sequence_of(layer.of(LastStates).sequence, layer.inputs, layer, states_only=True)


def select_looked_up(layer: Layer) -> Selection:
    operation = layer.of(LookedUp)
    assert isinstance(operation.gather, Gather7)
    own = layer.inputs[:-2]
    table = layer.constant(len(own), "the table is")
    states_only = isinstance(operation.sequence, LastStates)
    sequence = (
        operation.sequence.sequence
        if isinstance(operation.sequence, LastStates)
        else operation.sequence
    )
    assert isinstance(sequence, RecurrentSequence)
    lookup = Lookup(table, operation.gather.counts_from_end, operation.gather.strict)
    return sequence_of(sequence, own, layer, states_only, lookup)
