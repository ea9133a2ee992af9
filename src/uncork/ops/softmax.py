"""SoftMax-1, -8 and LogSoftmax-5: a tensor as probabilities along one axis, and their logarithms.

    SoftMax:    output = e^x / sum of e^x along the axis
    LogSoftmax: output = x - ln(sum of e^x along the axis)

Pages: operation-specs/activation/softmax-1, -8, log-soft-max-5. The largest x of each row is
subtracted first, so that nothing overflows. A row of infinities gives NaN, as the formula does; an
empty tensor gives itself.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.elementwise import Unary
from uncork.ops._common.indices import normalised_axis
from uncork.ops._operation import register
from uncork.ops._ports import Attribute, at_least, integer
from uncork.types import Array, PartialShape, TensorSpec


def lowered(data: Array, axis: int) -> Array:
    """The data less the largest element of each row along `axis`."""
    return np.asarray(data - np.max(data, axis, keepdims=True, initial=-np.inf))


def softmax(data: Array, axis: int) -> Array:
    powers = np.exp(lowered(data, axis))
    return np.asarray(powers / np.sum(powers, axis, keepdims=True))


class _AlongAxis(Unary):
    elementwise = False
    axis = Attribute(integer, default=1)

    def infer(self, data: TensorSpec) -> PartialShape:
        if data.rank is not None:
            normalised_axis(self, self.axis, data.rank)
        return data.shape


@register("SoftMax", 8)
class SoftMax8(_AlongAxis):
    """The axis may count from the end."""

    def reference(self, data: Array) -> Array:
        return softmax(data, self.axis)


@register("SoftMax", 1)
class SoftMax1(SoftMax8):
    """The axis counts from the front."""

    axis = Attribute(integer, default=1, check=at_least(0))


@register("LogSoftmax", 5)
class LogSoftmax(_AlongAxis):
    """The axis may count from the end."""

    def reference(self, data: Array) -> Array:
        low = lowered(data, self.axis)
        return np.asarray(low - np.log(np.sum(np.exp(low), self.axis, keepdims=True)))
