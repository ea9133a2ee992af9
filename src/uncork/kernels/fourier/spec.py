"""What a kernel of Fourier transforms is specialised for, its arguments, and the tables of a
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uncork.types import Array

#: Lengths have no larger prime factor: a step of a prime takes its square of products.
LARGEST_PRIME = 127
#: Steps that are written out, in the order in which they are wanted.
WRITTEN = (4, 2, 3, 5)
#: Words of a step in the table: its radix, in how many parts the numbers are combined, how many
#: neighbours have the same factors, the addresses of its factors `[parts, radix, 2]` and of the
#: roots of its radix `[radix, radix, 2]`.
STEP = ("radix", "parts", "together", "factors", "roots")

#: What a source holds: pairs; real numbers; the first half of the pairs of a transform of real
#: numbers; real numbers that are multiplied with a window.
COMPLEX, REAL, HALF, WINDOWED = "complex", "real", "half", "windowed"


@dataclass(frozen=True, slots=True)
class Fourier:
    """The spec of transforms along one axis, `lanes` of them at a time, in numbers of `size` bytes.

    Transform `t` is of the numbers at `source + t // inner * source_outer + t % inner *
    source_inner`, `source_step` bytes apart: those from `begin` to `end` of the `length`; all
    others are zeros, or what follows from a `HALF`. Transforms `first` to `last` are made, and of
    each the first `kept` numbers are stored, times a number at `scale`. `swapped` is 0, or `size`
    where real and imaginary parts change places, which makes the inverse.
    """

    emitter: ClassVar[str] = "uncork.kernels.fourier.emit:emit_fourier"
    arguments: ClassVar[tuple[str, ...]] = (
        "source", "source_outer", "source_inner", "source_step", "begin", "end",
        "target", "target_outer", "target_inner", "target_step", "kept",
        "inner", "first", "last", "length", "swapped", "scale", "window", "steps", "count",
        "room",
    )  # fmt: skip
    source: str
    #: The result has pairs; else the real parts alone.
    pairs: bool
    lanes: int
    size: int

    @property
    def name(self) -> str:
        result = "complex" if self.pairs else "real"
        return f"fourier_{self.source}_to_{result}_f{self.size * 8}x{self.lanes}"

    def room(self, length: int) -> int:
        """Bytes of working memory: two buffers, and the places of each of the transforms."""
        return 2 * length * self.cell + 2 * self.lanes * 8

    @property
    def cell(self) -> int:
        """Bytes of a number of all transforms, real parts first."""
        return 2 * self.lanes * self.size


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
    """The table of the steps of a length, and what its addresses point to."""
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
