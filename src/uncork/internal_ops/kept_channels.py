"""Internal operation: channels that are kept, beside zeros in the place of others.

`block_channels` ends convolutions by it whose results have channels of zeros: zeros of filters make
no zero of an infinity.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import Input, Output
from uncork.types import Array, ElementType, PartialShape, TensorSpec

_SINGLE = frozenset({ElementType.f32})


class KeptChannels(Operation):
    """`data [N, C, ..]` where `kept [1, C, 1..]` is not 0, and 0 elsewhere, whatever is there."""

    elementwise = True
    data = Input(_SINGLE, "T")
    kept = Input(_SINGLE, "T")
    output = Output("T")

    def infer(self, data: TensorSpec, kept: TensorSpec) -> PartialShape:
        return data.shape

    def reference(self, data: Array, kept: Array) -> Array:
        return np.where(kept != 0, data, np.float32(0))
