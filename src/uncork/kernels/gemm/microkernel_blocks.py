"""Products in blocks of the inner dimension, for panels that do not stay in the second cache.

The sums of a chunk of rows go from block to block through memory that stays in the first caches.
Every row is added up in the same order, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.gemm.microkernel import Microkernel, RegisterTile, Row

#: So many numbers of the inner dimension at most are a block: a panel of 3 vectors of AVX-512 takes
#: 384 KB.
_BLOCK = 2048
#: Rows that go through all blocks of all panels before the next ones do.
ROWS = 128
#: Blocks are whole steps of so many numbers.
_STEP = 4
#: What the microkernels of sums that go on are told: see `Microkernel`.
RESUMED = ("begin", "sums")


class InnerBlocks:
    """Sums of a chunk of rows and a panel, block by block."""

    def __init__(
        self, k: Kernel, tile: RegisterTile, panel_row: int | None = None, step: int = _STEP
    ) -> None:
        """`panel_row`: bytes of a panel for one number of the inner dimension, where those are not
        of the tile's type. Blocks begin at multiples of `step`, a power of 2.
        """
        self.step = step
        self.k, self.type = k, tile.number
        self.vector = tile.lanes * tile.number.bytes
        self.line = tile.vectors * self.vector
        self.panel_row = self.line if panel_row is None else panel_row
        self.lanes, self.vectors = tile.lanes, tile.vectors
        self.tile = RegisterTile(
            tile.lanes, tile.vectors, tile.number, tile.pairs, tile.widened, resumed=True
        )
        self.sums = k.stack_bytes(ROWS * self.line)
        self.adding: dict[int, Microkernel] = {}

    def _adding(self, used: int) -> Microkernel:
        """The microkernels that add a block to the sums, of the first `used` vectors of a panel."""
        if used not in self.adding:
            self.adding[used] = Microkernel(
                self.k, f"add_{used}", self.tile, RESUMED, self._keep, used=used
            )
        return self.adding[used]

    def _keep(self, k: Kernel, row: Row) -> None:
        """Store the sums of a row where they were."""
        for v, total in enumerate(row.sums):
            k.store(total, row.extra["sums"] + (row.number * self.line + v * self.vector))

    def multiply_chunk(
        self,
        ending: Microkernel,
        table: Value,
        panel: Value,
        inner: Value,
        rows: Value,
        extra: Callable[[Value], dict[str, Value]],
        made: Callable[[Value, Value], None] | None = None,
    ) -> None:
        """Multiply at most `ROWS` rows of a table of addresses; `ending` multiplies the last block
        and stores the results. `made(begin, end)` makes a block of the panel where that begins,
        where it is not there as a whole.
        """
        k, bytes_ = self.k, self.type.bytes
        with k.loop(0, rows * self.vectors) as number:
            zero = k.constant(0.0, self.type, self.lanes)
            k.store(zero, self.sums + number * self.vector)
        blocks = (inner + (_BLOCK - 1)) // _BLOCK
        each = ((inner + blocks - 1) // blocks + (self.step - 1)) & -self.step
        last = (blocks - 1) * each

        def more(begin: Value, row: Value) -> dict[str, Value]:
            return {"begin": begin * bytes_, "sums": self.sums + row * self.line}

        def block_at(begin: Value, end: Value) -> Value:
            if made is None:
                return panel + begin * self.panel_row
            made(begin, end)
            return panel

        with k.loop(0, last, each) as begin:
            block = block_at(begin, begin + each)
            self._adding(ending.used).multiply_rows(
                k, table, block, each, rows, lambda row: more(begin, row)
            )
        ending.multiply_rows(
            k, table, block_at(last, inner), inner - last, rows,
            lambda row: {**more(last, row), **extra(row)},
        )  # fmt: skip
