"""Direct convolutions over planes of pixels: laid out with a border, then blocks of channels times
blocks of pixels.

Windows of neighbouring pixels see neighbouring cells, so that pixels make vectors; where windows
are 2 or more apart, cells are laid out by their remainder first. What is laid out at a time stays
in the second-level cache.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.convolution.geometry import (
    Geometry,
    Work,
    cost_of,
    known,
    runs_of_images,
)
from uncork.kernels.convolution.layout import Layout, blocks_of, direct, lanes_for, layout_of
from uncork.kernels.convolution.spec import DirectConvolution
from uncork.kernels.extents import is_empty, is_known, same
from uncork.kernels.gemm.address_table import address_table_call
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    grid,
    shares,
    whole_lines,
)
from uncork.kernels.movement.nd_copy import Loop, layout_copy, zeros
from uncork.kernels.movement.shared_moves import shared_moves
from uncork.kernels.register_tiles import most_rows
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import operands_for
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Bytes that are laid out at a time, where more than one row of the output needs no more.
_SCRATCH_BYTES = 1 << 18
#: So many blocks of channels are worth storing what the first one reads: taps of planes lie far
#: from each other, where lines of a cache take each other's places.
_GATHERED = 3
#: Channels of a block at most, and vectors of pixels of the widest block.
_BLOCK, _WIDEST = 8, 3
#: Channels for themselves have at most so many taps.
_MOST_TAPS = 64
#: Rough cost of a product for blocks of so many vectors: filters are loaded as often for one as for
#: three.
_COSTS = {1: 5, 2: 8, 3: 12}
#: Vectors of the blocks of a row of pixels whose length only the call knows.
_VECTORS = (1, 2, 3)


class Part(Struct, frozen=True):
    """What one call computes: some images, groups, channels of each group, and rows, as (first,
    number).
    """

    images: tuple[SizeLike, SizeLike]
    groups: tuple[int, int]
    channels: tuple[int, int]
    rows: tuple[SizeLike, SizeLike]


def is_depthwise(g: Geometry) -> bool:
    """Whether each channel is convolved by itself: there is so little to it that blocks of channels
    do not pay.
    """
    return g.channels == 1 and g.outputs < 4 and g.inner <= _MOST_TAPS


def cost(g: Geometry, widest: int) -> float:
    """The rough cost, in nanoseconds, where nothing is open."""
    images, rows, columns = known(g.images), known(g.rows.count), known(g.columns.count)
    blocks = blocks_of(columns, lanes_for(columns, widest))
    work = (
        images
        * g.groups
        * rows
        * sum(g.outputs * (_COSTS[v] * g.inner / 8 + 2 * v) + 8 for _, v, _ in blocks)
    )
    laid_out_size = known(g.rows.windows_extent(rows)) * known(g.columns.windows_extent(columns))
    laid_out = 0 if direct(g) else images * g.groups * g.channels * laid_out_size / 3
    return (work + laid_out) / 3


def filters_for(g: Geometry, filters: Array, taps: bool, block: int) -> list[Array]:
    """Filters as the kernel reads them: for each product the channels of a block together."""
    flat = filters.reshape(g.groups, g.outputs, g.inner)
    if taps:
        return [np.ascontiguousarray(flat)]
    blocks = _channel_blocks(g.outputs, block)
    return [
        np.concatenate(
            [flat[:, f : f + n].transpose(0, 2, 1).reshape(g.groups, -1) for f, n in blocks], 1
        )
    ]


def _channel_blocks(channels: int, block: int) -> Iterator[tuple[int, int]]:
    first = 0
    while first < channels:
        size = next(n for n in (8, 4, 2, 1) if n <= block and n <= channels - first)
        yield first, size
        first += size


class _DirectCalls:
    """The calls of one convolution."""

    def __init__(self, work: Work, target: Target) -> None:
        self.g = g = work.geometry
        self.widest = widest = target.lanes
        self.block = most_rows(target.vector_registers, _WIDEST, _BLOCK)
        self.alone = is_depthwise(g)
        columns = g.columns.count
        lanes = lanes_for(columns, widest) if isinstance(columns, int) else widest
        self.blocks = blocks_of(columns, lanes) if isinstance(columns, int) else []
        rest = (
            ()
            if self.alone
            else tuple(n for _, n in _channel_blocks(g.outputs % self.block, self.block))
        )
        vectors = () if self.alone else tuple(sorted({v for _, v, _ in self.blocks})) or _VECTORS
        taps, tap_rows = (g.inner, g.rows.taps) if self.alone else (0, 1)
        full_blocks = g.outputs >= self.block and not self.alone
        self.far = layout_of(g, g.rows.count, g.images, g.groups * g.channels).is_open
        self.others = work.others
        self.spec = DirectConvolution(
            lanes,
            vectors,
            full_blocks,
            rest,
            taps,
            tap_rows,
            work.end,
            not isinstance(columns, int),
            self.far,
            self.block,
            not self.alone and direct(g) and g.outputs >= _GATHERED * self.block,
        )
        #: Bytes of what a block of pixels sees, for those who read it again.
        self.panel = whole_lines(g.inner * lanes * max(vectors) * 4) if self.spec.gathers else 0
        how = ("planes", g.weights, self.alone, work.type_name, self.block)
        self.packed_weights = packed(
            [work.source], how, lambda: filters_for(g, work.filters, self.alone, self.block)
        )
        self.table = np.array(
            [(first * 4, v, (last - first) * 4) for first, v, last in self.blocks], np.int64
        )
        self.keep: list[object] = [self.packed_weights, self.table]
        self._offsets: dict[Layout, Array] = {}
        #: As many runs as there are where only the call knows the number of images, and the most
        #: images of one.
        image = 0 if direct(g) else layout_of(g, g.rows.count, 1, g.groups * g.channels)
        size = image if isinstance(image, int) else image.remainder * len(image.remainders)
        self.open_runs = 1 if direct(g) else runs_of_images(g, size, _SCRATCH_BYTES)
        self.most = -(-g.images // self.open_runs)

    def laid_out(self, part: Part) -> SizeLike:
        """Bytes of the cells that are laid out for a part."""
        if direct(self.g):
            return 0
        layout = self.layout(part)
        return layout.remainder * len(layout.remainders)

    def size(self, part: Part) -> SizeLike:
        """Bytes of what is laid out for a part, and of its offsets where they are made in the
        call.
        """
        offsets = self.g.inner * 8 if self.far else 0
        return whole_lines(self.laid_out(part) + offsets) + self.panel

    def layout(self, part: Part) -> Layout:
        whole = is_known(self.g.images) or same(part.images[1], self.g.images)
        images = part.images[1] if whole else self.most  # runs of an open number share a layout
        return layout_of(self.g, part.rows[1], images, part.groups[1] * self.g.channels)

    def parts(self) -> Iterator[Part]:
        """All of the work, in parts whose data stays in the second-level cache."""
        g = self.g
        whole = Part((0, g.images), (0, g.groups), (0, g.outputs), (0, g.rows.count))
        if direct(g) or g.is_open:
            for images in shares(g.images, self.open_runs):
                yield replace(whole, images=images)
            return
        image = replace(whole, images=(0, 1))
        count, each = known(g.images), known(self.size(image))
        if each <= _SCRATCH_BYTES:
            for images in shares(count, -(-count * each // _SCRATCH_BYTES)):
                yield replace(whole, images=images)
            return
        group = replace(image, groups=(0, 1))
        height = known(g.rows.count)
        # What is laid out grows with its rows: the most rows that fit, in as many steps as a height
        # has bits.
        fit = bisect_right(
            range(1, height + 1),
            _SCRATCH_BYTES,
            key=lambda rows: known(self.size(replace(group, rows=(0, rows)))),
        )
        heights = shares(height, -(-height // max(fit, 1)))
        runs = shares(
            g.groups,
            g.groups
            if len(heights) > 1
            else -(-g.groups * known(self.size(group)) // _SCRATCH_BYTES),
        )
        for n, groups, rows in product(range(count), runs, heights):
            yield Part((n, 1), groups, whole.channels, rows)

    def lay_out(self, part: Part, scratch: SizeLike, has_offsets: bool = False) -> list[KernelCall]:
        """The cells that a part needs, a call for each remainder; and their offsets, unless a part
        before has left them in the same working memory.
        """
        g = self.g
        layout = self.layout(part)
        finds = self.far and not has_offsets
        found = self._find_offsets(layout, scratch + self.laid_out(part)) if finds else []
        return found if direct(g) else [*found, *self._cells(part, layout, scratch)]

    def _find_offsets(self, layout: Layout, table: SizeLike) -> list[KernelCall]:
        """The table of `Layout.offsets`, by a call for all taps that lie evenly."""
        g, across = self.g, self.g.columns
        stride = across.stride if layout.remainders else 1
        runs = stride // math.gcd(stride, across.dilation)
        calls: list[KernelCall] = []
        for first in range(min(runs, across.taps)):
            cell = first * across.dilation
            place = (
                layout.remainders.index(cell % stride) * layout.remainder
                if layout.remainders
                else 0
            )
            loops = [
                (g.channels, g.rows.taps * across.taps * 8, layout.channel),
                (g.rows.taps, across.taps * 8, g.rows.dilation * layout.row),
                (
                    len(range(first, across.taps, runs)),
                    runs * 8,
                    runs * across.dilation // stride * 4,
                ),
            ]
            calls.append(
                address_table_call(Scratch(table + first * 8), place + cell // stride * 4, loops)
            )
        return calls

    def _cells(self, part: Part, layout: Layout, scratch: SizeLike) -> list[KernelCall]:
        g = self.g
        channels = part.groups[1] * g.channels
        cleared = part.images[1] * channels * layout.channel
        height = g.rows.windows_extent(part.rows[1])
        rows = g.rows.data_range(part.rows[0] * g.rows.stride, height)
        calls: list[KernelCall] = []
        for index, remainder in enumerate(layout.remainders):
            columns = g.columns.data_range(remainder, layout.width, g.columns.stride)
            start = part.images[0] * g.groups * g.channels + part.groups[0] * g.channels
            source = (start * g.data_size + rows.first * g.columns.size + columns.first) * 4
            base = scratch + index * layout.remainder
            target = base + rows.position * layout.row + columns.position * 4
            covered = same(rows.length, height) and same(columns.length, layout.width)
            loops = [
                Loop(part.images[1], g.groups * g.channels * g.data_size * 4, layout.image),
                Loop(channels, g.data_size * 4, layout.channel),
                Loop(rows.length, rows.step * g.columns.size * 4, rows.position_step * layout.row),
                Loop(columns.length, columns.step * 4, columns.position_step * 4),
            ]
            if not covered:
                calls.append(zeros(Scratch(base), cleared))
            if not is_empty((rows.length, columns.length)):
                calls.append(layout_copy(In(0, source), Scratch(target), loops))
        return calls

    def compute(
        self, part: Part, scratch: SizeLike, held: Part | None = None, panel: SizeLike | None = None
    ) -> KernelCall:
        """The call that computes a part, from its own cells or from those laid out for `held`, a
        part that contains it, with a panel of its own.
        """
        g = self.g
        layout = self.layout(held or part)
        above = 0 if held is None else part.rows[0] - held.rows[0]
        source: Operand = Scratch(scratch + above * (g.rows.stride * layout.row))
        if direct(g):
            channel = part.images[0] * g.groups * g.channels + part.groups[0] * g.channels
            source = In(
                0, (channel * g.data_size + part.rows[0] * g.rows.stride * g.columns.size) * 4
            )
        first, count = part.channels
        channel = (part.images[0] * g.groups + part.groups[0]) * g.outputs + first
        begin = (channel * g.pixels + part.rows[0] * g.columns.count) * 4
        ends = first + count == g.outputs
        spec = self.spec if self.alone or ends else replace(self.spec, rest=())
        if spec.gathers and count <= self.block:
            spec = replace(spec, gathers=False)
        if panel is None:
            panel = scratch + self.size(part) - self.panel
        share = -(-g.inner // max(1, (count - 1) // self.block))
        operands: dict[str, Operand] = {
            "source": source,
            "target": Out(0, begin),
            "filters": address_of(self.packed_weights.arrays[0])
            + (part.groups[0] * g.outputs + first) * g.inner * 4,
            "offsets": Scratch(scratch + self.laid_out(held or part))
            if self.far
            else self._offsets_of(layout),
            "inner": g.inner,
            "block_table": address_of(self.table),
            "blocks": len(self.table),
            "columns": g.columns.count,
            "images": part.images[1],
            "source_image": layout.image,
            "target_image": g.groups * g.outputs * g.pixels * 4,
            "groups": part.groups[1],
            "source_group": g.channels * layout.channel,
            "target_group": g.outputs * g.pixels * 4,
            "filters_group": g.outputs * g.inner * 4,
            "end_group": g.outputs * 4,
            "rows": part.rows[1],
            "source_row": g.rows.stride * layout.row,
            "target_row": g.columns.count * 4,
            "full_blocks": count // self.block,
            "channels": count,
            "target_channel": g.pixels * 4,
            "panel": Scratch(panel) if spec.gathers else 0,
            "share": share,
            "pause": max(1, (g.inner // share).bit_length() - 1),
        }
        channels = (part.groups[0] * g.outputs + first) * 4
        operands |= operands_for(spec.end, self.others, channels, begin)
        return spec(**operands)

    def _offsets_of(self, layout: Layout) -> int:
        """The address of the table of a layout that is known."""
        offsets = self._offsets.get(layout)
        if offsets is None:
            offsets = self._offsets[layout] = np.ascontiguousarray(layout.offsets(self.g), np.int32)
            self.keep.append(offsets)
        return address_of(offsets)

    def split(self, threads: int) -> Stages:
        """The stages of several threads, which share images if there are enough of them, else
        groups, else blocks of channels and rows.
        """
        g = self.g
        whole = Part((0, g.images), (0, g.groups), (0, g.outputs), (0, g.rows.count))
        if isinstance(g.images, int) and g.images >= threads:
            own = [replace(whole, images=images) for images in shares(g.images, threads)]
        elif g.groups >= threads or self.alone:
            own = [replace(whole, groups=groups) for groups in shares(g.groups, threads)]
        else:
            own = [
                replace(whole, channels=(known(first), known(number)), rows=rows)
                for (first, number), rows in grid(
                    [(g.outputs, self.block), (g.rows.count, 1)], threads
                )
            ]
            alone = shared_moves(self.lay_out(whole, 0), threads)
            first = self.size(whole)
            computed = [
                self.compute(part, 0, whole, first + number * self.panel)
                for number, part in enumerate(own)
            ]
            return Stages([*alone, computed], first + len(own) * self.panel)
        scratches: list[SizeLike] = [0]
        for part in own:
            scratches.append(scratches[-1] + self.size(part))
        *places, size = scratches
        laid_out = zip(*map(self.lay_out, own, places), strict=True)
        return Stages([*laid_out, [*map(self.compute, own, places)]], size)


def over_planes(work: Work, target: Target) -> KernelPlan:
    """The calls of a convolution over planes of pixels."""
    maker, widest = _DirectCalls(work, target), target.lanes
    parts = list(maker.parts())
    # Parts after the first are runs of images of one layout, or have offsets that are known.
    calls: Sequence[KernelCall] = [
        call
        for index, part in enumerate(parts)
        for call in (*maker.lay_out(part, 0, index > 0), maker.compute(part, 0))
    ]
    sizes = [maker.size(part) for part in parts]
    return KernelPlan(
        maker.spec.name,
        calls,
        scratch=sizes[0] if work.geometry.is_open else max(map(known, sizes)),
        keep=maker.keep,
        cost=cost_of(work.geometry, partial(cost, widest=widest)),
        split=maker.split,
    )
