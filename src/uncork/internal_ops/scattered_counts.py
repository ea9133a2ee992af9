"""Internal operation: the count of each number, written to the place in a tensor that the number
names.

Converters write it as a Unique whose counts are scattered to its elements. See the pass
`scatter_counts`.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, INTEGER, Field, Input, Output
from uncork.ops.unique import Unique10
from uncork.types import Array, ElementType, TensorSpec


class ScatteredCounts(Operation):
    """A copy of `data [n]` in which the element at each number of `keys [m]` is the count of that
    number.

    `scatter` and `unique` are the layers themselves.
    """

    data = Input(ANY, "T")
    keys = Input(INTEGER)
    output = Output("T")

    scatter = Field[Operation]()
    unique = Field[Unique10]()

    def infer(self, data: TensorSpec, keys: TensorSpec) -> TensorSpec:
        return TensorSpec(data.element_type, data.shape)

    def reference(self, data: Array, keys: Array) -> Array:
        values, _, _, counts = self.unique.reference(keys, None)
        axis = np.zeros((), np.int64)
        return np.asarray(self.scatter.reference(data, values, counts.astype(data.dtype), axis))


#: Types of data whose counts a conversion from i32 or i64 gives as they are, or rounds to nearest.
COUNTED = (ElementType.i32, ElementType.i64, ElementType.f32)
