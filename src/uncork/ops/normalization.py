"""Tensors divided by a norm: NormalizeL2-1, GRN-1 and LRN-1.

    NormalizeL2: output = x / sqrt(s + eps), or / sqrt(max(s, eps))
                 s = the sum of x^2 along `axes`
    GRN:         output = x / sqrt(s + bias)
                 s = the sum of x^2 over the channels (axis 1)
    LRN:         output = x / (bias + alpha / size^len(axes) * s)^beta
                 s = the sum of x^2 over a window of `size` around x

Pages: operation-specs/normalization/normalize-l2-1, grn-1, lrn-1. The window of LRN reaches size //
2 to both sides, as on its page, so it is one wider than an even size; what lies outside the tensor
counts as 0.
"""

from __future__ import annotations

import itertools

import numpy as np

from uncork.ops._common.indices import normalised_axes
from uncork.ops._common.vectors import check_axes
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import (
    INTEGER,
    Attribute,
    Input,
    at_least,
    integer,
    number,
    one_of,
)
from uncork.types import Array, PartialShape, TensorSpec


class _WithAxes(OfReals):
    axes = Input(INTEGER)

    def infer(self, data: TensorSpec, axes: TensorSpec) -> PartialShape:
        check_axes(self, data, axes)
        return data.shape


@register("NormalizeL2", 1)
class NormalizeL2(_WithAxes):
    """x divided by its norm along `axes`; without axes every element by itself."""

    eps = Attribute(number)
    eps_mode = Attribute(one_of("add", "max"))

    def reference(self, data: Array, axes: Array) -> Array:
        squares = np.sum(data * data, normalised_axes(self, axes, data.ndim), keepdims=True)
        small = data.dtype.type(self.eps)
        return np.asarray(
            data
            / np.sqrt(squares + small if self.eps_mode == "add" else np.maximum(squares, small))
        )


@register("GRN", 1)
class GRN(OfReals):
    """`data [N, C]`, `[N, C, W]` or `[N, C, H, W]` divided by its norm over the channels."""

    bias = Attribute(number)

    def infer(self, data: TensorSpec) -> PartialShape:
        self.require(
            data.rank is None or 2 <= data.rank <= 4,
            "input 'data': expected 2 to 4 dimensions, got shape {}",
            data.shape,
        )
        return data.shape

    def reference(self, data: Array) -> Array:
        return np.asarray(
            data / np.sqrt(np.sum(data * data, 1, keepdims=True) + data.dtype.type(self.bias))
        )


@register("LRN", 1)
class LRN(_WithAxes):
    """x divided by a power of the sum of squares in a window around it, along all of `axes`."""

    alpha = Attribute(number)
    beta = Attribute(number)
    bias = Attribute(number)
    size = Attribute(integer, check=at_least(1))

    def reference(self, data: Array, axes: Array) -> Array:
        along = normalised_axes(self, axes, data.ndim)
        # Further than to the other end of the axis there is nothing to add.
        radius = {i: min(self.size // 2, max(data.shape[i] - 1, 0)) for i in along}
        squares = np.pad(data * data, [(radius.get(i, 0),) * 2 for i in range(data.ndim)])
        total = np.zeros_like(data)
        for offset in itertools.product(*(range(2 * radius[i] + 1) for i in along)):
            start = dict(zip(along, offset, strict=True))
            total = (
                total
                + squares[
                    tuple(
                        slice(start.get(i, 0), start.get(i, 0) + n)
                        for i, n in enumerate(data.shape)
                    )
                ]
            )
        kind = data.dtype.type
        return np.asarray(
            data
            / (kind(self.bias) + kind(self.alpha / self.size ** len(along)) * total)
            ** kind(self.beta)
        )
