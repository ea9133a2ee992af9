"""Direct convolutions over blocks of channels as calls: what is laid out before, which tiles, which
taps, what threads share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.geometry import Axis, Geometry, known
from uncork.kernels.convolution.microkernel_blocks import AHEAD_TILES
from uncork.kernels.convolution.spec_blocks import ENTRY, KINDS, Dense
from uncork.kernels.convolution.tap_regions import Region, regions_of
from uncork.kernels.convolution.tiles import most_pixels, open_widths, runs_of_sets, widths_of
from uncork.kernels.extents import certainly, is_known, nanoseconds, same
from uncork.kernels.gemm.address_table import placed
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    shares,
)
from uncork.kernels.movement.strided_copy import strided_copy_call
from uncork.kernels.runtime.packed_weights import arranged, packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import operands_for
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Filters of up to so many bytes are read again for every tile, so that the data are read once.
_FEW_FILTERS = 1 << 18
#: Filters of a set of outputs of up to so many bytes are asked for while another is computed.
_MOST_AHEAD = 1 << 20
#: Data that are laid out at a time take about so many bytes.
_SCRATCH_BYTES = 1 << 19
#: Bytes of a line of a cache, bytes after which the first-level and the second-level cache begin
#: anew, and lines that meet there.
_LINE, _PAGE, _SETS, _WAYS = 1 << 6, 1 << 12, 1 << 16, 16
#: Pixels of a row at most, where all pixels were one.
_SOME = 128
#: As many runs of images as there are where only the call knows how many images come.
_RUNS = 16


def _meets(work: BlockedWork) -> bool:
    """The same pixel of all blocks would have the same few places of the second-level cache, and
    there are more blocks than that.
    """
    cells = work.geometry.cells
    return (
        isinstance(cells, int)
        and cells * work.inner * 4 % _SETS == 0
        and work.group_channels > _WAYS
    )


def _by_rows(g: Geometry) -> Geometry:
    """The same pixels, which lie in one row, as rows of some."""
    cells = known(g.columns.size)
    some = max(size for size in range(1, _SOME + 1) if cells % size == 0)
    return (
        replace(g, rows=Axis(cells // some, 1, cells // some), columns=Axis(some, 1, some))
        if certainly(g.rows.size, 1)
        else g
    )


class _Maker:
    """The calls of one direct convolution."""

    def __init__(self, work: BlockedWork, target: Target) -> None:
        self.work, self.target = work, target
        self.g = g = work.geometry
        whole = Region(
            (0, g.rows.count), (0, g.columns.count), (0, g.rows.taps), (0, g.columns.taps)
        )
        regions = regions_of(g)
        self.regions = regions or [whole]
        #: The data are laid out: with zeros around them where windows leave them, or apart where
        #: blocks would meet in a cache.
        self.padded = regions is None and (not g.inside or _meets(work))
        #: Rows of taps that lie outside of the data are left out.
        self.skips = self.padded and not g.rows.inside and g.rows.lhs_dilation == 1
        self.width = g.columns.reach(g.columns.count) if self.padded else g.columns.size
        self.row = self.width * work.inner * 4
        #: Rows of the result whose data are laid out together.
        self.strips = self._strips() if self.padded else [(0, g.rows.count)]
        self.height = g.rows.reach(self.strips[0][1]) if self.padded else g.rows.size
        self.block = self.height * self.row
        if self.padded and isinstance(self.block, int) and self.block % _PAGE == 0:
            self.block += _LINE
        #: Blocks that a vector holds: short ones stand side by side.
        self.together = max(1, target.lanes // work.lanes)
        #: Runs of sets of outputs, in each group: blocks of a set, the first block, sets.
        self.runs = list(runs_of_sets(work.group_outputs, 2 * self.together))
        how = ("blocks", g.weights, work.inner, work.lanes, work.kind)
        self.packed_weights = packed([work.source], how, self._packed)
        self.keep: list[object] = [self.packed_weights]
        self._tables: dict[tuple[object, ...], Array] = {}
        images = g.images
        self.images = (
            shares(images, _RUNS if not isinstance(images, int) else images)
            if self.padded
            else [(0, images)]
        )
        self.most = (
            max(known(n) for _, n in self.images)
            if is_known(images)
            else -(-images // len(self.images))
        )

    def _strips(self) -> list[tuple[SizeLike, SizeLike]]:
        """So many rows of the result that their data stay in the second-level cache; all of them
        where only the call knows sizes.
        """
        g = self.g
        if g.is_open:
            return [(0, g.rows.count)]
        count = known(g.rows.count)
        whole = known(g.rows.reach(count)) * known(self.row) * self.work.channels
        step = known(self.row) * self.work.channels * g.rows.stride
        rows = max(
            1,
            (
                _SCRATCH_BYTES
                - (known(g.rows.reach(1)) - g.rows.stride) * known(self.row) * self.work.channels
            )
            // step,
        )
        each = count if whole <= _SCRATCH_BYTES else min(count, -(-count // -(-count // rows)))
        return [(first, min(each, count - first)) for first in range(0, count, each)]

    def _packed(self) -> list[Array]:
        """`[group, set of outputs, rows, block of channels, columns, inner, outputs of the set]`
        for each run of sets.
        """
        work, found = self.work, []
        groups, _, channels, *taps = work.filters.shape
        for blocks, first, sets in self.runs:
            some = work.filters[:, first * work.lanes : (first + blocks * sets) * work.lanes]
            apart = some.reshape(
                groups, sets, blocks * work.lanes, channels // work.inner, work.inner, *taps
            )
            found.append(arranged(apart.transpose(0, 1, 5, 3, 6, 4, 2)))
        return found

    @property
    def laid_out(self) -> SizeLike:
        """Bytes of the data with zeros around them, of the most images at a time."""
        return self.most * self.work.channels * self.block if self.padded else 0

    @property
    def table_bytes(self) -> SizeLike:
        return (
            0 if is_known(self.block) else self._entries(self.regions[0]) * ENTRY * len(self.runs)
        )

    def _entries(self, region: Region) -> int:
        return self.work.group_channels * region.row_taps[1] * region.column_taps[1]

    def _steps(self, blocks: int) -> tuple[tuple[SizeLike, ...], tuple[int, ...]]:
        """Bytes from one row of taps, block of channels and column of taps to the next: in the
        data, in the filters.
        """
        g, work = self.g, self.work
        tap = work.inner * blocks * work.lanes * 4
        filters = (work.group_channels * g.columns.taps * tap, g.columns.taps * tap, tap)
        return (
            g.rows.dilation * self.row,
            self.block,
            g.columns.dilation * work.inner * 4,
        ), filters

    def _table(self, region: Region, number: int) -> Operand:
        """The table of a region's taps, for a run of sets; counted from the first of these taps in
        the data.
        """
        blocks = self.runs[number][0]
        if not is_known(self.block):
            return Scratch(self.laid_out + number * self._entries(region) * ENTRY)
        key = (region.row_taps, region.column_taps, blocks)
        if key not in self._tables:
            source, filters = self._steps(blocks)
            indices = np.indices(
                (region.row_taps[1], self.work.group_channels, region.column_taps[1])
            ).reshape(3, -1)
            skipped = np.array([[region.row_taps[0]], [0], [region.column_taps[0]]])
            places = [
                np.dot([known(step) for step in source], indices),
                np.dot(filters, indices + skipped),
            ]
            self._tables[key] = np.ascontiguousarray(np.stack(places, 1).reshape(-1, 2), np.int64)
            self.keep.append(self._tables[key])
        return int(self._tables[key].ctypes.data)

    def find_places(self) -> Iterator[KernelCall]:
        """The same tables, made in the call."""
        if is_known(self.block):
            return
        counts = self.g.rows.taps, self.work.group_channels, self.g.columns.taps
        for number, (blocks, _, _) in enumerate(self.runs):
            table = self.laid_out + number * self._entries(self.regions[0]) * ENTRY
            in_table = (counts[1] * counts[2] * ENTRY, counts[2] * ENTRY, ENTRY)
            for word, steps in enumerate(self._steps(blocks)):
                yield placed(Scratch(table + word * 8), 0, list(zip(counts, in_table, steps)))

    def lay_out(
        self, images: tuple[SizeLike, SizeLike], strip: tuple[SizeLike, SizeLike]
    ) -> Iterator[KernelCall]:
        """What some rows of some images see, with zeros around the data."""
        if not self.padded:
            return
        g, work = self.g, self.work
        pixel = work.inner * 4
        height = g.rows.reach(strip[1])
        rows, columns = (
            g.rows.cells(strip[0] * g.rows.stride, height),
            g.columns.cells(0, self.width),
        )
        planes = images[1] * work.channels
        source = (
            images[0] * work.channels * g.cells * pixel
            + (rows.first * g.columns.size + columns.first) * pixel
        )
        target = rows.place * self.row + columns.place * pixel
        covered = same(rows.number, height) and same(columns.number, self.width)
        loops: list[tuple[SizeLike, SizeLike, SizeLike]] = [
            (1, 0, 0),
            (planes, g.cells * pixel, self.block),
            (rows.number, g.columns.size * pixel, self.row),
            (columns.number * work.inner, 4, 4),
        ]
        yield strided_copy_call(
            self.target.lanes,
            In(0, source),
            Scratch(target),
            loops,
            Scratch(0),
            0 if covered else planes * self.block,
        )

    def compute(
        self,
        images: tuple[SizeLike, SizeLike],
        region: Region,
        strip: SizeLike,
        number: int,
        group: int,
        rows: tuple[SizeLike, SizeLike],
        sets: tuple[int, int],
    ) -> KernelCall:
        """Some rows of a region, of the strip that begins at a row, for some sets of a run, of a
        group.
        """
        g, work = self.g, self.work
        blocks, first_block, _ = self.runs[number]
        columns = region.columns[1]
        widths, tiles = (
            widths_of(columns, self.target)
            if isinstance(columns, int)
            else (open_widths(self.target), [0] * KINDS)
        )
        filters = self.packed_weights.arrays[number][group]
        step = g.columns.stride * work.inner * 4
        together = min(self.together, blocks)
        every = (g.rows.taps, g.rows.stride, g.rows.dilation) if self.skips else ()
        inside = filters.nbytes <= _FEW_FILTERS  # all outputs of a tile before the next tile
        spec = Dense(
            work.lanes,
            work.inner,
            blocks,
            widths,
            step,
            work.end,
            together,
            self._asks_ahead(region, filters),
            every,
            not isinstance(columns, int),
        )
        first = region.rows[0] + rows[0]
        begin = (strip * g.rows.stride, 0) if self.padded else (g.rows.begin, g.columns.begin)
        y = first * g.rows.stride + region.row_taps[0] * g.rows.dilation - begin[0]
        x = (
            region.columns[0] * g.columns.stride
            + region.column_taps[0] * g.columns.dilation
            - begin[1]
        )
        seen = y * self.row + x * work.inner * 4 + group * work.group_channels * self.block
        image = work.channels * self.block
        block = group * work.group_outputs + first_block + sets[0] * blocks
        made = (
            images[0] * work.result_image
            + (block * g.pixels + first * g.columns.count + region.columns[0]) * work.lanes * 4
        )
        operands: dict[str, Operand] = {
            "source": Scratch(seen) if self.padded else In(0, images[0] * image + seen),
            "target": Out(0, made),
            "filters": int(filters.ctypes.data) + sets[0] * filters[0].nbytes,
            "table": self._table(region, number),
            "count": self._entries(region) // region.row_taps[1]
            if self.skips
            else self._entries(region),
            "line": first * g.rows.stride - g.rows.begin,
            "height": g.rows.size,
            "columns": columns,
            "images": images[1],
            "source_image": image,
            "target_image": work.result_image,
            "rows": rows[1],
            "source_row": g.rows.stride * self.row,
            "target_row": g.columns.count * work.lanes * 4,
            "target_block": g.pixels * work.lanes * 4,
            "passes": 1 if inside else sets[1],
            "groups": sets[1] if inside else 1,
            "group": filters[0].nbytes,
            **{f"tiles_{kind}": count for kind, count in enumerate(tiles)},
            **dict(
                zip(
                    spec.end.arguments,
                    operands_for(spec.end, work.others, block * work.lanes * 4, made),
                )
            ),
        }
        if not self._entries(region):  # nothing of the data is seen: any address will do
            operands["source"] = In(0)
        return spec, [operands[name] for name in spec.arguments]

    def _asks_ahead(self, region: Region, filters: Array) -> bool:
        """The filters of a set of outputs are asked for while the set before is computed, which
        has tiles enough for that.
        """
        rows, columns = region.rows[1], region.columns[1]
        if filters.nbytes <= _FEW_FILTERS or filters[0].nbytes > _MOST_AHEAD:
            return False
        if not isinstance(rows, int) or not isinstance(columns, int):
            return False
        return rows * -(-columns // most_pixels(self.target)) >= AHEAD_TILES

    def stages(self, threads: int) -> Stages:
        found: list[list[KernelCall]] = [[call] for call in self.find_places()]
        for images, strip in product(self.images, self.strips):
            found += [[call] for call in self.lay_out(images, strip)]
            regions = (
                [replace(region, rows=strip) for region in self.regions]
                if self.padded
                else self.regions
            )
            calls = [
                call
                for region in regions
                for call in self._shared(images, region, strip[0], threads)
            ]
            found.append(calls)
        return Stages(found, self.laid_out + self.table_bytes)

    def _shared(
        self, images: tuple[SizeLike, SizeLike], region: Region, strip: SizeLike, threads: int
    ) -> Iterator[KernelCall]:
        """A region, of the strip that begins at a row, by rows, or by sets of outputs where there
        is one row.
        """
        by_rows = threads > 1 and not certainly(region.rows[1], 1)
        for (number, (_, _, sets)), group in product(enumerate(self.runs), range(self.g.groups)):
            for rows in shares(region.rows[1], threads) if by_rows else [(0, region.rows[1])]:
                for some in [(0, sets)] if by_rows else shares(sets, threads):
                    yield self.compute(images, region, strip, number, group, rows, some)


def direct_over_blocks(work: BlockedWork, target: Target) -> KernelPlan:
    """The calls of a direct convolution over blocks."""
    if _meets(work) and work.geometry.columns.pointwise:
        work = replace(work, geometry=_by_rows(work.geometry))
    maker = _Maker(work, target)
    alone = maker.stages(1)
    calls = [call for stage in alone.stages for call in stage]
    pixels = work.geometry.images * work.geometry.pixels
    name = next(spec.name for spec, _ in calls if isinstance(spec, Dense))
    return KernelPlan(
        name, calls, alone.scratch, maker.keep, nanoseconds(pixels, work.cost), maker.stages
    )
