"""AdaptiveAvgPool-8, AdaptiveMaxPool-8: spatial axes cut into as many windows as the output has
cells.

Window i of n along an axis of `size` cells runs from floor(i * size / n) to ceil((i + 1) * size /
n), not included; neighbours may share a cell. AdaptiveMaxPool also says where each winner lies in
the flattened spatial axes. Pages: operation-specs/pooling/adaptive-avg-pool-8, adaptive-max-pool-8.
Decided:

- an axis without cells is refused, unless the output has none along some axis either;
- of equal cells the first in row-major order wins; a NaN wins over every number (as in MaxPool);
- the page's examples call the attribute output_type, its text and the files index_element_type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.ops._common.shapes import require_rank, suppose_pixels
from uncork.ops._common.vectors import sizes, vector
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import I32_I64, Input, Output, index_type
from uncork.types import Array, Dimension, PartialShape, TensorSpec


class _AdaptivePool(OfReals):
    """The base of both operations: `data [N, C, d_1, ..]` and the sizes of the output's spatial
    axes.
    """

    output_shape = Input(I32_I64)

    def pooled_shape(self, data: TensorSpec, output_shape: TensorSpec) -> PartialShape:
        numbers = vector(self, "output_shape", output_shape)
        require_rank(self, "data", data, 3, 4, 5)
        if numbers is None:
            return (
                PartialShape() if data.rank is None else data.shape[:2] + [None] * (data.rank - 2)
            )
        count = len(numbers)
        self.require(
            1 <= count <= 3, "input 'output_shape': expected 1 to 3 numbers, got {}", count
        )
        self.require(
            data.rank in (None, count + 2),
            "input 'output_shape': expected one number for each spatial axis of data {}, got {}",
            data.shape,
            numbers,
        )
        for axis, number in enumerate(numbers):
            self.require(
                number is None or number >= 0,
                "input 'output_shape': output_shape[{}] is {}, expected a size",
                axis,
                number,
            )
        if data.rank is None:
            return PartialShape([None, None, *sizes(self, "output_shape", output_shape)])
        if None in numbers:
            suppose_pixels(data.shape[2:])
        self.require(
            0 in numbers or None in numbers or all(d.covers(1) for d in data.shape[2:]),
            "input 'data': a spatial axis of {} is empty, there is nothing to pool into {}",
            data.shape,
            numbers,
        )
        return data.shape[:2] + [Dimension.of(n) for n in sizes(self, "output_shape", output_shape)]


def bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Where the windows along an axis begin and end."""
    return [(i * size // count, -((i + 1) * size // -count)) for i in range(count)]


@register("AdaptiveAvgPool", 8)
class AdaptiveAvgPool8(_AdaptivePool):
    def infer(self, data: TensorSpec, output_shape: TensorSpec) -> PartialShape:
        return self.pooled_shape(data, output_shape)

    def reference(self, data: Array, output_shape: Array) -> Array:
        if not output_shape.all():
            return np.zeros(data.shape[:2] + tuple(output_shape.tolist()), data.dtype)
        # The mean over a box is the mean along one axis of the means along the next.
        for axis, count in enumerate(output_shape.tolist(), start=2):
            along = np.moveaxis(data, axis, -1)
            pooled = np.empty((*along.shape[:-1], count), data.dtype)
            for i, (begin, end) in enumerate(bounds(along.shape[-1], count)):
                pooled[..., i] = along[..., begin:end].mean(axis=-1)
            data = np.moveaxis(pooled, -1, axis)
        return data


@register("AdaptiveMaxPool", 8)
class AdaptiveMaxPool8(_AdaptivePool):
    indices = Output()
    index_element_type = index_type()

    def infer(self, data: TensorSpec, output_shape: TensorSpec) -> tuple[PartialShape, TensorSpec]:
        shape = self.pooled_shape(data, output_shape)
        return shape, TensorSpec(self.index_element_type, shape)

    def reference(self, data: Array, output_shape: Array) -> tuple[Array, Array]:
        sizes: Sequence[int] = data.shape[2:]
        counts = tuple(output_shape.tolist())
        largest = np.empty(data.shape[:2] + counts, data.dtype)
        indices = np.empty(largest.shape, np.int64)
        if not largest.size:
            return largest, indices
        numbered = np.arange(math.prod(sizes)).reshape(sizes)
        along = [bounds(size, count) for size, count in zip(sizes, counts, strict=True)]
        for place in np.ndindex(*counts):
            box = tuple(slice(*along[axis][i]) for axis, i in enumerate(place))
            whole = (slice(None), slice(None))
            cells = data[whole + box].reshape(*data.shape[:2], -1)
            winner = np.argmax(cells, axis=-1)  # the first largest, or the first NaN
            largest[whole + place] = np.take_along_axis(cells, winner[..., np.newaxis], axis=-1)[
                ..., 0
            ]
            indices[whole + place] = numbered[box].reshape(-1)[winner]
        return largest, indices
