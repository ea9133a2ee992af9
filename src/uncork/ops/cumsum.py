"""CumSum-3: running sums along an axis.

    output[j] = data[0] + ... + data[j]       exclusive: ... + data[j - 1], and 0 for the first
    reverse:    data[j] + ... + data[n - 1]             exclusive: without data[j]

Page: operation-specs/arithmetic/cumsum-3. The axis is 0 when absent; one element is taken for a
scalar. Integers wrap modulo 2**bits.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.running import running
from uncork.ops._common.vectors import scalar
from uncork.ops._operation import OfNumbers, register
from uncork.ops._ports import I32_I64, Attribute, Input, boolean
from uncork.types import Array, PartialShape, TensorSpec


@register("CumSum", 3)
class CumSum(OfNumbers):
    """`data` of rank 1 or more, `axis []` optional."""

    axis = Input(I32_I64, optional=True)
    exclusive = Attribute(boolean, default=False)
    reverse = Attribute(boolean, default=False)

    def infer(self, data: TensorSpec, axis: TensorSpec | None) -> PartialShape:
        self.require(data.rank != 0, "input 'data': expected at least one dimension, got a scalar")
        if axis is not None:
            number = scalar(self, "axis", axis)
            if number is not None and data.rank is not None:
                normalised_axis(self, number, data.rank)
        return data.shape

    def reference(self, data: Array, axis: Array | None) -> Array:
        along = 0 if axis is None else int(axis.reshape(-1)[0])
        return running(np.cumsum, 0, data, along, self.exclusive, self.reverse)
