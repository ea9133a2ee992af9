"""Internal operation: a recurrent sequence whose X is looked up in a table.

See the pass `precompute_input_projection`.
"""

from __future__ import annotations

from uncork.internal_ops.of_layers import OfLayers, Specs, Step
from uncork.ops._operation import Operation
from uncork.ops._ports import Field, Output
from uncork.types import TensorSpec


class LookedUp(OfLayers):
    """A recurrent layer that takes the ids of its X: `gather` looks them up, `sequence` is what
    then runs.

    Inputs are those of the sequence with the ids `[B, T]` in place of X, and then the table `[N,
    I]` and the axis, which is 0.
    """

    results = Output()

    gather = Field[Operation]()
    sequence = Field[Operation]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        ids, *others, table, axis = specs
        return step(self.sequence, [*step(self.gather, [table, ids, axis]), *others])
