"""The products of attention in AMX tiles: 16 queries by a panel of keys, and their weights by the
values.

Where a block has 16 queries and more, its last tile ends where the block does, on queries of the
tile before: all tiles have one shape, and only what is new is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from uncork.kernels.attention.emit_blocks import ScoreBlock
from uncork.kernels.attention.spec import TILE_KEYS
from uncork.kernels.codegen.emit import F32, U16, Value
from uncork.kernels.gemm import microkernel_amx as amx


class AttentionTiles:
    """The tile registers of a kernel, and the queries that they are configured for."""

    def __init__(self, block: ScoreBlock) -> None:
        self.block, self.k, self.spec = block, block.k, block.spec
        words = self.spec.size // 2
        self.registers = amx.TileRegisters(self.spec.vectors, rest=words % amx.WORDS)
        self.whole = words - self.registers.rest
        self.room = self.k.stack_bytes(amx.CONFIGURATION_BYTES + amx.SUMS_BYTES)
        self.sums = self.room + amx.CONFIGURATION_BYTES

    def begin(self, count: Value, queries: Value) -> None:
        """Configure the registers for so many queries, the first of which lies at an address."""
        self.count, self.queries = count, queries
        rows = self.k.minimum(count, self.k.integer(amx.ROWS))
        self.registers.write(self.k, self.room, rows)
        amx.configure(self.k, self.room)

    def release(self) -> None:
        amx.release(self.k)

    def _tiles(self) -> Iterator[tuple[Value, Value]]:
        """The bodies of a loop over tiles: (the first query that is new, the first one)."""
        k = self.k
        last = k.maximum(self.count - amx.ROWS, k.integer(0))
        with k.loop(0, self.count, amx.ROWS) as new:
            yield new, k.minimum(new, last)

    def score(
        self,
        panel: Value,
        vectors: int,
        rows: Value,
        store: Callable[[Value, Sequence[Value]], None],
    ) -> None:
        """Multiply all queries by some vectors of a panel of keys, and call `store(row, sums)` for
        each of so many rows: those behind the last query are as that one.
        """
        k, registers, apart = self.k, self.registers, self.block.a["query_row"]
        of_word = self.spec.panel * F32.bytes
        for new, first in self._tiles():
            source = self.queries + first * apart

            def add(word: Value, rest: bool, source: Value = source) -> None:
                here, keys = source + word * F32.bytes, panel + word * of_word
                registers.add(k, [[here]], apart, keys, k.integer(of_word), vectors, rest=rest)

            registers.clear(k, 1, vectors)
            with k.loop(0, self.whole, amx.WORDS) as word:
                add(word, False)
            if registers.rest:
                add(k.integer(self.whole), True)
            registers.store(k, self.sums, [k.integer(0)], vectors)
            end = k.select(new + amx.ROWS < self.count, new + amx.ROWS, rows)
            with k.loop(new, end) as row:
                of_tile = k.minimum(row, self.count - 1) - first
                store(row, self._totals(of_tile, vectors))

    def add_values(self, values: Value, width: Value) -> None:
        """Add the values of `width` keys, multiplied by their weights, to the sums of all
        queries, after what was summed up before is multiplied by the factor of its row.
        """
        k, lanes, vectors = self.k, self.spec.lanes, self.spec.vectors
        whole, rest = divmod(self.spec.width // lanes, vectors)
        for new, first in self._tiles():
            if whole:
                with k.loop(0, whole * vectors * lanes, vectors * lanes) as column:
                    self._add_columns(new, first, column, vectors, values, width)
            if rest:
                column = k.integer(whole * vectors * lanes)
                self._add_columns(new, first, column, rest, values, width)

    def _add_columns(
        self, new: Value, first: Value, column: Value, vectors: int, values: Value, width: Value
    ) -> None:
        k, spec, block, registers = self.k, self.spec, self.block, self.registers
        weights = block.scores + first * spec.score_row
        of_pair = spec.width * F32.bytes
        registers.clear(k, 1, vectors)
        with k.loop(0, width, TILE_KEYS) as key:
            registers.add(
                k,
                [[weights + key * U16.bytes]],
                k.integer(spec.score_row),
                values + key // 2 * of_pair + column * F32.bytes,
                k.integer(of_pair),
                vectors,
            )
        registers.store(k, self.sums, [k.integer(0)], vectors)
        with k.loop(new, k.minimum(new + amx.ROWS, self.count)) as row:
            factor = k.splat(k.load(block.row(2, row), F32), spec.lanes)
            place = block.sums + (row * spec.width + column) * F32.bytes
            for v, total in enumerate(self._totals(row - first, vectors)):
                there = place + v * registers.vector_bytes
                before = k.load(there, F32, spec.lanes)
                k.store(k.fma(before, factor, total), there)

    def _totals(self, row: Value, vectors: int) -> list[Value]:
        """The sums of a row of the tile."""
        return [self.registers.total(self.k, self.sums, row, v, vectors) for v in range(vectors)]
