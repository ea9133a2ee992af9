"""Tile-1: `data` repeated along each dimension; the shorter of shape and `repeats` gets leading
ones.

    output[i, j] = data[i mod shape[0], j mod shape[1]]        output.shape = shape * repeats

Page: operation-specs/movement/tile-1. A negative number of repeats is refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import sizes, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Input
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("Tile", 1)
class Tile1(Moving):
    """`data` of any shape, `repeats [r]`."""

    repeats = Input(INTEGER)

    def infer(self, data: TensorSpec, repeats: TensorSpec) -> PartialShape:
        numbers = vector(self, "repeats", repeats)
        if numbers is None:
            return PartialShape()
        self.require(
            all(n is None or n >= 0 for n in numbers),
            "input 'repeats': expected no negative numbers, got {}",
            numbers,
        )
        if data.rank is None:
            return PartialShape()
        rank = max(data.rank, len(numbers))
        dims = (Dimension(1, 1),) * (rank - data.rank) + data.shape.dims
        times = [1] * (rank - len(numbers)) + sizes(self, "repeats", repeats)
        return PartialShape([d * t for d, t in zip(dims, times, strict=True)])

    def reference(self, data: Array, repeats: Array) -> Array:
        return np.tile(data, [int(n) for n in repeats])
