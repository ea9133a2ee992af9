"""Internal operation: products of all elements so far along an axis. See the pass
`loops_to_running`.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.running import running
from uncork.ops._operation import OfNumbers
from uncork.ops._ports import Field
from uncork.types import Array, PartialShape, TensorSpec


class RunningProduct(OfNumbers):
    """What CumSum is for sums; the axis counts from the first."""

    axis = Field[int]()
    exclusive = Field[bool](False)
    reverse = Field[bool](False)

    def infer(self, data: TensorSpec) -> PartialShape:
        return data.shape

    def reference(self, data: Array) -> Array:
        return running(np.cumprod, 1, data, self.axis, self.exclusive, self.reverse)
