"""Grids of FakeQuantize, and their numbers in memory, as kernels read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.internal_ops.quantized import Grid
from uncork.ops import Operation
from uncork.ops.fake_quantize import FakeQuantize
from uncork.types import Array, ElementType, TensorSpec

#: Codes are bytes.
_MOST_LEVELS = 256
#: Limits that are nearer to each other than this have no factor that f32 holds well.
_LEAST_WIDTH = 2.0**-100


def grid_of(operation: Operation | None, limits: Sequence[TensorSpec]) -> Grid | None:
    """The grid of a FakeQuantize of f32 with scalar constants as limits, in increasing order; else
    None.
    """
    if (
        not isinstance(operation, FakeQuantize)
        or operation.levels > _MOST_LEVELS
        or len(limits) != 4
    ):
        return None
    if any(
        spec.value is None or spec.value.size != 1 or spec.element_type is not ElementType.f32
        for spec in limits
    ):
        return None
    numbers = [float(spec.value.reshape(())) for spec in limits if spec.value is not None]
    if not all(map(math.isfinite, numbers)):
        return None
    grid = Grid(operation.levels, *numbers)
    wide = min(grid.input_high - grid.input_low, grid.output_high - grid.output_low) >= _LEAST_WIDTH
    return grid if wide else None


def numbers_of(grid: Grid) -> Array:
    """The numbers of a grid, in the order of `emit_rounding.GRID_NUMBERS`."""
    return np.array([*grid.scaling, 0, grid.levels - 1, grid.step, grid.output_low], np.float32)
