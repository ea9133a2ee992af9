"""The tiles of pixels that a row of windows is computed in, and what those at its ends see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from uncork.kernels.extents import certainly
from uncork.ops._common.spatial import extent
from uncork.symbolic import Size, SizeLike, plain

#: What a tile costs beside its pixels, in pixels.
_TILE = 1


class WindowRow(Protocol):
    """What says how windows lie along a row: they have `columns` taps."""

    @property
    def columns(self) -> int: ...
    @property
    def stride(self) -> tuple[int, int]: ...
    @property
    def dilation(self) -> tuple[int, int]: ...


class Around(Struct, frozen=True):
    """How many cells the first window of a row begins before the data, and the last one ends behind
    them. A row is `alone` a tile, or has at least two; with `open` only the call knows.
    """

    left: int
    right: int
    alone: bool = False
    open: bool = False

    @property
    def name(self) -> str:
        """The part of a kernel's name that tells it."""
        kind = "alone" if self.alone else "open" if self.open else ""
        return f"around_{self.left}x{self.right}{kind}"

    def seen(self, row: WindowRow, pixels: int, at: str) -> Sequence[tuple[int, int]]:
        """The columns of taps that the pixels of a tile see, as (first, end): of the one at the
        "left" or the "right" of the row, or at "both" of its ends.
        """
        left, right = self.left * (at != "right"), self.right * (at != "left")
        return [
            (
                _taps_outside(row, left - pixel * row.stride[1]),
                row.columns - _taps_outside(row, right - (pixels - 1 - pixel) * row.stride[1]),
            )
            for pixel in range(pixels)
        ]

    def cut(self, row: WindowRow) -> tuple[int, int]:
        """How many pixels at the left and at the right of a row do not see all taps."""
        stride = row.stride[1]
        return -(-self.left // stride), -(-self.right // stride)

    def fewest(self, row: WindowRow, pixels: int) -> int:
        """The pixels of the shortest row in which a tile lies between the ends."""
        return pixels + sum(self.cut(row))

    def reach(self, row: WindowRow, pixels: int, count: int) -> bool:
        """Whether tiles reach the ends of a row: none at one end sees the other one, too."""
        if count <= 2 * pixels:
            return self.alone or count >= pixels + max(self.cut(row))
        return count >= self.fewest(row, pixels)


def _taps_outside(row: WindowRow, cells: int) -> int:
    """How many taps see some cells at the end of a window."""
    return min(row.columns, -(-max(0, cells) // row.dilation[1]))


class RowSizes(Protocol):
    """The cells of the data and the windows of a row, and the cells before the data at which the
    first window begins.
    """

    @property
    def size(self) -> SizeLike: ...
    @property
    def count(self) -> SizeLike: ...
    @property
    def begin(self) -> SizeLike: ...


def around(row: WindowRow, sizes: RowSizes, pixels: int) -> Around | None:
    """What the ends of a row of tiles of so many pixels are; None where tiles do not reach them."""
    size, count, begin = sizes.size, sizes.count, sizes.begin
    reached = (count - 1) * row.stride[1] + extent(row.columns, row.dilation[1])
    beyond = plain(Size.of(reached - begin - size))
    if not isinstance(begin, int) or not isinstance(beyond, int):
        return None
    is_open = not isinstance(count, int)
    found = Around(max(0, begin), max(0, beyond), certainly(count, pixels), is_open)
    if not found.alone and max(found.cut(row)) > pixels:
        return None  # the tiles behind the first one do not see all taps, either
    reach = not isinstance(count, int) or found.reach(row, pixels, count)
    return found if reach else None


def pixels_at_a_time(count: SizeLike, most: int, enough: int, members: int = 1) -> int:
    """How many vectors of `members` pixels a tile of a row of so many pixels has: at most so many,
    and in parts of about the same size; `enough` where only the call knows how many there are.
    """
    if not isinstance(count, int):
        return max(1, min(enough, most))
    vectors = -(-count // members)
    if vectors <= most and count % members == 0:
        return max(1, vectors)
    parts = range(max(2, -(-vectors // most)), max(2, vectors) + 1)
    return min(
        (-(-vectors // n) for n in parts), key=lambda wide: -(-vectors // wide) * (wide + _TILE)
    )
