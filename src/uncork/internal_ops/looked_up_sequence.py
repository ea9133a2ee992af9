"""Internal operation: a recurrent sequence whose X is looked up in a table.

See the pass `precompute_input_projection`.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Field, Input, Output
from uncork.types import TensorSpec


class LookedUp(Operation):
    """A recurrent layer that takes the ids of its X: `gather` looks them up, `sequence` is what
    then runs.

    Inputs are those of the sequence with the ids `[B, T]` in place of X, and then the table `[N,
    I]` and the axis, which is 0.
    """

    type_name, opset = "LookedUp", 0
    values = Input(ANY, variadic=True)
    results = Output()

    gather = Field[Operation]()
    sequence = Field[Operation]()

    def __init__(self, gather: Operation, sequence: Operation) -> None:
        super().__init__(gather=gather, sequence=sequence)

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        ids, *others, table, axis = specs
        (x,) = self.gather.describe([table, ids, axis])
        return self.sequence.describe([x, *others])

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        ids, *others, table, axis = specs
        (x,) = self.gather.evaluate([table, ids, axis])
        return self.sequence.evaluate([x, *others])
