"""The microkernel of all products of matrices of f32 or f64: up to 8 rows times a panel of columns,
held in registers.

`sums[v] = sum over k of source[k] * panel[k][v]` for each row and each vector v of the panel; what
then happens with the sums of a row is up to the `end` that the user gives: it is part of the same
function, so the sums never go through memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Protocol

from msgspec import Struct, field

from uncork.kernels.codegen.emit import F32, I32, I64, Kernel, Type, Value, Variable, pieces
from uncork.kernels.codegen.epilogue import apply_epilogue, is_long
from uncork.kernels.epilogue import CHANNEL, ELEMENT, Epilogue
from uncork.kernels.gemm.spec_matmul import FREE_MASKS, MASKED
from uncork.kernels.register_tiles import (
    FEW_REGISTERS,
    chains_of,
    holds_vectors,
    rows_of_tiles,
)
from uncork.kernels.runtime.target import LINE

#: Multiplications that hide what a turn of a loop costs: more only take longer to compile.
_TURN = 24
#: From so many rows on a kernel of a known tail has masks too. Of fewer rows the next layer would
#: wait: what is stored with a mask is not read before it is in the cache.
MANY = 4
#: Bytes of a panel between what is multiplied and what is asked for: so many take longer than
#: reading from the second cache.
_SOON = 2048
#: No function has masks.
NEVER = 1 << 30
#: What blocks of many rows are told of what they ask for: where it is, and how far the next
#: position's is from one position's.
AHEAD = ("ahead", "pace")
EpilogueEmitter = Callable[[Kernel, "Row"], None]
#: The vector of f32 from a number of a panel on: `widened(kernel, panel, number)`.
Widening = Callable[[Kernel, Value, Value], Value]
#: Asks for memory that the ends of some rows will write: `places(kernel, rows, arguments)`.
Places = Callable[[Kernel, int, "dict[str, Value]"], None]


class Row(Struct, frozen=True):
    """What the end of a microkernel sees of one row: its number in its block, the address of its
    source, its sums, the extra arguments. Of rows `together` it is the first row, and each of the
    sums has the lanes of all rows, one row after the other.
    """

    number: int | Value
    source: Value
    sums: list[Value]
    extra: dict[str, Value]
    #: For each vector of sums the columns that exist, where only the call knows.
    masks: list[Value] = field(default_factory=list)


#: An operand that lies like the result: `element(name, column, lanes, the columns that exist)`.
Element = Callable[[str, int, int, "Value | None"], Value]


class PanelSpec(Protocol):
    """The spec of any kernel that multiplies panels."""

    @property
    def lanes(self) -> int: ...
    @property
    def vectors(self) -> int: ...
    @property
    def end(self) -> Epilogue: ...


class RegisterTile(Struct, frozen=True):
    """What a microkernel multiplies, and how: panels of `vectors` vectors of `lanes` numbers."""

    lanes: int
    vectors: int
    #: The type of factors and sums.
    number: Type = F32
    #: Sources and panels hold pairs of bf16 in place of numbers, and `inner` counts pairs.
    pairs: bool = False
    #: Loads a vector of a panel that holds other numbers.
    widened: Widening | None = None
    #: Sums begin with those that lie at the extra argument `sums`, row by row, and sources `begin`
    #: bytes behind their addresses.
    resumed: bool = False
    #: No block has more rows.
    most_rows: int = 8
    #: Every sum is one chain, in the order of the inner dimension, in blocks of any number of rows.
    alike: bool = False
    #: The end of a row is written once for all rows, whose sums go through memory.
    long: bool = False
    #: Rows whose ends are computed together: a long end waits for each of its steps, which those of
    #: other rows fill.
    together: int = 1
    #: Blocks of more than half the most rows ask for the next panel while they multiply this one:
    #: at the extra argument `ahead`, and `pace` bytes further for each position.
    prefetches: bool = False
    #: A panel does not stay in the first cache: blocks of more than half the most rows ask for its
    #: lines a little before they read them, and before all for those of their results, if that is
    #: given.
    streams: bool = False
    results: Places | None = None

    def rows(self, registers: int) -> list[int]:
        """The rows of blocks: their sums, a vector of the panel for each and a factor are held in
        registers.
        """
        return rows_of_tiles(registers, self.vectors, self.most_rows)


class Microkernel:
    """The microkernel as functions, one each for 8, 4, 2 and 1 rows; see the module."""

    def __init__(
        self,
        outer: Kernel,
        name: str,
        tile: RegisterTile,
        extra: Sequence[str],
        end: EpilogueEmitter,
        masked: int = NEVER,
        others: Mapping[int, Kernel] | None = None,
        used: int | None = None,
    ) -> None:
        """Functions for `masked` rows and more have an extra argument `left`, the number of columns
        that exist from this panel on; where `others` is given, they are taken from it. Only the
        first `used` vectors of a panel are multiplied.
        """
        self.tile, self.masked = tile, masked
        self.used = tile.vectors if used is None else used
        target = outer.target
        self.registers = FEW_REGISTERS if target is None else target.vector_registers
        self.sizes = tile.rows(self.registers)
        self.extra = tuple(extra)
        self.functions = {
            n: others[n]
            if others is not None and n >= masked
            else self._function(outer, f"{name}_{n}", n, end)
            for n in self.sizes
        }

    def _chains(self, rows: int) -> int:
        """Sums in turn for each number: a sum waits for the addition before it, so few rows need
        several to keep the multipliers busy, as many as registers hold.
        """
        if self.tile.alike:
            return 1
        wanted = 4 if rows * self.used <= 4 else 2 if rows * self.used <= 12 else 1
        return chains_of(self.registers, rows, self.used, wanted)

    def _function(self, outer: Kernel, name: str, rows: int, end: EpilogueEmitter) -> Kernel:
        tile, lanes, vectors = self.tile, self.tile.lanes, self.tile.vectors
        k = Kernel(name, ["table", "panel", "inner", *self.extra], inside=outer)
        table, panel, inner, *others = k.arguments
        extra = dict(zip(self.extra, others, strict=True))
        sources = [k.load(table + row * 8, I64) for row in range(rows)]
        if tile.resumed:
            sources = [source + extra["begin"] for source in sources]
        used, accumulators = self.used, self._chains(rows)
        many = rows > self.sizes[0] // 2
        asks_ahead = tile.prefetches and many
        if tile.streams and many and tile.results is not None:
            tile.results(k, rows, extra)
        sums = [
            [
                [k.variable(k.constant(0.0, tile.number, lanes)) for _ in range(used)]
                for _ in range(rows)
            ]
            for _ in range(accumulators)
        ]
        vector = lanes * tile.number.bytes
        for row, v in product(range(rows), range(used) if tile.resumed else ()):
            place = extra["sums"] + (row * vectors + v) * vector
            sums[0][row][v].set(k.load(place, tile.number, lanes))

        def step(position: Value, chain: int) -> None:
            type_ = I32 if tile.pairs else tile.number
            if asks_ahead:
                k.prefetch(extra["ahead"] + position * extra["pace"])
            numbers = [(position * vectors + v) * lanes for v in range(used)]

            def weight(v: int) -> Value:
                if tile.widened is not None:
                    return tile.widened(k, panel, numbers[v])
                return k.load(panel + numbers[v] * type_.bytes, type_, lanes)

            def factor(row: int) -> Value:
                return k.splat(k.load(sources[row] + position * type_.bytes, type_), lanes)

            def add(row: int, v: int, factor: Value, weight: Value) -> None:
                total = sums[chain][row][v]
                total.set(
                    k.dot_pairs(total.get(), factor, weight)
                    if tile.pairs
                    else k.fma(factor, weight, total.get())
                )

            # The shorter side stays in registers for the step.
            if holds_vectors(self.registers, rows, used, accumulators):
                weights = [weight(v) for v in range(used)]
                for row in range(rows):
                    of_row = factor(row)
                    for v in range(used):
                        add(row, v, of_row, weights[v])
                return
            factors = [factor(row) for row in range(rows)]
            for v in range(used):
                of_all = weight(v)
                for row in range(rows):
                    add(row, v, factors[row], of_all)

        def soon(position: Value, count: int) -> None:
            """Ask for what is multiplied some positions after so many ones."""
            type_ = I32 if tile.pairs else tile.number
            size = vectors * lanes * type_.bytes
            place = panel + position * size
            for line in range(0, count * size, LINE):
                k.prefetch(place + (_SOON + line))

        turn = soon if tile.streams and many else None
        over_accumulators(k, inner, accumulators, rows * used, step, turn)
        totals = [
            [joined([chain[row][v] for chain in sums]) for v in range(used)] for row in range(rows)
        ]

        masked = used if rows >= self.masked else 0
        masks = [k.lanes_below(extra["left"] - v * lanes, lanes) for v in range(masked)]
        if tile.long and rows > 1:
            self._end_by_a_loop(k, table, totals, end, extra, masks)
        else:
            parts = -(-rows // tile.together)  # about as many rows each: none waits by itself
            bounds = [part * rows // parts for part in range(parts + 1)]
            for first, behind in pairwise(bounds):
                sums_of = totals[first:behind]
                together = [k.side_by_side(vectors) for vectors in zip(*sums_of, strict=True)]
                end(k, Row(first, sources[first], together, extra, masks))
        k.finish()
        return k

    def _end_by_a_loop(
        self,
        k: Kernel,
        table: Value,
        totals: list[list[Value]],
        end: EpilogueEmitter,
        extra: dict[str, Value],
        masks: list[Value],
    ) -> None:
        """Call `end` for every row in a loop, so that it is written once."""
        number = self.tile.number
        vector = totals[0][0].lanes * number.bytes
        line = vector * len(totals[0])
        room = k.stack_bytes(line * len(totals))
        for index, of_row in enumerate(totals):
            for v, total in enumerate(of_row):
                k.store(total, room + (index * line + v * vector))
        with k.loop(0, len(totals)) as row:
            sums = [
                k.load(room + row * line + v * vector, number, total.lanes)
                for v, total in enumerate(totals[0])
            ]
            end(k, Row(row, k.load(table + row * 8, I64), sums, extra, masks))

    def multiply_rows(
        self,
        k: Kernel,
        table: Value,
        panel: Value,
        inner: Value,
        rows: Value,
        extra: Callable[[Value], dict[str, Value]],
    ) -> None:
        """Multiply all rows of a table of addresses, in blocks; `extra(first row)` gives the
        further arguments of a block.
        """
        done = k.variable(k.integer(0))
        for size in self.sizes:
            # Whole blocks first: threads share rows by these, and a row has the bits of its block.
            with k.loop(done.get(), rows - (size - 1), size) as row:
                given = extra(row)
                k.call(
                    self.functions[size],
                    [table + row * 8, panel, inner, *(given[name] for name in self.extra)],
                )
                done.set(row + size)

    def asked_ahead(
        self, k: Kernel, place: Value, size: Value, row: Value, rows: Value, inner: Value
    ) -> dict[str, Value]:
        """What the block of rows from this one on asks for: its share of the `size` bytes there."""
        one = k.integer(1)
        share = (size // k.maximum(rows, one)) & -LINE
        pace = share * self.sizes[0] // k.maximum(inner, one) + 1
        if self.registers <= FEW_REGISTERS:  # else lines of what few rows share are left out
            pace = k.minimum(pace, k.integer(LINE))
        return {"ahead": place + row * share, "pace": pace}


def of_panels(
    outer: Kernel,
    tile: RegisterTile,
    extra: Sequence[str],
    tail: int,
    masked: int,
    end: Callable[[int], EpilogueEmitter],
) -> tuple[Microkernel, Microkernel | None]:
    """The microkernels of whole panels and of the last one, of which `tail` columns exist.

    Functions for `masked` rows and more have masks for the last panel: they are the same for all
    tails of as many vectors, and where it has all vectors for whole panels too. `end(columns)`
    stores a row of so many columns.
    """
    width = tile.lanes * tile.vectors
    columns = width if tail == MASKED else tail
    used = -(-columns // tile.lanes)
    if not tail:
        return Microkernel(outer, "full", tile, extra, end(width)), None
    one = tile.lanes * tile.number.bytes == FREE_MASKS * F32.bytes and used == tile.vectors
    full = Microkernel(outer, "full", tile, extra, end(width), masked if one else NEVER)
    if one and masked == 1:
        return full, full
    others = full.functions if one else None
    return full, Microkernel(outer, "tail", tile, extra, end(columns), masked, others, used)


def row_results(
    k: Kernel, row: Row, lanes: int, columns: int, end: Epilogue, element: Element
) -> Iterator[tuple[int, Value, Value | None]]:
    """What is stored for the sums of a row, piece by piece: (the first column, its numbers, which
    of them exist where only the call knows).

    Only the first `columns` of the panel exist in memory, of a row with masks those in the masks.
    """
    for v, total in enumerate(row.sums):
        if row.masks:
            there = row.extra["left"] > v * lanes
            with k.if_(there) if v and is_long(end) else contextlib.nullcontext():
                yield (
                    v * lanes,
                    _piece(k, row, v * lanes, total, row.masks[v], end, element),
                    row.masks[v],
                )
            continue
        count = min(lanes, columns - v * lanes)
        for first, n in pieces(max(0, count), lanes):
            column = v * lanes + first
            yield column, _piece(k, row, column, total.part(first, n), None, end, element), None


def _piece(
    k: Kernel,
    row: Row,
    column: int,
    total: Value,
    mask: Value | None,
    end: Epilogue,
    element: Element,
) -> Value:
    """What is stored for some sums of a row, which begin at a column."""

    def operand(name: str, kind: str) -> Value:
        if kind == ELEMENT:
            return element(name, column, total.lanes, mask)
        place = row.extra[name]
        return (
            k.load(place + column * total.type.bytes, total.type, total.lanes, mask)
            if kind == CHANNEL
            else k.load(place, total.type)
        )

    return apply_epilogue(k, end, total, operand)


def over_accumulators(
    k: Kernel,
    inner: Value,
    accumulators: int,
    width: int,
    step: Callable[[Value, int], None],
    begun: Callable[[Value, int], None] | None = None,
) -> None:
    """Call `step(position, accumulator)` for every position of an inner product, each of `width`
    multiplications, two or four positions at a time; the accumulators take turns. Before all of a
    turn's it calls `begun(its first position, how many)`.
    """
    unrolled = 2 if 2 * width >= _TURN and accumulators <= 2 else 4
    for turn, position in enumerate(k.unrolled(inner, unrolled)):
        if begun is not None and turn == 0:
            begun(position, unrolled)
        step(position, turn % accumulators)


def joined(accumulators: Sequence[Variable]) -> Value:
    """The sum of all accumulators."""
    total = accumulators[0].get()
    for chain in accumulators[1:]:
        total = total + chain.get()
    return total
