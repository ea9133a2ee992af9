"""The table of the steps of Fourier transforms of a length that is known."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.kernels.fourier.spec import LARGEST_PRIME, WRITTEN
from uncork.kernels.runtime.addresses import address_of
from uncork.types import Array


class Table(Struct, frozen=True):
    """The `words` of a table as `spec` describes them, the arrays whose addresses are in it, and
    the length of its steps.
    """

    words: Array
    keep: list[Array]
    padded: int


def factors_of(length: int) -> list[int] | None:
    """The radices of a length, those first that are written out; None where one is too large."""
    found: list[int] = []
    for radix in (*WRITTEN, *range(7, LARGEST_PRIME + 1)):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return found if length == 1 else None


def padded_length(length: int) -> int:
    """A length of few small factors in which two sequences of `length` are convolved."""
    least = 2 * length - 1
    power: int = 1 << (least - 1).bit_length()
    return power // 4 * 3 if power // 4 * 3 >= least else power


def table_bytes(length: int, size: int) -> int:
    """The bytes that a table takes, and those in which it is computed."""
    padded = length if factors_of(length) is not None else padded_length(length)
    return padded * (2 * size + 32)


def table(length: int, size: int) -> Table:
    """The table of a length, with roots of `size` bytes a number."""
    dtype = np.float32 if size == np.float32().nbytes else np.float64
    radices, padded = factors_of(length), length
    keep: list[Array] = []
    chirp = 0
    if radices is None:
        padded = padded_length(length)
        radices = factors_of(padded) or []  # it has small factors
        keep.append(_roots(np.arange(length) ** 2, 2 * length, dtype))
        chirp = address_of(keep[0])
    roots = _roots(np.arange(padded), padded, dtype)
    words = [padded, len(radices), address_of(roots), chirp]
    left, together = padded, 1
    for radix in radices:
        left //= radix
        words += [radix, left, together]
        together *= radix
    return Table(np.array(words, np.int64), [*keep, roots], padded)


def _roots(exponents: Array, order: int, dtype: type[np.generic]) -> Array:
    """exp(-2 pi i * exponent / order) as pairs."""
    angles = exponents % order * (-2 * np.pi / order)
    return np.ascontiguousarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1), dtype)
