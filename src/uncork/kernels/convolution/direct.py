"""How a convolution runs over planes of pixels: laid out with what is around them, then blocks of channels times blocks of pixels.

Windows of neighbouring pixels see neighbouring cells, so that pixels make vectors; where windows are 2 or more apart, cells are
laid out by their remainder first. What is laid out at a time stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from uncork.kernels.convolution.geometry import Geometry, Work
from uncork.kernels.convolution.layout import Layout, blocks_of, direct, lanes_for, layout_of
from uncork.kernels.movement.strided_copy import placing
from uncork.kernels.runtime.kernel_cache import STORE, has_feature
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.select import In, KernelCall, Native, Operand, Out, Room, Stages, shares
from uncork.types import Array

#: Bytes that are laid out at a time, where more than one row of the output needs no more.
_ROOM = 1 << 18
#: Channels of a block.
_BLOCK = 8
#: Channels for themselves have at most so many taps.
_MOST_TAPS = 64
#: Words of an entry of the table of blocks of pixels: bytes from the beginning of their row, vectors, bytes from the first to the last.
BLOCK_WORDS = 3
#: Rough cost of a product for blocks of so many vectors: filters are loaded as often for one as for three.
_COSTS = {1: 5, 2: 8, 3: 12}
ARGUMENTS = (
    "source", "target", "filters", "bias", "offsets", "inner", "block_table", "blocks", "columns",
    "images", "source_image", "target_image", "groups", "source_group", "target_group", "filters_group", "bias_group",
    "rows", "source_row", "target_row", "eights", "channels", "target_channel",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planes:
    """What a kernel is specialised for: vectors of a block of pixels, whether there are blocks of 8 channels, and what comes after them.

    With `taps` each channel is for itself, and sees `tap_rows` rows of them.
    """

    lanes: int
    vectors: tuple[int, ...]
    eights: bool
    rest: tuple[int, ...]
    taps: int = 0
    tap_rows: int = 1
    bias: bool = False
    activation: str = ""

    @property
    def name(self) -> str:
        blocks = "".join(map(str, self.vectors))
        channels = (
            f"taps_{self.tap_rows}x{self.taps // self.tap_rows}" if self.taps else "_".join(map(str, [8] * self.eights + list(self.rest)))
        )
        flags = f"{'_bias' if self.bias else ''}{'_' + self.activation if self.activation else ''}"
        return f"convolution_{blocks}x{self.lanes}_{channels}{flags}"


@dataclass(frozen=True, slots=True)
class Part:
    """What one call computes: some images, groups, channels of each group, and rows, as (first, number)."""

    images: tuple[int, int]
    groups: tuple[int, int]
    channels: tuple[int, int]
    rows: tuple[int, int]


def for_themselves(g: Geometry) -> bool:
    """There is so little to each channel that blocks of them do not pay."""
    return g.channels == 1 and g.outputs < 4 and g.inner <= _MOST_TAPS


def cost(g: Geometry, widest: int) -> float:
    """Rough, in nanoseconds."""
    blocks = blocks_of(g.columns.count, lanes_for(g.columns.count, widest))
    work = g.images * g.groups * g.rows.count * sum(g.outputs * (_COSTS[v] * g.inner / 8 + 2 * v) + 8 for _, v, _ in blocks)
    laid_out = 0 if direct(g) else g.images * g.groups * g.channels * g.rows.reach(g.rows.count) * g.columns.reach(g.columns.count) / 3
    return (work + laid_out) / 3


def filters_for(g: Geometry, filters: Array, taps: bool) -> list[Array]:
    """Filters as the kernel reads them: for each product the 8 channels of a block together."""
    flat = filters.reshape(g.groups, g.outputs, g.inner)
    if taps:
        return [np.ascontiguousarray(flat)]
    blocks = [(first, size) for first, size in _channel_blocks(g.outputs)]
    return [np.concatenate([flat[:, f : f + n].transpose(0, 2, 1).reshape(g.groups, -1) for f, n in blocks], 1)]


def _channel_blocks(channels: int) -> Iterator[tuple[int, int]]:
    first = 0
    while first < channels:
        size = next(n for n in (_BLOCK, 4, 2, 1) if n <= channels - first)
        yield first, size
        first += size


class _Maker:
    """The calls of one convolution."""

    def __init__(self, work: Work, widest: int) -> None:
        self.g = g = work.geometry
        self.widest = widest
        self.alone = for_themselves(g)
        lanes = lanes_for(g.columns.count, widest)
        self.blocks = blocks_of(g.columns.count, lanes)
        rest = () if self.alone else tuple(n for _, n in _channel_blocks(g.outputs % _BLOCK))
        vectors = () if self.alone else tuple(sorted({v for _, v, _ in self.blocks}))
        taps, tap_rows = (g.inner, g.rows.taps) if self.alone else (0, 1)
        self.spec = Planes(lanes, vectors, g.outputs >= _BLOCK and not self.alone, rest, taps, tap_rows, work.bias, work.activation)
        self.packing = packed([work.source], ("planes", g, work.type_name), lambda: filters_for(g, work.filters, self.alone))
        self.table = np.array([(first * 4, v, (last - first) * 4) for first, v, last in self.blocks], np.int64)
        self.keep: list[object] = [self.packing, self.table]
        self._offsets: dict[Layout, Array] = {}

    def function(self, spec: Planes) -> int:
        def make() -> str:
            from uncork.kernels.convolution.emit_direct import emit_planes

            return emit_planes(spec, has_feature("avx512f"))

        return STORE.function(spec.name, repr(spec), make)

    def size(self, part: Part) -> int:
        """Bytes of what is laid out for a part."""
        if direct(self.g):
            return 0
        channels = part.groups[1] * self.g.channels
        layout = layout_of(self.g, part.rows[1], part.images[1], channels)
        return layout.remainder * len(layout.remainders)

    def parts(self) -> Iterator[Part]:
        """All of the work, in parts whose data stays in the second-level cache."""
        g = self.g
        whole = Part((0, g.images), (0, g.groups), (0, g.outputs), (0, g.rows.count))
        if direct(g):
            yield whole
            return
        image = replace(whole, images=(0, 1))
        if self.size(image) <= _ROOM:
            for images in shares(g.images, -(-g.images * self.size(image) // _ROOM)):
                yield replace(whole, images=images)
            return
        group = replace(image, groups=(0, 1))
        fit = [rows for rows in range(1, g.rows.count + 1) if self.size(replace(group, rows=(0, rows))) <= _ROOM]
        heights = shares(g.rows.count, -(-g.rows.count // max(fit, default=1)))
        runs = shares(g.groups, g.groups if len(heights) > 1 else -(-g.groups * self.size(group) // _ROOM))
        for n, groups, rows in product(range(g.images), runs, heights):
            yield Part((n, 1), groups, whole.channels, rows)

    def lay_out(self, part: Part, room: int) -> list[KernelCall]:
        """The cells that a part needs, a call for each remainder."""
        g = self.g
        if direct(g):
            return []
        channels = part.groups[1] * g.channels
        layout = layout_of(g, part.rows[1], part.images[1], channels)
        height = g.rows.reach(part.rows[1])
        rows = g.rows.cells(part.rows[0] * g.rows.stride, height)
        calls: list[KernelCall] = []
        for number, remainder in enumerate(layout.remainders):
            columns = g.columns.cells(remainder, layout.width, g.columns.stride)
            start = part.images[0] * g.groups * g.channels + part.groups[0] * g.channels
            source = (start * g.cells + rows.first * g.columns.size + columns.first) * 4
            base = room + number * layout.remainder
            target = base + rows.place * layout.row + columns.place * 4
            covered = rows.number == height and columns.number == layout.width
            loops = [
                (part.images[1], g.groups * g.channels * g.cells * 4, layout.image),
                (channels, g.cells * 4, layout.channel),
                (rows.number, rows.step * g.columns.size * 4, rows.place_step * layout.row),
                (columns.number, columns.step * 4, columns.place_step * 4),
            ]
            if not rows.number or not columns.number:
                source, target, loops = 0, base, [(0, 0, 0)] * 4
            calls.append(placing(self.widest, In(0, source), Room(target), loops, Room(base), 0 if covered else layout.remainder))
        return calls

    def compute(self, part: Part, room: int) -> KernelCall:
        g = self.g
        layout = layout_of(g, part.rows[1], part.images[1], part.groups[1] * g.channels)
        source: Operand = Room(room)
        if direct(g):
            channel = part.images[0] * g.groups * g.channels + part.groups[0] * g.channels
            source = In(0, (channel * g.cells + part.rows[0] * g.rows.stride * g.columns.size) * 4)
        offsets = self._offsets.get(layout)
        if offsets is None:
            offsets = self._offsets[layout] = np.ascontiguousarray(layout.offsets(g), np.int32)
            self.keep.append(offsets)
        first, count = part.channels
        channel = (part.images[0] * g.groups + part.groups[0]) * g.outputs + first
        ends = first + count == g.outputs
        spec = self.spec if self.alone or ends else replace(self.spec, rest=())
        words: dict[str, Operand] = {
            "source": source,
            "target": Out(0, (channel * g.pixels + part.rows[0] * g.columns.count) * 4),
            "filters": self.packing.arrays[0].ctypes.data + (part.groups[0] * g.outputs + first) * g.inner * 4,
            "bias": In(2, (part.groups[0] * g.outputs + first) * 4) if spec.bias else 0,
            "offsets": offsets.ctypes.data,
            "inner": g.inner,
            "block_table": self.table.ctypes.data,
            "blocks": len(self.table),
            "columns": g.columns.count,
            "images": part.images[1],
            "source_image": layout.image,
            "target_image": g.groups * g.outputs * g.pixels * 4,
            "groups": part.groups[1],
            "source_group": g.channels * layout.channel,
            "target_group": g.outputs * g.pixels * 4,
            "filters_group": g.outputs * g.inner * 4,
            "bias_group": g.outputs * 4 if spec.bias else 0,
            "rows": part.rows[1],
            "source_row": g.rows.stride * layout.row,
            "target_row": g.columns.count * 4,
            "eights": count // _BLOCK,
            "channels": count,
            "target_channel": g.pixels * 4,
        }
        return self.function(spec), [words[name] for name in ARGUMENTS]

    def split(self, threads: int) -> Stages:
        """By images if there are enough of them, else by groups, else by blocks of channels."""
        g = self.g
        whole = Part((0, g.images), (0, g.groups), (0, g.outputs), (0, g.rows.count))
        if g.images >= threads:
            own = [replace(whole, images=images) for images in shares(g.images, threads)]
        elif g.groups >= threads or self.alone:
            own = [replace(whole, groups=groups) for groups in shares(g.groups, threads)]
        else:
            own = [replace(whole, channels=channels) for channels in shares(g.outputs, threads, _BLOCK)]
            alone = [[call] for call in self.lay_out(whole, 0)]
            return Stages([*alone, [self.compute(part, 0) for part in own]], self.size(whole))
        rooms = np.cumsum([0, *(self.size(part) for part in own)]).tolist()
        laid_out = zip(*(self.lay_out(part, room) for part, room in zip(own, rooms)))
        return Stages([*laid_out, [self.compute(part, room) for part, room in zip(own, rooms)]], rooms[-1])


def over_planes(work: Work, widest: int) -> Native:
    """The calls of a convolution with vectors of at most so many lanes."""
    maker = _Maker(work, widest)
    parts = list(maker.parts())
    calls: Sequence[KernelCall] = [call for part in parts for call in (*maker.lay_out(part, 0), maker.compute(part, 0))]
    room = max(maker.size(part) for part in parts)
    return Native(maker.spec.name, calls, room=room, keep=maker.keep, cost=cost(work.geometry, widest), split=maker.split)
