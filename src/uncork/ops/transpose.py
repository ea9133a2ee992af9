"""Transpose-1: the dimensions of `data` in another order; an empty order reverses them.

    output.shape[i] = data.shape[input_order[i]]

Page: operation-specs/movement/transpose-1. Axes are not counted from the end, as the page asks for
a permutation of 0..rank-1.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Input
from uncork.types import Array, PartialShape, TensorSpec


def order_of(order: Array, rank: int) -> tuple[int, ...]:
    """The axes that an `input_order` names, by the result's; all reversed where it is empty."""
    return tuple(int(axis) for axis in order.reshape(-1)) or tuple(range(rank))[::-1]


@register("Transpose", 1)
class Transpose1(Moving):
    """`data` of any rank r, `input_order [r]` or `[0]`."""

    input_order = Input(INTEGER)

    def infer(self, data: TensorSpec, input_order: TensorSpec) -> PartialShape:
        order = vector(self, "input_order", input_order)
        rank = data.rank
        if rank is None:
            return PartialShape([None] * len(order)) if order else PartialShape()
        count = length(input_order)
        self.require(
            count.contains(rank) or count.contains(0),
            "input 'input_order': expected no axes or one for each dimension of data {}, "
            "got shape {}",
            data.shape,
            input_order.shape,
        )
        if order is None:
            return PartialShape([None] * rank)
        if not order:
            return PartialShape(data.shape.dims[::-1])
        known = [n for n in order if n is not None]
        fits = all(0 <= n < rank for n in known) and len(set(known)) == len(known)
        self.require(
            fits, "input 'input_order': expected each axis of 0..{} once, got {}", rank - 1, order
        )
        return PartialShape([None if n is None else data.shape[n] for n in order])

    def reference(self, data: Array, input_order: Array) -> Array:
        return np.array(data.transpose(order_of(input_order, data.ndim)), order="C")
