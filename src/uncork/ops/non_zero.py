"""NonZero-3: where a tensor is not 0.

    output[:, k] = the place of the k-th non-zero element, in row-major order

Page: operation-specs/condition/nonzero-3. NaN is not 0, -0.0 is. As the page's [rank(data), count]
says, a scalar gives [0, 1] or [0, 0]. Dimensions whose places i32 cannot hold are refused with that
output_type.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import FOLD_LIMIT, Operation, register
from uncork.ops._ports import (
    ANY,
    STRING,
    Input,
    Output,
    index_type,
)
from uncork.storage import decode
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("NonZero", 3)
class NonZero3(Operation):
    """`data` of any shape -> `[rank, count]`."""

    data = Input(ANY - STRING)
    output = Output()
    output_type = index_type()

    def infer(self, data: TensorSpec) -> TensorSpec:
        if data.rank is not None:
            largest = max((d.low for d in data.shape), default=0)
            self.require(
                largest <= 2 ** (self.output_type.bits - 1),
                "places in shape {} do not fit {}",
                data.shape,
                self.output_type,
            )
        count = Dimension(0, data.shape.size.high)
        if data.value is not None and data.value.size <= FOLD_LIMIT:
            count = Dimension.of(int(np.count_nonzero(decode(data.value, data.element_type))))
        return TensorSpec(self.output_type, PartialShape([data.rank, count]))

    def reference(self, data: Array) -> Array:
        return np.ascontiguousarray(np.argwhere(data).T)
