"""What kernels of Fourier transforms are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Steps that are written out, in the order in which they are wanted.
WRITTEN = (4, 2, 3, 5)
#: Other steps are of primes up to here: such a step takes its square of products. Lengths with a
#: larger prime are faster by Bluestein's way.
LARGEST_PRIME = 31
#: The words of a table of a length: the length of the steps, which is longer where the length has a
#: larger prime, and how many steps there are; the addresses of the roots of that length `[.., 2]`,
#: and of the chirp `[length, 2]`, 0 where the steps are of the length itself. The steps follow.
HEAD = ("padded", "count", "roots", "chirp")
#: Words of a step in the table: its radix, in how many parts the numbers are combined, and how many
#: neighbours have the same factors.
STEP = ("radix", "parts", "together")
#: No length of 64 bits has more steps.
MOST_STEPS = 64
#: Words of a table.
WORDS = len(HEAD) + MOST_STEPS * len(STEP)
#: The length of the steps is less than so many times a length with a larger prime.
PADDED = 3

#: What a source holds: pairs; real numbers; the first half of the pairs of a transform of real
#: numbers; real numbers that are multiplied with a window.
COMPLEX, REAL, HALF, WINDOWED = "complex", "real", "half", "windowed"


class Fourier(KernelSpec, frozen=True):
    """The spec of transforms along one axis, `lanes` of them at a time, in numbers of `size` bytes.

    Transform `t` is of the numbers at `source + t // inner * source_outer + t % inner *
    source_inner`, `source_step` bytes apart: those from `begin` to `end` of the `length`; all
    others are zeros, or what follows from a `HALF`. Transforms `first` to `last` are made, and of
    each the first `kept` numbers are stored, over the `divisor`. `swapped` is 0, or `size` where
    real and imaginary parts change places, which makes the inverse. `table` is that of the length.
    """

    emitter: ClassVar[str] = "uncork.kernels.fourier.emit:emit_fourier"
    arguments: ClassVar[tuple[str, ...]] = (
        "source", "source_outer", "source_inner", "source_step", "begin", "end",
        "target", "target_outer", "target_inner", "target_step", "kept",
        "inner", "first", "last", "length", "swapped", "divisor", "window", "table", "room",
    )  # fmt: skip
    source: str
    #: The result has pairs; else the real parts alone.
    pairs: bool
    lanes: int
    size: int

    @property
    def cell(self) -> int:
        """Bytes of a number of all transforms, real parts first."""
        return 2 * self.lanes * self.size


#: Roots that are computed one by one; all others are products of one of these and another.
FINE = 64
#: Bytes of a root in f64, a pair.
PAIR = 16


class FourierTable(KernelSpec, frozen=True):
    """The spec of the table of a `length` that only the call knows, with roots of `size` bytes a
    number.

    The words lie at `table`, and what their addresses tell behind them. It gives up for a length
    of 0.
    """

    emitter: ClassVar[str] = "uncork.kernels.fourier.emit_tables:emit_table"
    arguments: ClassVar[tuple[str, ...]] = ("length", "table")
    size: int
