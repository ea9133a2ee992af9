"""What one call of a direct convolution over blocks computes, and in which strips, so that the
second cache keeps what is read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.geometry import WindowAxis, known
from uncork.kernels.convolution.tap_regions import Region
from uncork.kernels.convolution.tiles import most_pixels, widths_of
from uncork.kernels.extents import certainly, largest, smallest
from uncork.kernels.runtime.target import LINE, Target
from uncork.ops._common.spatial import extent
from uncork.symbolic import SizeLike

#: Data of so many bytes stay in the second-level cache beside the filters of a set of outputs, of
#: processors with AVX-512 and of others, which have half of such a cache.
_STRIP_BYTES, _STRIP_BYTES_ELSEWHERE = 7 << 16, 3 << 16


def strip_bytes(target: Target) -> int:
    """Bytes of a strip at most."""
    return _STRIP_BYTES if target.vector_registers > 16 else _STRIP_BYTES_ELSEWHERE


class Portion(Struct, frozen=True):
    """What one call computes of a region: rows, sets of outputs and tiles of rows, each as (first,
    number).
    """

    rows: tuple[SizeLike, SizeLike]
    sets: tuple[SizeLike, SizeLike]
    tiles: tuple[SizeLike, SizeLike]
    #: Of a single row that is computed in runs: how many, of so many pixels each.
    runs: tuple[SizeLike, SizeLike] | None = None


class Portions(Struct, frozen=True):
    """The portions of a convolution, whose taps outside of the data are left out along the
    `skipped` axis.
    """

    work: BlockedWork
    target: Target
    skipped: WindowAxis | None

    def rows_of_strip(
        self, region: Region, rows: SizeLike, sets: SizeLike, filters: int, row: SizeLike
    ) -> SizeLike:
        """The rows of a strip; a set has so many bytes of filters, a row so many of data."""
        g = self.work.geometry
        pixel = self.work.inner * self.work.size
        seen = extent(g.columns.taps, g.columns.dilation)
        if pixel >= LINE and seen < g.columns.stride:  # lines between windows are not read
            row = g.columns.count * seen * pixel
        new_rows = min(g.rows.stride, extent(g.rows.taps, g.rows.dilation))
        of_row = row * new_rows * self._blocks_seen(region)
        return self._at_a_time(rows, of_row, sets, filters)

    def in_strips(
        self, region: Region, part: Portion, filters: int
    ) -> Iterator[tuple[Region, Portion]]:
        """A part of a region as one, or in two: a single long row is computed in strips of the
        widest tiles, and then what is left. A set has so many bytes of filters.
        """
        g, (begin, columns) = self.work.geometry, region.columns
        if not certainly(region.rows[1], 1) or self.skipped is g.rows:
            yield region, part
            return
        most = most_pixels(self.target)
        first, count = part.tiles
        if isinstance(columns, int):
            wide = smallest(count, known(widths_of(columns, self.target)[1][0]) - known(first))
        else:
            wide = columns // most
        pixel = g.columns.stride * self.work.inner * self.work.size
        seen = most * pixel * self._blocks_seen(region)
        each = self._at_a_time(wide, seen, part.sets[1], filters)
        if not isinstance(each, int):
            yield region, part
            return
        each = largest(1, each)  # a part may have no wide tiles
        each = -(-wide // largest(1, -(-wide // each)))  # strips of one length
        runs = wide // largest(1, each)
        if not isinstance(columns, int):
            yield region, replace(part, runs=(runs, each * most))
            left = begin + runs * each * most, columns - runs * each * most
            yield replace(region, columns=left), part
            return
        if known(runs) > 1:
            yield region, replace(part, tiles=(first, runs * each), runs=(runs, each * most))
            part = replace(part, tiles=(first + runs * each, count - runs * each))
        if known(part.tiles[1]):
            yield region, part

    def _blocks_seen(self, region: Region) -> SizeLike:
        """Blocks of the planes of data that a group sees in a region."""
        g, planes = self.work.geometry, region.planes[1]
        new_planes = min(g.depth.stride, extent(g.depth.taps, g.depth.dilation))
        seen = planes * new_planes + g.depth.taps - new_planes
        return seen * -(-g.channels // self.work.inner)

    def _at_a_time(self, count: SizeLike, seen: SizeLike, sets: SizeLike, filters: int) -> SizeLike:
        """How many of `count` rows or tiles, each of which sees so many bytes, all sets of outputs
        see before the next ones: a strip of as many as stay in the second-level cache. Or all of
        them, where it takes less to read their data anew for each set than to read its filters, so
        many bytes, anew for each strip; where only the call knows how many there are, a strip is
        taken for one of many.
        """
        room = strip_bytes(self.target)
        strip = largest(1, room // largest(1, seen))
        turns = sets - 1 if isinstance(sets, int) else 1
        filters_again = (turns + 1) * filters
        if not isinstance(count, int) or not isinstance(seen, int):
            return strip if filters_again <= turns * room else count
        strips = -(-count // known(strip))
        return strip if (strips - 1) * filters_again <= turns * count * seen else count
