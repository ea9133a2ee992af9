"""Convolutions by im2col, where an image has few pixels: a window is a row, multiplied with all
filters at once.

A window's cells lie one after the other in the data itself, or in lines of pixels that are brought
to hold all channels of a pixel together, or, where windows reach over several rows of pixels or
dilated ones, in a copy of each window: of a patch, which no other window overlaps, row by row, of
others tap by tap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.convolution.geometry import (
    Geometry,
    Work,
    cost_of,
    known,
    runs_of_images,
)
from uncork.kernels.epilogue import PLAIN
from uncork.kernels.extents import certainly, is_empty, is_known, same
from uncork.kernels.gemm.address_table import RowTables, row_tables
from uncork.kernels.gemm.indirect import RowProducts, panels
from uncork.kernels.gemm.spec_indirect import indirect_gemm
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Scratch,
    Stages,
    shares,
)
from uncork.kernels.movement.nd_copy import Loop, layout_copy, nd_copy, zeros
from uncork.kernels.movement.shared_moves import shared_moves
from uncork.kernels.movement.transpose import blocks_fit, transpose_call
from uncork.kernels.runtime.packed_weights import packed
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Bytes that are laid out at a time, by one thread and by several, where more than one image is
#: needed at all.
_SCRATCH_BYTES, _SHARED_SCRATCH_BYTES = 1 << 18, 1 << 22
#: So many channels are brought together by blocks, and copied by vectors.
_CHANNELS_OF_A_BLOCK = 4
#: Longer sums' panels no longer fit the second-level cache; more calls that lay out would be a plan
#: too long.
_LONGEST, _MOST_CALLS = 1 << 13, 1 << 10
#: The same for plans of every size, which have a call for each tap of a window.
_MOST_OPEN_CALLS = 1 << 6


class WindowLayout(Struct, frozen=True):
    """Where windows begin, in bytes: of an image, a group of its channels, a row and a column of
    windows.
    """

    kind: str
    image: SizeLike
    group: SizeLike
    row: SizeLike
    column: SizeLike


def layout(g: Geometry) -> WindowLayout:
    """The cheapest layout in which the cells of a window are neighbours."""
    rows, columns = g.rows, g.columns
    if g.inside and _neighbours(g):
        row = columns.size * 4
        return WindowLayout(
            "direct",
            g.groups * g.channels * g.data_size * 4,
            g.channels * g.data_size * 4,
            rows.stride * row,
            columns.stride * 4,
        )
    if rows.taps == 1 and columns.dilation == 1:
        pixel = g.channels * 4
        row = columns.windows_extent(columns.count) * pixel
        return WindowLayout(
            "lines", g.groups * rows.count * row, rows.count * row, row, columns.stride * pixel
        )
    row = columns.count * g.inner * 4
    kind = "patches" if _are_patches(g) else "windows"
    return WindowLayout(kind, g.groups * rows.count * row, rows.count * row, row, g.inner * 4)


def _are_patches(g: Geometry) -> bool:
    """Whether windows are parts of the data that do not overlap, whose rows lie in it, and are
    copied so: tap by tap is faster where channels are brought together by blocks, but takes as many
    calls, and memory, as plans of open sizes have no room for.
    """
    apart = all(axis.stride >= axis.taps for axis in (g.rows, g.columns))
    rows = g.inside and apart and g.columns.dilation == 1 < g.columns.taps
    return rows and (g.is_open or g.channels < _CHANNELS_OF_A_BLOCK)


def _neighbours(g: Geometry) -> bool:
    """Whether the cells of a window lie one after the other in the data."""
    line = g.columns.taps if g.columns.dilation == 1 or g.columns.taps == 1 else 0
    whole_lines = certainly(g.columns.size, line) and g.rows.dilation == 1
    if g.channels == g.rows.taps == 1:
        return line > 0
    if g.channels == 1:
        return whole_lines
    return certainly(g.data_size, 1) or (whole_lines and certainly(g.rows.size, g.rows.taps))


def cost(g: Geometry, widest: int) -> float:
    """The rough cost, in nanoseconds, where nothing is open; infinite where im2col makes too many
    calls.
    """
    kind = layout(g).kind
    images, pixels, height = known(g.images), known(g.pixels), known(g.rows.count)
    calls = (
        g.groups
        * (images if kind != "direct" else 1)
        * (g.rows.taps * g.columns.taps if kind == "windows" else 1)
    )
    if g.inner > _LONGEST or calls > _MOST_CALLS:
        return float("inf")
    stored = g.outputs if pixels > 1 else g.outputs / widest
    work = images * pixels * g.groups * (-(-g.outputs // widest) * (g.inner / 2 + 2) + stored + 8)
    by_blocks = g.channels >= _CHANNELS_OF_A_BLOCK
    copied = {
        "direct": 0.0,
        "lines": g.channels
        * height
        * known(g.columns.windows_extent(g.columns.count))
        * (0.4 if by_blocks else 1.0),
        "patches": pixels * g.inner * (0.1 + 3 / g.columns.taps),
        "windows": pixels * g.inner * (0.2 if by_blocks else 1.0)
        + known(g.data_size) * g.channels * 0.4,
    }[kind]
    return (work + images * g.groups * copied) / 3


def serves(g: Geometry) -> bool:
    """Whether im2col serves. Where sizes are open, copies of any number of windows would take too
    much memory, but for patches, which take as much as the data.
    """
    kind = layout(g).kind
    calls = g.groups * (g.rows.taps * g.columns.taps if kind == "windows" else 1)
    return (
        not g.is_open
        or kind == "direct"
        or (calls <= _MOST_OPEN_CALLS and (kind != "windows" or is_known(g.pixels)))
    )


class _Im2colCalls:
    """The calls of one convolution."""

    def __init__(self, work: Work, widest: int) -> None:
        self.g = g = work.geometry
        self.widest = widest
        self.layout = layout(g)
        self.spec = indirect_gemm(g.outputs, widest, certainly(g.pixels, 1), work.end)
        self.others = work.others
        how = (
            "rows",
            g.weights,
            self.layout.kind in ("direct", "patches"),
            replace(self.spec, end=PLAIN),
            work.type_name,
        )
        packed_weights = packed(
            [work.source], how, lambda: [panels(self.spec, self._ordered(work.filters))]
        )
        lay, plane = self.layout, g.pixels * 4
        self.products = RowProducts(
            self.spec,
            packed_weights,
            g.groups,
            g.inner,
            g.outputs,
            column=plane,
            source_batch=lay.group,
            target_batch=g.outputs * plane,
        )
        self.keep: list[object] = [packed_weights]
        self._tables: dict[SizeLike, RowTables] = {}
        #: As many runs as there are where only the call knows the number of images, and the most
        #: images of one.
        self.open_runs = runs_of_images(
            g, self.layout.image if self.layout.kind != "direct" else 0, _SCRATCH_BYTES
        )
        self.most = -(-g.images // self.open_runs)

    # What follows is in bytes of the step's memory: cells that are laid out, channels brought
    # together, tables, addresses, a row.

    def _ordered(self, filters: Array) -> Array:
        """The filters as `[groups, outputs, inner]`, in the order in which a window's cells lie."""
        if self.layout.kind in ("lines", "windows"):
            filters = filters.transpose(0, 1, 3, 4, 2)
        return filters.reshape(self.g.groups, self.g.outputs, self.g.inner)

    def size(self, images: SizeLike) -> SizeLike:
        """Bytes of what is laid out for some images."""
        return 0 if self.layout.kind == "direct" else images * self.layout.image

    def turned(self, images: SizeLike) -> SizeLike:
        """Bytes of some images whose channels are brought together before windows are copied; 0
        where they are not.
        """
        g = self.g
        by_blocks = (
            self.layout.kind == "windows"
            and g.rows.taps * g.columns.taps > 1
            and blocks_fit(g.channels, g.data_size)
        )
        return images * g.groups * g.channels * g.data_size * 4 if by_blocks else 0

    def laid_out(self, images: SizeLike) -> SizeLike:
        return self.size(images) + self.turned(images)

    def tables(self, images: SizeLike) -> RowTables:
        """Bytes to each window and to each pixel of the output, of some images."""
        if images not in self._tables:
            g, lay = self.g, self.layout
            loops = [
                (images, lay.image, g.groups * g.outputs * g.pixels * 4),
                (g.rows.count, lay.row, g.columns.count * 4),
                (g.columns.count, lay.column, 4),
            ]
            self._tables[images] = row_tables(loops, self.laid_out(images))
            self.keep += self._tables[images].keep
        return self._tables[images]

    def runs(self, scratch: int) -> list[tuple[SizeLike, SizeLike]]:
        """The images that are laid out together."""
        g = self.g
        if g.is_open:
            return shares(g.images, self.open_runs)
        return shares(g.images, max(1, -(-known(self.size(g.images)) // scratch)))

    def held(self, images: SizeLike) -> SizeLike:
        """The number of images that a run of `images` has room for: where sizes are open, the most
        of any run, since runs share tables.
        """
        return self.most if self.g.is_open else images

    def lay_out(self, first: SizeLike, images: SizeLike) -> Iterator[KernelCall]:
        """The calls, one after the other, that lay out the cells of some images."""
        g, lay = self.g, self.layout
        if lay.kind == "direct":
            return
        if lay.kind == "patches":
            yield from self._lay_out_patches(first, images)
            return
        width = g.columns.windows_extent(g.columns.count)
        if lay.kind == "lines":
            taps = [
                (g.rows.data_range(0, g.rows.count, g.rows.stride), g.columns.data_range(0, width))
            ]
        else:
            taps = [
                (
                    g.rows.data_range(i * g.rows.dilation, g.rows.count, g.rows.stride),
                    g.columns.data_range(j * g.columns.dilation, g.columns.count, g.columns.stride),
                )
                for i in range(g.rows.taps)
                for j in range(g.columns.taps)
            ]
        across, pixel = (
            (width, g.channels * 4) if lay.kind == "lines" else (g.columns.count, g.inner * 4)
        )
        if not all(
            same(rows.length, g.rows.count) and same(columns.length, across)
            for rows, columns in taps
        ):
            yield zeros(Scratch(0), self.size(images))
        held = self.size(self.held(images))
        start = first * g.groups * g.channels * g.data_size * 4
        image, group = g.groups * g.channels * g.data_size * 4, g.channels * g.data_size * 4
        # Numbers of the data from one channel, row and column to the next.
        data: Operand = In(0, start)
        channel, row, column = g.data_size, g.columns.size, 1
        if not certainly(self.turned(images), 0):
            data = Scratch(held)
            channel, row, column = 1, g.columns.size * g.channels, g.channels
            loops = [Loop(images, image, image), Loop(g.groups, group, group)]
            yield transpose_call(
                self.widest,
                In(0, start),
                data,
                loops,
                (g.channels, g.data_size * 4),
                (g.data_size, g.channels * 4),
            )
        for number, (tap, (rows, columns)) in product(range(g.groups), enumerate(taps)):
            if is_empty((rows.length, columns.length)):
                continue
            cell = (rows.first * row + columns.first * column) * 4 + number * group
            source = In(0, start + cell) if isinstance(data, In) else Scratch(held + cell)
            target = Scratch(
                number * lay.group
                + rows.position * lay.row
                + columns.position * pixel
                + tap * g.channels * 4
            )
            outer = [
                Loop(images, image, lay.image),
                Loop(rows.length, rows.step * row * 4, rows.position_step * lay.row),
            ]
            if column == 1 == columns.step and blocks_fit(g.channels, columns.length):
                yield transpose_call(
                    self.widest,
                    source,
                    target,
                    outer,
                    (g.channels, channel * 4),
                    (columns.length, columns.position_step * pixel),
                )
            else:
                across_rows = columns.step * column * 4, columns.position_step * pixel
                inner = [Loop(columns.length, *across_rows), Loop(g.channels, channel * 4, 4)]
                yield layout_copy(source, target, [*outer, *inner])

    def _lay_out_patches(self, first: SizeLike, images: SizeLike) -> Iterator[KernelCall]:
        """The calls that copy the windows of some images, one row of taps after the other."""
        g, lay = self.g, self.layout
        line, channel, run = g.columns.size * 4, g.data_size * 4, g.columns.taps * 4
        image = g.groups * g.channels * channel
        for number in range(g.groups):
            loops = [
                Loop(images, image, lay.image),
                Loop(g.rows.count, g.rows.stride * line, lay.row),
                Loop(g.columns.count, g.columns.stride * 4, lay.column),
                Loop(g.channels, channel, g.rows.taps * run),
                Loop(g.rows.taps, g.rows.dilation * line, run),
            ]
            source = In(0, first * image + number * g.channels * channel)
            yield nd_copy(source, Scratch(number * lay.group), loops, run)

    def calls(self, scratch: int, threads: int) -> Iterator[list[KernelCall]]:
        """Stages: what is laid out for some images, then their products."""
        g, lay = self.g, self.layout
        if g.is_open and (calls := self.tables(self.most).calls):
            yield [*calls]
        for first, images in self.runs(scratch):
            yield from shared_moves(self.lay_out(first, images), threads)
            held = self.held(images)
            tables = self.tables(held)
            yield self.products.calls(
                In(0, first * lay.image) if lay.kind == "direct" else Scratch(0),
                first * g.groups * g.outputs * g.pixels * 4,
                tables,
                (images * g.pixels, held * g.pixels),
                self.laid_out(held) + tables.scratch,
                threads,
                others=self.others,
            )

    def scratch(self, scratch: int, threads: int) -> SizeLike:
        most = (
            self.most if self.g.is_open else max(known(images) for _, images in self.runs(scratch))
        )
        places = self.tables(most).scratch + self.products.scratch(most * self.g.pixels, threads)
        return self.laid_out(most) + places

    def split(self, threads: int) -> Stages:
        return Stages(
            list(self.calls(_SHARED_SCRATCH_BYTES, threads)),
            self.scratch(_SHARED_SCRATCH_BYTES, threads),
        )


def by_rows(work: Work, widest: int) -> KernelPlan:
    """The calls of a convolution with vectors of at most so many lanes."""
    maker = _Im2colCalls(work, widest)
    calls = [call for stage in maker.calls(_SCRATCH_BYTES, 1) for call in stage]
    return KernelPlan(
        maker.spec.name,
        calls,
        scratch=maker.scratch(_SCRATCH_BYTES, 1),
        keep=maker.keep,
        cost=cost_of(work.geometry, partial(cost, widest=widest)),
        split=maker.split,
    )
