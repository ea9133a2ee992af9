"""Direct convolutions over blocks of channels as calls: what is laid out before, which tiles, which
taps, what threads share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from msgspec.structs import replace

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.decoded_sets import StepsOfSets, decodes, form_of
from uncork.kernels.convolution.geometry import Geometry, WindowAxis, images_together, known
from uncork.kernels.convolution.group_places import (
    packed_sets,
    sets_of_outputs,
    slices_of,
)
from uncork.kernels.convolution.microkernel_blocks import AHEAD_TILES
from uncork.kernels.convolution.phases import phases_along
from uncork.kernels.convolution.portions import Portion, Portions, strip_bytes
from uncork.kernels.convolution.spec_blocks import KINDS, Dense, number_size
from uncork.kernels.convolution.tap_regions import Region, regions_of
from uncork.kernels.convolution.tap_tables import LyingData, TapTables
from uncork.kernels.convolution.tiles import (
    blocks_together,
    most_pixels,
    open_widths,
    some_of_tiles,
    taps_together,
    widths_of,
)
from uncork.kernels.extents import certainly, largest, nanoseconds, same, smallest
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    Workspace,
    grid,
    shares,
)
from uncork.kernels.layer import joined, staged
from uncork.kernels.movement.nd_copy import Loop, nd_copy, zeros
from uncork.kernels.movement.shared_moves import shared_moves
from uncork.kernels.register_tiles import AMX_WORDS
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import LINE, Target
from uncork.kernels.select_epilogue import operands_for
from uncork.kernels.stored_form import Stored
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Filters of a set of outputs of up to so many bytes are asked for while another is computed.
_MOST_AHEAD = 1 << 20
#: Filters of a slice of a set: those of two slices stay in the second-level cache.
_SLICE_BYTES = 5 << 15
#: Numbers of a step at most, where it is several taps; of AMX those of a row of a tile.
_MOST_NUMBERS, _NUMBERS_OF_TILES = 64, AMX_WORDS * 2
#: Decoding a number takes as long as reading so many again.
_DECODED = 2
#: Data that are laid out at a time take about so many bytes.
_SCRATCH_BYTES = 1 << 19
#: Bytes after which the first-level and the second-level cache begin anew, and lines that meet
#: there.
_PAGE, _SETS, _WAYS = 1 << 12, 1 << 16, 16
#: Pixels of a row at most, where all pixels were one.
_SOME = 128
#: So many calls for each thread are enough parts.
_ENOUGH = 4


def _meets(work: BlockedWork) -> bool:
    """Whether one pixel of all blocks would fall into the same few places of the second-level
    cache, and there are more blocks than that.
    """
    cells = work.geometry.data_size
    return (
        isinstance(cells, int)
        and cells * work.inner * work.size % _SETS == 0
        and work.geometry.channels > _WAYS * work.inner
    )


def _by_rows(g: Geometry) -> Geometry:
    """The geometry with its only row of pixels divided into several rows; the geometry itself where
    it has more rows than one.
    """
    cells = known(g.columns.size)
    some = max(size for size in range(1, _SOME + 1) if cells % size == 0)
    return (
        replace(
            g, rows=WindowAxis(cells // some, 1, cells // some), columns=WindowAxis(some, 1, some)
        )
        if certainly(g.rows.size, 1)
        else g
    )


class _BlockCalls:
    """The calls of one direct convolution."""

    def __init__(self, work: BlockedWork, target: Target) -> None:
        self.work, self.target = work, target
        self.g = g = work.geometry
        phases = work.filters.phases
        #: The first plane, row and column of the result, and how far the next ones are.
        self.first_of_result = [phase.first for phase in phases] or [0, 0, 0]
        self.steps_of_result = [phase.step for phase in phases] or [1, 1, 1]
        whole = Region(
            (0, g.rows.count), (0, g.columns.count), (0, g.rows.taps), (0, g.columns.taps)
        )
        regions = regions_of(g)
        self.regions = [
            replace(region, planes=planes)
            for planes in self._planes_together()
            for region in regions or [whole]
        ]
        #: The axis along which taps outside of the data are left out: planes, or rows.
        self.skipped = self._skipped(regions is None)
        self.portions = Portions(work, target, self.skipped)
        #: The data are laid out: with zeros around them where windows see what is outside, or apart
        #: where blocks would meet in a cache.
        rows_inside = g.rows.inside or self.skipped is g.rows
        sees_outside = not (g.columns.inside and rows_inside)
        self.padded = regions is None and (sees_outside or _meets(work))
        self.width = g.columns.windows_extent(g.columns.count) if self.padded else g.columns.size
        self.row = self.width * work.inner * work.size
        #: Rows of the result whose data are laid out together.
        self.strips = self._strips() if self.padded else [(0, g.rows.count)]
        self.height = g.rows.windows_extent(self.strips[0][1]) if self.padded else g.rows.size
        self.plane = self.height * self.row
        if self.padded and isinstance(self.plane, int) and self.plane % _PAGE == 0:
            self.plane += LINE
        self.block = g.depth.size * self.plane
        #: Blocks that a vector holds, where short ones stand side by side, and vectors of a long
        #: one.
        self.vector_members = max(1, target.lanes // work.lanes)
        self.block_vectors = max(1, work.lanes // target.lanes)
        most = max(1, 2 * self.vector_members // self.block_vectors)
        amx = work.half and target.tiles
        if self.vector_members == self.block_vectors == 1 and not amx:
            most = blocks_together([region.columns[1] for region in self.regions], target)
        self.runs = sets_of_outputs(work, most)
        #: Whether filters are decoded in calls.
        self.decodes = decodes(work)
        #: Slices of the channels in which sets of a run are computed, where several tiles read the
        #: filters of one, or it is decoded.
        one = isinstance(g.pixels, int) and g.pixels <= most_pixels(target)
        if (one and not self.decodes) or (work.half and target.tiles):
            self.slices = [1 for _ in self.runs]
        else:
            self.slices = [slices_of(work, run.blocks, _SLICE_BYTES) for run in self.runs]
        how = (
            *("blocks", g.weights, work.inner, work.lanes, work.kind, work.half, self.decodes),
            *self.slices,
        )
        self.packed_weights = packed(work.filters.sources, how, self._packed)
        #: Neighbouring taps of a row that are one step.
        most = _NUMBERS_OF_TILES if work.half and target.tiles else _MOST_NUMBERS
        self.together = taps_together(g, work.inner, most) if regions is None else 1
        self.steps = StepsOfSets.of(work, self.runs) if self.decodes else None
        steps = [] if self.steps is None else [self.steps.operands, self.steps.numbers]
        self._keep: list[object] = [self.packed_weights, *steps, *work.numbers]
        self.images, self.most = images_together(g.images, self.padded)
        lying = LyingData(self.block, self.plane, self.row, self.laid_out)
        self.tables = TapTables(work, self.runs, self.slices, self.together, lying)

    @property
    def keep(self) -> list[object]:
        """What calls read and a plan keeps: tables that only some number of threads wants are here
        once they were asked for.
        """
        return [*self._keep, *self.tables.arrays]

    def _packed(self) -> list[Array]:
        """The filters of each run of sets, or their codes."""
        work = self.work
        filters = work.filters.codes() if self.decodes else work.filters.values()
        runs = zip(self.runs, self.slices, strict=True)
        return [packed_sets(work, run, slices, filters) for run, slices in runs]

    def _planes_together(self) -> Sequence[tuple[SizeLike, SizeLike]]:
        """The planes of the result in parts: as many as see data that stay in the second-level
        cache, of a row of each.
        """
        g, work = self.g, self.work
        row = g.columns.size * work.channels * work.inner * work.size * g.rows.taps
        whole = row * g.depth.windows_extent(g.depth.count)
        parts = max(1, whole // strip_bytes(self.target)) if isinstance(whole, int) else 1
        return shares(g.depth.count, parts)

    def _skipped(self, rows_alike: bool) -> WindowAxis | None:
        """The axis along which taps are left out: they come first in the table of taps. None where
        all are on the data, or a region (where rows are not alike) says which.
        """
        depth, rows = self.g.depth, self.g.rows
        if not depth.inside:
            return depth
        skips = rows_alike and not rows.inside and rows.lhs_dilation == 1 and depth.taps == 1
        return rows if skips else None

    def _strips(self) -> list[tuple[SizeLike, SizeLike]]:
        """The rows of the result in strips whose data stay in the second-level cache; one strip of
        all rows where only the call knows sizes of an image.
        """
        g = self.g
        if g.is_image_open:
            return [(0, g.rows.count)]
        count = known(g.rows.count)
        row = known(self.row) * self.work.channels * known(g.depth.size)
        whole = known(g.rows.windows_extent(count)) * row
        beside = (known(g.rows.windows_extent(1)) - g.rows.stride) * row
        rows = max(1, (_SCRATCH_BYTES - beside) // (row * g.rows.stride))
        each = count if whole <= _SCRATCH_BYTES else min(count, -(-count // -(-count // rows)))
        return [(first, min(each, count - first)) for first in range(0, count, each)]

    @property
    def laid_out(self) -> SizeLike:
        """Bytes of the data with zeros around them, of the most images at a time."""
        return self.most * self.work.channels * self.block if self.padded else 0

    def lay_out(
        self, images: tuple[SizeLike, SizeLike], strip: tuple[SizeLike, SizeLike]
    ) -> Iterator[KernelCall]:
        """The calls that copy what some rows of some images see, with zeros around the data."""
        if not self.padded:
            return
        g, work = self.g, self.work
        pixel = work.inner * work.size
        height = g.rows.windows_extent(strip[1])
        rows, columns = (
            g.rows.data_range(strip[0] * g.rows.stride, height),
            g.columns.data_range(0, self.width),
        )
        planes = images[1] * work.channels * g.depth.size
        source = (
            images[0] * work.channels * g.data_size * pixel
            + (rows.first * g.columns.size + columns.first) * pixel
        )
        target = rows.position * self.row + columns.position * pixel
        covered = same(rows.length, height) and same(columns.length, self.width)
        loops = [
            Loop(planes, g.plane.data_size * pixel, self.plane),
            Loop(rows.length, g.columns.size * pixel, self.row),
        ]
        if not covered:
            yield zeros(Scratch(0), planes * self.plane)
        yield nd_copy(In(0, source), Scratch(target), loops, columns.length * pixel)

    def compute(
        self,
        images: tuple[SizeLike, SizeLike],
        region: Region,
        strip: SizeLike,
        number: int,
        group: int,
        part: Portion,
        memory: Workspace,
    ) -> KernelCall:
        """The call that computes a part of a region, of the sets of one run, in one group, within
        the strip that begins at row `strip`. Its tiles count where the length of rows is known.
        """
        g, work = self.g, self.work
        run = self.runs[number]
        blocks, alike = run.blocks, run.alike
        columns = region.columns[1]
        widths: tuple[int, ...] = open_widths(self.target)
        tiles: list[SizeLike] = [0] * KINDS
        left = 0
        if isinstance(columns, int):
            widths, all_tiles = widths_of(columns, self.target)
            left, some = some_of_tiles(widths, all_tiles, part.tiles)
            tiles = [*some]
        filters = self.packed_weights.arrays[number][alike.groups.index(group)]
        slices, entries = self.slices[number], self.tables.entries(region, number)
        vector_members, is_open = min(self.vector_members, blocks), not isinstance(columns, int)
        spec = Dense(
            work.lanes,
            work.step * self.together,
            blocks,
            widths,
            work.end,
            vector_members,
            self.block_vectors,
            is_open,
            alike.blocks * work.lanes > g.outputs,
            work.half,
            work.half and self.target.tiles,
            slices > 1,
            self._form(vector_members),
            self.steps_of_result[2],
        )
        sets, first = part.sets, region.rows[0] + part.rows[0]
        begin = (strip * g.rows.stride, 0) if self.padded else (g.rows.begin, g.columns.begin)
        y = first * g.rows.stride + region.row_taps[0] * g.rows.dilation - begin[0]
        x = (
            region.columns[0] * g.columns.stride
            + region.column_taps[0] * g.columns.dilation
            - begin[1]
        )
        x = x + left * g.columns.stride
        plane, planes = region.planes
        z = plane * g.depth.stride - g.depth.begin
        seen = (
            z * self.plane
            + y * self.row
            + x * work.inner * work.size
            + group * g.channels // work.inner * self.block
        )
        rows = part.rows[1]
        height = self.portions.rows_of_strip(
            region, rows, sets[1], slices * self._read_again(filters), self.row
        )
        whole, result = work.whole, work.lanes * work.size
        inward, down, across = self.steps_of_result
        source_row, target_row = g.rows.stride * self.row, down * whole.columns.count * result
        if part.runs is not None:  # each is a row
            (rows, pixels), height = part.runs, 1
            columns, tiles[0] = pixels, pixels // widths[0]
            source_row = pixels * g.columns.stride * work.inner * work.size
            target_row = pixels * across * result
        sums: Operand = Scratch(0)
        if slices > 1:
            pixels_waiting = planes * smallest(height, rows) * columns
            sums = memory.take(pixels_waiting * blocks * work.lanes * number_size(False))
        image = work.channels * self.block
        before = run.first + sets[0] * blocks
        block = group * g.outputs // work.lanes + before
        of_plane = whole.plane.pixels
        front, top, begun = self.first_of_result
        pixel = (
            (front + plane * inward) * of_plane
            + (top + first * down) * whole.columns.count
            + (begun + (region.columns[0] + left) * across)
        )
        made = images[0] * work.result_image + (block * whole.pixels + pixel) * result
        operands: dict[str, Operand] = {
            "source": Scratch(seen) if self.padded else In(0, images[0] * image + seen),
            "target": Out(0, made),
            "filters": sets[0] * slices * filters[0].nbytes + address_of(filters),
            "table": self.tables.place(region, number),
            "count": entries // self.skipped.taps if self.skipped else entries,
            "step": g.columns.stride * work.inner * work.size,
            "asks_ahead": self._asks_ahead(planes * smallest(height, rows), columns, filters),
            **self._taps_of(plane, first),
            "columns": columns,
            "low": alike.outputs_before - before * work.lanes,
            "high": alike.outputs_before - before * work.lanes + g.outputs,
            "images": images[1],
            "source_image": image,
            "target_image": work.result_image,
            "planes": planes,
            "source_plane": g.depth.stride * self.plane,
            "target_plane": inward * of_plane * result,
            "rows": rows,
            "strip": height,
            "source_row": source_row,
            "target_row": target_row,
            "target_block": whole.pixels * result,
            "passes": sets[1] * slices,
            "slices": slices,
            "slice_source": self.tables.steps(number) * work.step // work.inner * self.block,
            "sums": sums,
            "group": filters[0].nbytes,
            **self._decoded(number, group, sets[0], memory),
            **{f"tiles_{kind}": count for kind, count in enumerate(tiles)},
            **operands_for(spec.end, work.others, block * work.lanes * 4, made),
        }
        if not entries:  # nothing of the data is seen: any address will do
            operands["source"] = In(0)
        return spec(**operands)

    def _form(self, vector_members: int) -> Stored | None:
        """How the kernel of sets of such vectors sees codes; None where filters are numbers."""
        work, lanes = self.work, self.work.lanes * vector_members // self.block_vectors
        return form_of(work, lanes, self.target) if self.decodes else None

    def _set_bytes(self, filters: Array) -> int:
        """Bytes of the numbers of one of these sets, or slices of sets."""
        return int(filters[0].size) * self.work.size

    def _read_again(self, filters: Array) -> int:
        """What it costs to have one of these sets, or slices, again, as bytes that are read."""
        return self._set_bytes(filters) * (_DECODED if self.decodes else 1)

    def _decoded(
        self, number: int, group: int, first: SizeLike, memory: Workspace
    ) -> dict[str, Operand]:
        """The arguments that tell how to decode sets of a run, in a group, from the first on."""
        if self.steps is None:
            return {}
        place = self.runs[number].alike.groups.index(group)
        operands = self.steps.operands.arrays[number][place]
        filters = self.packed_weights.arrays[number][place]

        def there(array: Array, offset: SizeLike = 0) -> Operand:
            """Where an array lies; anywhere where it is empty."""
            return address_of(array) + offset if array.size else 0

        return {
            "decoded": memory.take(self._set_bytes(filters)),
            "steps": there(operands, first * operands[0].nbytes),
            "numbers": there(self.steps.numbers),
        }

    def _taps_of(self, plane: SizeLike, row: SizeLike) -> dict[str, SizeLike]:
        """The arguments that tell which taps of the skipped axis are on the data, from a plane and
        a row of the result on. Where none is left out, all taps are one that is on them.
        """
        axis = self.skipped
        if axis is None:
            return {
                "line": 0,
                "height": 1,
                "taps": 1,
                "tap_stride": 0,
                "tap_plane": 0,
                "tap_dilation": 1,
            }
        by_planes = axis is self.g.depth
        first = plane if by_planes else row
        return {
            "line": first * axis.stride - axis.begin,
            "height": axis.size,
            "taps": axis.taps,
            "tap_stride": 0 if by_planes else axis.stride,
            "tap_plane": axis.stride if by_planes else 0,
            "tap_dilation": axis.dilation,
        }

    def _asks_ahead(self, rows: SizeLike, columns: SizeLike, filters: Array) -> SizeLike:
        """Whether the filters of a set of outputs are prefetched while the set before is computed:
        1 where these rows have enough tiles for that, and the filters are not read themselves
        meanwhile; else 0.
        """
        if filters[0].nbytes > _MOST_AHEAD:
            return 0
        tiles = rows * -(-columns // most_pixels(self.target))
        return smallest(1, tiles // AHEAD_TILES)

    def stages(self, threads: int) -> Stages:
        found: list[list[KernelCall]] = [[call] for call in self.tables.fill()]
        most: SizeLike = 0
        for images, strip in product(self.images, self.strips):
            found += shared_moves(self.lay_out(images, strip), threads)
            regions = (
                [replace(region, rows=strip) for region in self.regions]
                if self.padded
                else self.regions
            )
            memory = Workspace()
            memory.take(self.laid_out + self.tables.bytes)
            calls = [
                call
                for region in regions
                for call in self._shared(images, region, strip[0], threads, memory)
            ]
            found.append(calls)
            most = largest(most, memory.bytes)
        return Stages(found, most)

    def _shared(
        self,
        images: tuple[SizeLike, SizeLike],
        region: Region,
        strip: SizeLike,
        threads: int,
        memory: Workspace,
    ) -> Iterator[KernelCall]:
        """The calls of several threads for a region, in the strip that begins at row `strip`: they
        share rows, tiles of rows and sets of outputs. Each has working memory of its own.

        Threads read the larger one of data and filters in parts.
        """
        columns = region.columns[1]
        all_rows = (region.rows[1], 1)
        all_tiles = (
            (sum(map(known, widths_of(columns, self.target)[1])), 1)
            if isinstance(columns, int)
            else (1, 1)
        )
        data = self.work.channels * self.g.data_size * self.work.inner * self.work.size
        all_filters = sum(array.nbytes for array in self.packed_weights.arrays)
        first = isinstance(data, int) and data < all_filters and isinstance(all_rows[0], int)
        if sum(len(run.alike.groups) for run in self.runs) >= _ENOUGH * threads:
            threads = 1  # a call for each is enough
        for index, run in enumerate(self.runs):
            axes = [all_rows, all_tiles, (run.sets, 1)]
            order = (2, 0, 1) if first else (0, 1, 2)
            shared = grid([axes[axis] for axis in order], threads)
            for group, some in product(run.alike.groups, shared):
                rows, tiles, sets = (some[order.index(axis)] for axis in range(3))
                filters = self.packed_weights.arrays[index][run.alike.groups.index(group)]
                whole = Portion(rows, sets, tiles)
                of_set = self.slices[index] * self._read_again(filters)
                for where, part in self.portions.in_strips(region, whole, of_set):
                    yield self.compute(images, where, strip, index, group, part, memory)


def direct_over_blocks(work: BlockedWork, target: Target) -> KernelPlan:
    """The calls of a direct convolution over blocks."""
    if _meets(work) and work.geometry.columns.pointwise:
        work = replace(work, geometry=_by_rows(work.geometry))
    return _plan_of([_BlockCalls(work, target)])


def transposed_over_blocks(work: BlockedWork, target: Target) -> KernelPlan:
    """The calls of a transposed convolution: those of its phases, one after the other."""
    whole = work.geometry
    makers = []
    for phases in phases_along(whole.axes):
        depth, rows, columns = (phase.axis for phase in phases)
        own = replace(
            work,
            geometry=replace(whole, depth=depth, rows=rows, columns=columns),
            filters=replace(work.filters, phases=phases),
            kind=(*work.kind, *(phase.taps for phase in phases)),
            part_of=whole,
        )
        makers.append(_BlockCalls(own, target))
    return _plan_of(makers)


def _plan_of(makers: Sequence[_BlockCalls]) -> KernelPlan:
    """The plan of direct convolutions one after the other."""

    def stages(threads: int) -> Stages:
        made = joined([maker.stages(threads) for maker in makers])
        keep[:] = [kept for maker in makers for kept in maker.keep]
        return made

    keep: list[object] = []
    costs = [nanoseconds(m.g.images * m.g.pixels, m.work.cost) for m in makers]
    plan = staged(stages, sum(costs[1:], costs[0]), keep)
    return replace(
        plan, kernel=next(spec.name for spec, _ in plan.calls if isinstance(spec, Dense))
    )
