"""Internal operation: a pooling without indices. See the pass `drop_unread_indices`."""

from __future__ import annotations

from uncork.internal_ops.of_layers import OfLayers, Specs, Step
from uncork.ops._operation import Operation
from uncork.ops._ports import Field, Output
from uncork.types import TensorSpec


class PooledValues(OfLayers):
    """A pooling without its second output, the places of the largest cells."""

    output = Output()

    pool = Field[Operation]()

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        return step(self.pool, specs)[:1]
