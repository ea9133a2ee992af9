"""Quantised products as calls: what lies around the data, which tiles, which weights, what threads share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from uncork.internal_ops.quantized import Grid, QuantizedWeights, in_words
from uncork.kernels.convolution.geometry import Geometry, known
from uncork.kernels.extents import certainly, is_known, nanoseconds, smallest
from uncork.kernels.gemm.places import placed
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Scratch, Stages, shares
from uncork.kernels.quantized.endings import End
from uncork.kernels.quantized.spec import ENTRY, FOUR_MIXED, FOUR_SIGNED, KINDS, PAIRS, SINGLE, WAYS, Dots, Surround
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Size, SizeLike
from uncork.types import Array

#: Sums of a tile that 32 vector registers hold, and 16; and the most pixels of a tile.
_MANY_SUMS, _FEW_SUMS = 28, 12
_MANY_PIXELS, _FEW_PIXELS = 14, 6
#: Vectors of outputs of a tile at most.
_MOST_BLOCKS = 8
#: Pixels of tiles for what is left of a row whose length only the call knows.
_REST = (4, 1)
#: Weights of up to so many bytes are read again for every tile, so that the data are read once.
_FEW_WEIGHTS = 1 << 16
#: As many runs of images as there are where only the call knows how many images come.
_RUNS = 16
#: Rough products in a nanosecond, per lane of a vector.
_RATE = 20.0


@dataclass(frozen=True)
class Work:
    """A product of codes: its geometry (of a matrix: a row of pixels), `codes [outputs, channels, rows, columns]`, grid of the data, end."""

    geometry: Geometry
    codes: Array
    weights: QuantizedWeights
    grid: Grid
    end: End
    #: The grids that inputs are on, where they are codes.
    held: Sequence[Grid | None]
    coded: bool


def way_of(target: Target) -> tuple[str, int]:
    """How a processor sums products of bytes, and the lanes of its vectors of sums."""
    if target.arch in ("aarch64", "arm64"):
        return (FOUR_SIGNED if target.has("dotprod") else SINGLE), 4
    if target.lanes == 16 and target.has("avx512vnni"):
        return FOUR_MIXED, 16
    if target.has("avxvnni") and target.lanes >= 8:
        return FOUR_MIXED, 8
    if target.lanes == 16 and target.has("avx512bw"):
        return PAIRS, 16
    if target.has("avx2"):
        return PAIRS, 8
    return (PAIRS if target.has("sse2") else SINGLE), 4


@dataclass(frozen=True)
class _Tiles:
    """Tiles of a row: the widths that there are, how many of each, and vectors of outputs."""

    widths: tuple[int, ...]
    counts: list[SizeLike]
    blocks: int


def _tiles(count: SizeLike, outputs: int, lanes: int, many: bool) -> _Tiles:
    """Tiles of a row of pixels: about the same number of pixels to each."""
    most, sums = (_MANY_PIXELS, _MANY_SUMS) if many else (_FEW_PIXELS, _FEW_SUMS)
    if isinstance(count, Size):
        rest = count - count // most * most
        small = rest - rest // _REST[0] * _REST[0]
        return _Tiles((most, *_REST), [count // most, rest // _REST[0], small], min(sums // most, -(-outputs // lanes)))
    tiles = -(-count // most)
    wide = -(-count // tiles)
    of_wide = count - tiles * (wide - 1)
    kept = [(width, number) for width, number in ((wide, of_wide), (wide - 1, tiles - of_wide)) if number]
    counts: list[SizeLike] = [number for _, number in kept]
    blocks = min(_MOST_BLOCKS, max(1, sums // wide), -(-outputs // lanes))
    return _Tiles(tuple(width for width, _ in kept), counts + [0] * (KINDS - len(counts)), blocks)


class _Maker:
    """The calls of one product."""

    def __init__(self, work: Work, target: Target) -> None:
        self.work, self.g = work, work.geometry
        g = self.g
        self.how, self.lanes = way_of(target)
        self.way = WAYS[self.how]
        self.channels = in_words(g.channels)
        #: Columns that are stored: codes fill their words.
        self.columns = in_words(g.outputs) if work.coded else g.outputs
        many = target.has("avx512f") or target.arch in ("aarch64", "arm64")
        self.tiles = _tiles(g.columns.count, self.columns, self.lanes, many)
        width = self.tiles.blocks * self.lanes
        groups, rest = divmod(self.columns, width)
        #: Runs of groups of outputs: vectors of a group, the first column, groups, columns of each.
        runs = [(self.tiles.blocks, 0, groups, width), (-(-rest // self.lanes), groups * width, 1, rest)]
        self.runs = [run for run in runs if run[2] and run[3]]
        self.laid = not g.inside or self.way.size > 1
        self.height = g.rows.reach(g.rows.count) if self.laid else g.rows.size
        self.width = g.columns.reach(g.columns.count) if self.laid else g.columns.size
        self.pixel = self.channels * self.way.size
        self.row = self.width * self.pixel
        self.image = self.height * self.row
        self.merged = g.columns.dilation == 1
        key = ("quantised", self.how, self.lanes, self.columns, self.tiles.blocks, work.codes.shape)
        self.packing = packed([work.weights.codes], key, self._packed)
        self.keep: list[object] = [self.packing]
        self.channel = self._channel_arrays()
        images = g.images
        self.images = shares(images, _RUNS if not isinstance(images, int) else images) if self.laid else [(0, images)]
        self.most = max(known(n) for _, n in self.images) if is_known(images) else -(-images // len(self.images))
        self.keep += [self.channel]
        self.table = self._table()

    def _kept(self, array: Array) -> Array:
        self.keep.append(array)
        return array

    def _packed(self) -> list[Array]:
        """`[group, run, codes of a run by steps, column, codes of a step]` for each run of groups."""
        found = []
        outputs, channels, *taps = self.work.codes.shape
        whole = np.zeros((self._all_columns, *taps, self.channels), np.int8)
        whole[:outputs, ..., :channels] = np.moveaxis(self.work.codes, 1, -1)
        of_run, step = self.run, self.way.codes
        for blocks, first, groups, _ in self.runs:
            width = blocks * self.lanes
            some = whole[first : first + groups * width].reshape(groups, width, self.number_of_runs, of_run // step, step)
            found.append(np.ascontiguousarray(some.transpose(0, 2, 3, 1, 4), np.int8 if self.way.size == 1 else np.int16))
        return found

    @property
    def _all_columns(self) -> int:
        """Columns with those that nobody reads."""
        return sum(blocks * self.lanes * groups for blocks, _, groups, _ in self.runs)

    @property
    def run(self) -> int:
        """Codes of a run: what lies one after the other."""
        return self.channels * (self.g.columns.taps if self.merged else 1)

    @property
    def number_of_runs(self) -> int:
        return self.g.rows.taps * (1 if self.merged else self.g.columns.taps)

    def _channel_arrays(self) -> Array:
        """`[start, scale, shift]` of all columns, 32 bits each."""
        work, grid = self.work, self.work.grid
        outputs = self.g.outputs
        sums = work.codes.reshape(outputs, -1).astype(np.int64).sum(1)
        start = -grid.nearest_zero * sums + (128 * sums if self.how == FOUR_SIGNED else 0)
        scales = work.weights.scales.astype(np.float64)
        factor, addend = work.end.scaling
        arrays = np.zeros((3, self._all_columns), np.float32)
        arrays[0, :outputs] = start.astype(np.int32).view(np.float32)
        arrays[1, :outputs] = grid.step * scales * factor
        arrays[2, :outputs] = (work.end.bias + grid.rest * scales * sums) * factor + addend
        return arrays

    # ---- what lies around the data

    @property
    def laid_out(self) -> SizeLike:
        """Bytes of the data with a border, of the most images at a time."""
        return (self.most * self.image + 63) // 64 * 64 if self.laid else 0

    @property
    def table_bytes(self) -> SizeLike:
        return 0 if is_known(self.row) else self.number_of_runs * ENTRY

    def _loops(self) -> list[tuple[SizeLike, SizeLike, SizeLike]]:
        """Runs: how many along rows and columns of taps, bytes from one to the next in the table and in the data."""
        g = self.g
        columns = 1 if self.merged else g.columns.taps
        return [(g.rows.taps, columns * ENTRY, g.rows.dilation * self.row), (columns, ENTRY, g.columns.dilation * self.pixel)]

    def _table(self) -> Operand:
        if not is_known(self.row):
            return Scratch(self.laid_out)
        (rows, _, by_row), (columns, _, by_column) = self._loops()
        places = np.add.outer(np.arange(known(rows)) * known(by_row), np.arange(known(columns)) * known(by_column))
        return int(self._kept(np.ascontiguousarray(places.reshape(-1), np.int64)).ctypes.data)

    def find_places(self) -> Iterator[KernelCall]:
        """The same table, made in the call."""
        if not is_known(self.row):
            yield placed(Scratch(self.laid_out), 0, self._loops())

    def lay_out(self, images: tuple[SizeLike, SizeLike]) -> Iterator[KernelCall]:
        """The data of some images with the code of zero around them."""
        if not self.laid:
            return
        g, channels = self.g, self.channels
        rows, columns = g.rows.cells(0, self.height), g.columns.cells(0, self.width)
        source_row = g.columns.size * channels
        words: dict[str, Operand] = {
            "source": In(0, images[0] * g.rows.size * source_row + rows.first * source_row + columns.first * channels),
            "target": Scratch(0),
            "images": images[1],
            "source_image": g.rows.size * source_row,
            "rows": self.height,
            "above": smallest(rows.place, self.height),
            "inside": rows.number,
            "source_row": source_row,
            "left": columns.place * channels,
            "copied": columns.number * channels,
            "right": (self.width - columns.place - columns.number) * channels,
            "code": self.work.grid.zero or 0,
        }
        spec = Surround(self.way.size > 1, self.lanes)
        yield spec, [words[name] for name in spec.arguments]

    # ---- the products

    def compute(self, images: tuple[SizeLike, SizeLike], number: int, rows: tuple[SizeLike, SizeLike], groups: tuple[int, int]) -> KernelCall:
        """Some rows of the result, for some groups of a run."""
        g, work = self.g, self.work
        blocks, first_column, _, columns = self.runs[number]
        weights = self.packing.arrays[number]
        spec = Dots(
            self.how,
            self.lanes,
            blocks,
            columns,
            self.tiles.widths,
            g.columns.stride * self.pixel,
            weights.nbytes <= _FEW_WEIGHTS,
            work.end.ending,
        )
        column = first_column + groups[0] * spec.width
        image = g.pixels * self.columns
        made = images[0] * image + rows[0] * g.columns.count * self.columns
        seen = rows[0] * g.rows.stride * self.row
        channel = self.channel.ctypes.data + column * 4
        across = self.channel.shape[1] * 4
        own, kept = work.end.words(work.held, column, made + column)
        self.keep += kept
        words: dict[str, Operand] = {
            "source": Scratch(seen) if self.laid else In(0, images[0] * self.image + seen),
            "target": Out(0, (made + column) * (1 if work.coded else 4)),
            "weights": int(weights.ctypes.data) + groups[0] * weights[0].nbytes,
            "table": self.table,
            "runs": self.number_of_runs,
            "run": self.run,
            "start": channel,
            "scale": channel + across,
            "shift": channel + 2 * across,
            "numbers": int(self._kept(work.end.numbers).ctypes.data),
            "images": images[1],
            "source_image": self.image,
            "target_image": image,
            "rows": rows[1],
            "source_row": g.rows.stride * self.row,
            "target_row": g.columns.count * self.columns,
            "target_pixel": self.columns,
            "groups": groups[1],
            "group": weights[0].nbytes,
            **{f"tiles_{kind}": count for kind, count in enumerate(self.tiles.counts)},
            **dict(zip(spec.end.arguments, own)),
        }
        return spec, [words[name] for name in spec.arguments]

    def stages(self, threads: int) -> Stages:
        found: list[list[KernelCall]] = [[call] for call in self.find_places()]
        for images in self.images:
            found += [[call] for call in self.lay_out(images)]
            found.append(list(self._shared(images, threads)))
        return Stages(found, self.laid_out + self.table_bytes)

    def _shared(self, images: tuple[SizeLike, SizeLike], threads: int) -> Iterator[KernelCall]:
        """By rows, or by groups of outputs where there is one row."""
        count = self.g.rows.count
        by_rows = threads > 1 and not certainly(count, 1)
        for number, (_, _, groups, _) in enumerate(self.runs):
            for rows in shares(count, threads) if by_rows else [(0, count)]:
                for some in [(0, groups)] if by_rows else shares(groups, threads):
                    yield self.compute(images, number, rows, some)


def sums_of_codes(work: Work, target: Target) -> KernelPlan:
    """The calls of a quantised product."""
    maker = _Maker(work, target)
    alone = maker.stages(1)
    calls = [call for stage in alone.stages for call in stage]
    g = work.geometry
    cost = g.outputs * g.inner / (_RATE * maker.lanes)
    name = next(spec.name for spec, _ in calls if isinstance(spec, Dots))
    return KernelPlan(name, calls, alone.scratch, maker.keep, nanoseconds(g.images * g.pixels, cost), maker.stages)
