"""What a kernel of Fourier transforms is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

#: Steps that are written out, in the order in which they are wanted.
WRITTEN = (4, 2, 3, 5)
#: Words of a step in the table: its radix, in how many parts the numbers are combined, how many
#: neighbours have the same factors, the addresses of its factors `[parts, radix, 2]` and of the
#: roots of its radix `[radix, radix, 2]`.
STEP = ("radix", "parts", "together", "factors", "roots")

#: What a source holds: pairs; real numbers; the first half of the pairs of a transform of real
#: numbers; real numbers that are multiplied with a window.
COMPLEX, REAL, HALF, WINDOWED = "complex", "real", "half", "windowed"


class Fourier(Struct, frozen=True):
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
