"""Grids of FakeQuantize, and their numbers in memory, as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.internal_ops.quantized import Grid, Limit
from uncork.ops import Operation
from uncork.ops.fake_quantize import FakeQuantize
from uncork.types import Array, ElementType, TensorSpec

#: Codes are bytes.
_MOST_LEVELS = 256
#: Limits that are nearer to each other than this have no factor that f32 holds well.
_LEAST_WIDTH = 2.0**-100


def grid_of(
    operation: Operation | None, limits: Sequence[TensorSpec], rank: int | None
) -> Grid | None:
    """The grid of a FakeQuantize of f32 of this rank whose limits are constants in increasing
    order: numbers, or one for each channel, which are along axis 1 of images; else None.
    """
    if (
        not isinstance(operation, FakeQuantize)
        or operation.levels > _MOST_LEVELS
        or len(limits) != 4
    ):
        return None
    numbers = [_limit(spec, rank) for spec in limits]
    known = [number for number in numbers if number is not None]
    if len(known) < 4 or not all(np.isfinite(number).all() for number in known):
        return None
    widths = [np.subtract(high, low).min() for low, high in (known[:2], known[2:])]
    return Grid(operation.levels, *known) if min(widths) >= _LEAST_WIDTH else None


def _limit(spec: TensorSpec, rank: int | None) -> Limit | None:
    """A constant limit of f32; None where it is none, or another one along other axes."""
    value = spec.value
    if value is None or spec.element_type is not ElementType.f32 or not value.size:
        return None
    if value.size == 1:
        return float(value.reshape(()))
    images = rank is not None and rank > 2 and value.ndim == rank
    of_channels = images and value.shape[1] == value.size
    return tuple(value.reshape(-1).astype(float).tolist()) if of_channels else None


def numbers_of(grid: Grid) -> Array:
    """The numbers of a grid, in the order of `emit_rounding.GRID_NUMBERS`: each is one, or one for
    each channel.
    """
    numbers = (*grid.scaling, 0, grid.levels - 1, grid.step, grid.output_low)
    return np.array(np.broadcast_arrays(*numbers), np.float32)
