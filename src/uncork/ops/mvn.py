"""MVN-1 and -6: tensors with their mean taken away and, if asked for, divided by their standard
deviation.

    output = x - mean(x over axes)
    normalize_variance:  output = (x - mean) / sqrt(variance + eps)
                         or / (sqrt(variance) + eps) with eps_mode = outside_sqrt

Pages: operation-specs/normalization/mvn-1, -6. The variance is the mean of the squares (the pages
write a sum, OpenVINO and every framework take the mean). MVN-1: `reduction_axes` wins over
`across_channels` where both are given, as they are in files.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.indices import normalised_axes
from uncork.ops._common.vectors import check_axes
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import (
    I32_I64,
    Attribute,
    Input,
    boolean,
    integers,
    number,
    one_of,
)
from uncork.types import Array, PartialShape, TensorSpec


def standardised(
    x: Array, axes: tuple[int, ...], eps: float, divide: bool = True, inside: bool = True
) -> Array:
    """The tensor normalized along `axes` by the formula of the module, which GroupNormalization
    shares.
    """
    count = x.dtype.type(math.prod(x.shape[i] for i in axes))
    centred = x - np.sum(x, axes, keepdims=True) / count
    if not divide:
        return np.asarray(centred)
    variance = np.sum(centred * centred, axes, keepdims=True) / count
    small = x.dtype.type(eps)
    return np.asarray(
        centred / (np.sqrt(variance + small) if inside else np.sqrt(variance) + small)
    )


@register("MVN", 1)
class MVN1(OfReals):
    """Over the axes after the channels, over those from the channels on (`across_channels`), or
    over `reduction_axes`.
    """

    across_channels = Attribute(boolean, default=True)
    reduction_axes = Attribute(integers, default=())
    normalize_variance = Attribute(boolean)
    eps = Attribute(number)

    def axes(self, rank: int) -> tuple[int, ...]:
        if self.reduction_axes:
            return normalised_axes(
                self, np.array(self.reduction_axes, object), rank, "reduction_axes"
            )
        return tuple(range(1 if self.across_channels else 2, rank))

    def infer(self, data: TensorSpec) -> PartialShape:
        if data.rank is not None:
            self.axes(data.rank)
        return data.shape

    def reference(self, data: Array) -> Array:
        return standardised(data, self.axes(data.ndim), self.eps, self.normalize_variance)


@register("MVN", 6)
class MVN6(OfReals):
    """Over the axes of its second input."""

    axes = Input(I32_I64)
    normalize_variance = Attribute(boolean)
    eps = Attribute(number)
    eps_mode = Attribute(one_of("inside_sqrt", "outside_sqrt"))

    def infer(self, data: TensorSpec, axes: TensorSpec) -> PartialShape:
        check_axes(self, data, axes)
        return data.shape

    def reference(self, data: Array, axes: Array) -> Array:
        along = normalised_axes(self, axes, data.ndim)
        return standardised(
            data, along, self.eps, self.normalize_variance, self.eps_mode == "inside_sqrt"
        )
