"""Internal operation: a pooling without indices. See the pass `drop_unread_indices`."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Field, Input, Output
from uncork.types import TensorSpec


class PooledValues(Operation):
    """A pooling without its second output, the places of the largest cells."""

    type_name, opset = "PooledValues", 0
    values = Input(ANY, variadic=True)
    output = Output()

    pool = Field[Operation]()

    def __init__(self, pool: Operation) -> None:
        super().__init__(pool=pool)

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        return self.pool.describe(specs)[:1]

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        return self.pool.evaluate(specs)[:1]
