"""The tables of the steps of Fourier transforms of a length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.kernels.fourier.spec import STEP, WRITTEN
from uncork.types import Array

#: Lengths have no larger prime factor: a step of a prime takes its square of products.
LARGEST_PRIME = 127


def factors_of(length: int) -> list[int] | None:
    """The radices of a length, those first that are written out; None where one is too large."""
    found: list[int] = []
    for radix in (*WRITTEN, *range(7, LARGEST_PRIME + 1)):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return found if length == 1 else None


def dtype_of(size: int) -> type[np.generic]:
    """NumPy's type of numbers of so many bytes."""
    return np.float32 if size == np.float32().nbytes else np.float64


def tables(length: int, radices: Sequence[int], size: int) -> tuple[Array, list[Array]]:
    """The table of the steps of a length, and the arrays whose addresses are in it."""
    dtype = dtype_of(size)
    rows: list[list[int]] = []
    keep: list[Array] = []
    left, together = length, 1
    for radix in radices:
        parts = left // radix
        numbers = np.arange(radix)
        factors = _roots(np.outer(np.arange(parts), numbers), left, dtype)
        roots = _roots(np.outer(numbers, numbers), radix, dtype)
        keep += [factors, roots]
        rows.append([radix, parts, together, factors.ctypes.data, roots.ctypes.data])
        left, together = parts, together * radix
    return np.array(rows, np.int64).reshape(-1, len(STEP)), keep


def _roots(exponents: Array, order: int, dtype: type[np.generic]) -> Array:
    """exp(-2 pi i * exponent / order) as pairs."""
    angles = exponents % order * (-2 * np.pi / order)
    return np.ascontiguousarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1), dtype)
