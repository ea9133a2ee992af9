"""How the pixels of a convolution lie in memory, and the blocks of them that are computed
together.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.kernels.convolution.geometry import Geometry, known
from uncork.kernels.extents import is_known
from uncork.symbolic import SizeLike
from uncork.types import Array


class Layout(Struct, frozen=True):
    """Where cells lie for the kernel, in bytes: as in the data, or laid out by the remainders of
    their columns.
    """

    image: SizeLike
    channel: SizeLike
    row: SizeLike
    #: Remainders that windows see, and bytes from one to the next.
    remainders: tuple[int, ...]
    remainder: SizeLike
    width: SizeLike

    @property
    def is_open(self) -> bool:
        """Whether only the call knows the distances between what a window sees."""
        return not (is_known(self.channel) and is_known(self.row) and is_known(self.remainder))

    def offsets(self, g: Geometry) -> Array:
        """The offset of the cell of each product of a sum, from the first cell of a window."""
        tap = np.arange(g.columns.taps) * g.columns.dilation
        places = (
            [self.remainders.index(r) for r in tap % g.columns.stride]
            if self.remainders
            else [0] * len(tap)
        )
        columns = (
            np.array(places) * known(self.remainder)
            + tap // (g.columns.stride if self.remainders else 1) * 4
        )
        rows = np.arange(g.rows.taps) * g.rows.dilation * known(self.row)
        channels = np.arange(g.channels) * known(self.channel)
        return (channels[:, np.newaxis, np.newaxis] + rows[:, np.newaxis] + columns).reshape(-1)


def blocks_of(columns: int, lanes: int) -> list[tuple[int, int, int]]:
    """The blocks of a row of pixels as (first pixel, vectors, first pixel of the last vector).
    Where a row is no whole number of vectors, its last vector shares pixels with the one before.
    """
    count = -(-columns // lanes)
    sizes = [3] * (count // 3) + [count % 3] * (count % 3 > 0)
    if count > 3 and count % 3 == 1:
        sizes[-2:] = [2, 2]
    blocks: list[tuple[int, int, int]] = []
    first = 0
    for vectors in sizes:
        last = min(first + (vectors - 1) * lanes, columns - lanes)
        blocks.append((min(first, last), vectors, last))
        first += vectors * lanes
    return blocks


def lanes_for(columns: int, widest: int) -> int:
    """The widest vector that a row of pixels fills."""
    lanes = widest
    while lanes > columns:
        lanes //= 2
    return lanes


def direct(g: Geometry) -> bool:
    """Whether the data serve as they are: all windows are inside, and neighbours see neighbours."""
    return g.inside and g.columns.stride == 1


def layout_of(g: Geometry, rows: SizeLike, images: SizeLike, channels: int) -> Layout:
    """The layout for some rows of the output, of so many images and channels of data."""
    if direct(g):
        return Layout(
            g.groups * g.channels * g.data_size * 4, g.data_size * 4, g.columns.size * 4, (), 0, 0
        )
    taps = np.arange(g.columns.taps) * g.columns.dilation
    remainders = tuple(sorted({int(tap) % g.columns.stride for tap in taps}))
    width = int(taps[-1]) // g.columns.stride + g.columns.count
    channel = g.rows.windows_extent(rows) * width * 4
    return Layout(
        channels * channel, channel, width * 4, remainders, images * channels * channel, width
    )
