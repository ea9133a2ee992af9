"""Internal operation: each pixel normalised over all of its channels (LayerNorm2d, RMSNorm2d)."""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import OfReals
from uncork.ops._ports import REAL, Field, Input
from uncork.types import Array, PartialShape, TensorSpec


class ChannelNormalization(OfReals):
    """`data [N, C, ...]`, `scale [C]`, `bias [C]`: each place is divided by the root of `epsilon`
    and the mean of the squares of its channels; where `centred`, their mean is taken away first.
    """

    scale = Input(REAL, "T")
    bias = Input(REAL, "T")

    epsilon = Field[float]()
    centred = Field(True)

    def infer(self, data: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> PartialShape:
        return data.shape

    def reference(self, data: Array, scale: Array, bias: Array) -> Array:
        count = data.dtype.type(data.shape[1])
        left = data - np.sum(data, 1, keepdims=True) / count if self.centred else data
        squares = np.sum(left * left, 1, keepdims=True) / count
        by_channel = (-1, *[1] * (data.ndim - 2))
        normal = left / np.sqrt(squares + data.dtype.type(self.epsilon))
        return np.asarray(normal * scale.reshape(by_channel) + bias.reshape(by_channel))
