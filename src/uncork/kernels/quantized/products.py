"""Quantized products as calls: which tiles, which weights, what threads share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.convolution.geometry import known
from uncork.kernels.convolution.tiles import some_of_tiles, tiles_of
from uncork.kernels.extents import is_known, nanoseconds
from uncork.kernels.gemm.address_table import address_table_call
from uncork.kernels.gemm.dots import (
    DOT_METHODS,
    FOUR_SIGNED,
    TILES,
    dot_method_of,
    multiplies_bytes_in_tiles,
)
from uncork.kernels.kernel_plan import KernelCall, KernelPlan, Operand, Scratch, Stages, grid
from uncork.kernels.layer import staged
from uncork.kernels.quantized.layout import CodesWork, Laid
from uncork.kernels.quantized.spec import ENTRY, KINDS, TILE_PIXELS, Dots
from uncork.kernels.register_tiles import AMX_ROWS, AMX_WORDS
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Sums of a tile that 32 vector registers hold, and 16; and the most pixels of a tile.
_MANY_SUMS, _FEW_SUMS = 28, 12
_MANY_PIXELS, _FEW_PIXELS = 14, 6
#: Vectors of outputs of a tile at most.
_MOST_BLOCKS = 8
#: Weights of up to so many bytes are read again for every tile, so that the data are read once.
_FEW_WEIGHTS = 1 << 16
#: Vectors of outputs beside an AMX tile of pixels.
_TILE_BLOCKS = 2
#: Cycles of a product of tiles, and of one vector of products by VNNI.
_TILE_CYCLES, _VECTOR_CYCLES = 16, 0.5
#: Rough products in a nanosecond, per lane of a vector.
_RATE = 20.0


class _Tiles(Struct, frozen=True):
    """Tiles of a row: the widths that there are, how many of each, and vectors of outputs."""

    widths: tuple[int, ...]
    counts: list[SizeLike]
    blocks: int


def _tiles(count: SizeLike, outputs: int, lanes: int, many: bool) -> _Tiles:
    most, sums = (_MANY_PIXELS, _MANY_SUMS) if many else (_FEW_PIXELS, _FEW_SUMS)
    widths, counts = tiles_of(count, most)
    return _Tiles(
        widths, counts, min(_MOST_BLOCKS, max(1, sums // widths[0]), -(-outputs // lanes))
    )


def _words_of_steps(run: int) -> tuple[int, int]:
    """Words that AMX tiles take at a time of a run of so many, and what is left for the last step:
    in as few steps as can be, of one length where that needs no more.
    """
    steps = -(-run // AMX_WORDS)
    return (run // steps, 0) if run % steps == 0 else (AMX_WORDS, run % AMX_WORDS)


def _pays_in_tiles(count: SizeLike, run: int) -> bool:
    """Whether tiles are full enough: of a run of so many words, for so many pixels of a row."""
    pixels = min(count, AMX_ROWS) if isinstance(count, int) else AMX_ROWS
    steps = -(-run // AMX_WORDS)
    return pixels > 1 and pixels * run * _VECTOR_CYCLES > steps * _TILE_CYCLES


class _RunOfGroups(Struct, frozen=True):
    """Groups of outputs: vectors of a group, the first column, how many groups, columns of each;
    where in a pixel the data of the first group begin, and how far those of the next one are.
    """

    blocks: int
    first: int
    groups: int
    columns: int
    begin: int = 0
    apart: int = 0


def _joined(codes: Array, groups: int, lanes: int) -> Array:
    """The weights `[groups, outputs, channels, ..]` of a convolution in groups, of which so many
    are one, with weights of 0 between them, that their outputs fill a vector at most. Nothing is
    copied where groups stay as they are.
    """
    outputs, channels, *taps = codes.shape
    outputs //= groups
    most = lanes // outputs
    some = next((n for n in range(most, 1, -1) if groups % n == 0), 1)
    if some == 1:
        return codes.reshape(groups, outputs, channels, *taps)
    apart = codes.reshape(groups // some, some, outputs, channels, *taps)
    result = np.zeros((groups // some, some * outputs, some * channels, *taps), codes.dtype)
    for n in range(some):
        own = slice(n * outputs, (n + 1) * outputs), slice(n * channels, (n + 1) * channels)
        result[:, own[0], own[1]] = apart[:, n]
    return result


class _CodeProductCalls(Laid):
    """The calls of one product."""

    def __init__(self, work: CodesWork, target: Target) -> None:
        self.how, lanes = dot_method_of(target)
        self.method = DOT_METHODS[self.how]
        super().__init__(work, lanes, self.method.size)
        g = self.g
        self.codes = _joined(work.codes, g.groups, lanes)
        parts, outputs, channels = self.codes.shape[:3]
        #: Channels that an output sees, and outputs that see them; with those that fill words.
        self.inner = int(channels if parts > 1 else self.channels)
        columns = int(outputs if parts > 1 else self.columns)
        self.merged = g.columns.dilation == 1 and parts == 1
        words, self.words = self.run_length // self.method.codes, (0, 0)
        if multiplies_bytes_in_tiles(target) and _pays_in_tiles(g.columns.count, words):
            self.how, self.words = TILES, _words_of_steps(words)
            blocks = min(_TILE_BLOCKS, -(-columns // lanes))
            self.tiles = _Tiles((), [g.columns.count], blocks)
        else:
            many = target.vector_registers > 16
            self.tiles = _tiles(g.columns.count, columns, lanes, many)
        self.runs = list(self._runs(parts, columns))
        key = ("quantized", self.how, self.lanes, self.columns, self.tiles.blocks, self.codes.shape)
        self.packed_weights = packed([work.weights.codes], key, self._packed)
        # Vectors reach beyond the last column.
        padded = self.columns + self.tiles.blocks * lanes
        self.channel = self.channel_arrays(padded, self.how == FOUR_SIGNED)
        self.keep += [self.packed_weights, self.channel]
        self.table = self._table()

    def _runs(self, parts: int, columns: int) -> Iterator[_RunOfGroups]:
        """The runs of groups of outputs, of so many `parts` that see channels of their own, each
        with as many columns.
        """
        blocks, pixel = self.tiles.blocks, self.inner * self.size
        width = blocks * self.lanes
        if parts > 1 and columns <= width:
            yield _RunOfGroups(blocks, 0, parts, columns, 0, pixel)
            return
        groups, rest = divmod(columns, width)
        for part in range(parts):
            first, begin = part * columns, part * pixel if parts > 1 else 0
            if groups:
                yield _RunOfGroups(blocks, first, groups, width, begin)
            if rest:
                yield _RunOfGroups(-(-rest // self.lanes), first + groups * width, 1, rest, begin)

    def _packed(self) -> list[Array]:
        """The weights of each run of groups, packed as `[group, run, codes of a run by steps,
        column, codes of a step]`.
        """
        result = []
        parts, outputs, channels, *taps = self.codes.shape
        whole = np.zeros((self.columns, *taps, self.inner), np.int8)
        by_column = self.codes.reshape(parts * outputs, channels, *taps)
        whole[: parts * outputs, ..., :channels] = np.moveaxis(by_column, 1, -1)
        of_run, step = self.run_length, self.method.codes
        for run in self.runs:
            width, count = run.blocks * self.lanes, run.groups * run.columns
            own = whole[run.first : run.first + count].reshape(run.groups, run.columns, -1)
            some = np.pad(own, [(0, 0), (0, width - run.columns), (0, 0)]).reshape(
                run.groups, width, self.number_of_runs, of_run // step, step
            )
            result.append(
                np.ascontiguousarray(
                    some.transpose(0, 2, 3, 1, 4), np.int8 if self.method.size == 1 else np.int16
                )
            )
        return result

    @property
    def run_length(self) -> int:
        """Codes of a run: what lies one after the other."""
        return self.inner * (self.g.columns.taps if self.merged else 1)

    @property
    def number_of_runs(self) -> int:
        return self.g.rows.taps * (1 if self.merged else self.g.columns.taps)

    @property
    def table_bytes(self) -> SizeLike:
        return 0 if is_known(self.row) else self.number_of_runs * ENTRY

    def _loops(self) -> list[tuple[SizeLike, SizeLike, SizeLike]]:
        """Runs along rows and columns of taps: how many, bytes apart in the table and the data."""
        g = self.g
        columns = 1 if self.merged else g.columns.taps
        return [
            (g.rows.taps, columns * ENTRY, g.rows.dilation * self.row),
            (columns, ENTRY, g.columns.dilation * self.pixel),
        ]

    def _table(self) -> Operand:
        if not is_known(self.row):
            return Scratch(self.laid_out)
        (rows, _, by_row), (columns, _, by_column) = self._loops()
        places = np.add.outer(
            np.arange(known(rows)) * known(by_row), np.arange(known(columns)) * known(by_column)
        )
        return self.kept(np.ascontiguousarray(places.reshape(-1), np.int64))

    def fill_address_table(self) -> Iterator[KernelCall]:
        """The calls that fill the table of addresses where only the call knows sizes."""
        if not is_known(self.row):
            yield address_table_call(Scratch(self.laid_out), 0, self._loops())

    # ---- the products

    def compute(
        self,
        images: tuple[SizeLike, SizeLike],
        number: int,
        rows: tuple[SizeLike, SizeLike],
        groups: tuple[SizeLike, SizeLike],
        some_tiles: tuple[SizeLike, SizeLike],
    ) -> KernelCall:
        """The call that computes some rows of the result, for some groups of a run; where the
        length of rows is known, some of their tiles.
        """
        g, work = self.g, self.work
        run = self.runs[number]
        weights = self.packed_weights.arrays[number]
        spec = Dots(
            self.how,
            self.lanes,
            run.blocks,
            run.columns,
            self.tiles.widths,
            g.columns.stride * self.pixel,
            weights.nbytes <= _FEW_WEIGHTS,
            work.end.spec,
            self.words,
        )
        column, begin = (
            run.first + groups[0] * run.columns,
            run.begin + groups[0] * run.apart,
        )
        channel, across = column * 4 + address_of(self.channel), self.channel.shape[1] * 4
        left: SizeLike = 0
        tiles: Sequence[SizeLike] = self.tiles.counts
        if self.how == TILES:
            left, tiles = some_tiles[0], [some_tiles[1], *[0] * (KINDS - 1)]
        elif isinstance(g.columns.count, int):
            left, tiles = some_of_tiles(self.tiles.widths, self.tiles.counts, some_tiles)
        return spec(
            **self.row_operands(images, rows, column, left, begin),
            weights=groups[0] * weights[0].nbytes + address_of(weights),
            table=self.table,
            runs=self.number_of_runs,
            run=self.run_length,
            start=channel,
            scale=channel + across,
            shift=channel + 2 * across,
            target_pixel=self.columns,
            groups=groups[1],
            group=weights[0].nbytes,
            source_group=run.apart,
            **({f"tiles_{kind}": count for kind, count in enumerate(tiles)}),
        )

    def stages(self, threads: int) -> Stages:
        found: list[list[KernelCall]] = [[call] for call in self.fill_address_table()]
        for images in self.images:
            found += [[call] for call in self.lay_out(images)]
            found.append(list(self._shared(images, threads)))
        return Stages(found, self.laid_out + self.table_bytes)

    def _shared(self, images: tuple[SizeLike, SizeLike], threads: int) -> Iterator[KernelCall]:
        """The calls of several threads, which share rows, tiles of rows and groups of outputs."""
        counts = [count for count in self.tiles.counts if isinstance(count, int)]
        tiles: SizeLike = sum(counts) if isinstance(self.g.columns.count, int) else 1
        least = 1
        if self.how == TILES:  # of a row are shared pixels
            tiles, least = self.g.columns.count, TILE_PIXELS
        for index, run in enumerate(self.runs):
            for rows, some, of_groups in grid(
                [(self.g.rows.count, 1), (tiles, least), (run.groups, 1)], threads
            ):
                yield self.compute(images, index, rows, of_groups, some)


def sums_of_codes(work: CodesWork, target: Target) -> KernelPlan:
    """The calls of a quantized product."""
    maker = _CodeProductCalls(work, target)
    g = work.geometry
    cost = g.outputs * g.inner / (_RATE * maker.lanes)
    plan = staged(maker.stages, nanoseconds(g.images * g.pixels, cost), maker.keep)
    return replace(plan, kernel=next(spec.name for spec, _ in plan.calls if isinstance(spec, Dots)))
