"""Arrays to measure on: random, never zeros, aligned as a model's constants are."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from uncork.types import Array

#: 64 bytes: a cache line. A row that begins between two lines would cost every contender more.
_ALIGNMENT = 64
#: A prime larger than any table: ids times it scatter over the table without meeting.
_SCATTER = 2654435761


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """An array that begins at a cache line; its values are whatever lies there."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def normal(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32
) -> Array:
    """Standard normal numbers in an aligned array."""
    result = aligned(shape, dtype)
    flat = result.reshape(-1)
    for start in range(0, flat.size, 1 << 22):
        part = flat[start : start + (1 << 22)]
        part[:] = generator.standard_normal(part.size, np.float32)
    return result


@lru_cache(maxsize=1)
def table(rows: int, columns: int, dtype: str) -> Array:
    """A table of embeddings; the last one is kept for the next case."""
    return normal(np.random.default_rng(rows + columns), (rows, columns), dtype)


def ids(
    generator: np.random.Generator, rows: int, count: int, distribution: str, dtype: str = "int64"
) -> Array:
    """Ids of table rows: "uniform", or "zipf", the k-th most frequent with a probability
    proportional to k ** -1.05.
    """
    if distribution == "uniform":
        return generator.integers(0, rows, count).astype(dtype)
    exponent = -0.05  # of the integral of k ** -1.05
    quantile = generator.random(count) * ((rows + 1.0) ** exponent - 1.0) + 1.0
    rank: Array = np.minimum((quantile ** (1 / exponent)).astype(np.int64) - 1, rows - 1)
    return np.asarray(rank * _SCATTER % rows, dtype)


def lengths(generator: np.random.Generator, bags: int, pool: int, fixed: bool) -> Array:
    """Bag sizes of `pool` on average, none empty: OpenVINO gives wrong results for an empty last
    bag.
    """
    if fixed or pool == 1 or bags == 1:
        return np.full(bags, pool)
    return np.maximum(1, generator.poisson(pool, bags))
