"""Internal operations: a sequence that gives its last states alone, and lengths of rows.

See the pass `sink_selection`.
"""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.of_layers import OfLayers, Specs, Step
from uncork.ops._common.indices import refuse_first
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops._common.sequences import check_lengths
from uncork.ops._operation import Operation
from uncork.ops._ports import INTEGER, Field, Input, Output
from uncork.symbolic import SizeLike
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec


class LastStates(OfLayers):
    """A sequence without its first output: the last states of each row alone."""

    states = Output()

    sequence = Field[RecurrentSequence]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        return step(self.sequence, specs)[1:]


class StepLengths(Operation):
    """How far each row of a sequence must run so that its last state is the one at a step that is
    asked for.

        output[b] = p + 1 where p < lengths[b], else 0
        p = the element number b * stride of `indices`

    0 gives zeros, as the sequence's Y has after the end of a row. `indices` of any shape, `lengths
    [B]` -> i64 [B].
    """

    indices = Input(INTEGER)
    lengths = Input(INTEGER)
    output = Output(ElementType.i64)

    steps = Field[SizeLike]()
    stride = Field[int]()
    #: A negative p counts from the end.
    counts_from_end = Field[bool]()
    #: A p that is outside of 0..steps - 1 gives 0; otherwise it is refused.
    zeros = Field[bool]()

    def infer(self, indices: TensorSpec, lengths: TensorSpec) -> PartialShape:
        check_lengths(self, "lengths", lengths, Dimension.of(self.steps), "seq_length")
        return lengths.shape

    def reference(self, indices: Array, lengths: Array) -> Array:
        place = indices.reshape(-1)[np.arange(len(lengths)) * self.stride]
        assert isinstance(self.steps, int), "a plan for open sizes runs this by its kernel"
        inside = place < self.steps  # as they are: an i64 has not all numbers of a u64
        place = np.where(inside, place, 0).astype(np.int64)
        if self.counts_from_end:
            place = np.where(place < 0, place + self.steps, place)
        inside &= place >= 0
        if not self.zeros:
            refuse_first(self, "indices", place, ~inside, f"a step, up to {self.steps - 1}")
        return np.where(inside & (place < lengths.astype(np.int64)), place + 1, 0)
