"""Products in chunks of rows and blocks of the inner dimension, so that what is read again lies in
the second cache: the rows of a chunk for every panel, a block of a panel for every row.

Where there are several blocks, the sums of a chunk go from one to the next through working memory.
Every row is added up in the same order, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.extents import smallest
from uncork.kernels.gemm.microkernel import AHEAD, Microkernel, RegisterTile, Row
from uncork.symbolic import SizeLike

#: So many numbers of the inner dimension at most are a block: of 3 vectors of AVX-512 a panel takes
#: 196 KB.
_BLOCK = 1024
#: Bytes of the rows of a chunk: with a block of a panel they take two thirds of 1 MB.
CHUNK = 448 << 10
#: The same where panels are decoded anew for each chunk, which takes more time than rows that come
#: from the third cache.
DECODED_CHUNK = 4 << 20
#: A chunk has a multiple of so many rows, which are whole blocks of any microkernel.
_ROWS = 8
#: What the microkernels of sums that go on are told: see `Microkernel`.
RESUMED = ("begin", "sums")


def has_blocks(inner: SizeLike) -> bool:
    """Whether panels are multiplied in blocks of the inner dimension."""
    return isinstance(inner, int) and inner > _BLOCK


def block_of(inner: int, unit: int) -> int:
    """The most numbers of a block, which are a multiple of `unit` but of the last one."""
    blocks = -(-inner // _BLOCK)
    return -(-inner // (blocks * unit)) * unit


def bytes_of_sums(
    inner: int, rows: SizeLike, columns: SizeLike, size: int, chunk: int = CHUNK
) -> SizeLike:
    """The working memory for sums that go from block to block, each of `size` bytes as the numbers
    are; `columns` are those of whole panels.
    """
    most = max(_ROWS, chunk // (block_of(inner, 1) * size) & -_ROWS)
    return smallest(rows, most) * columns * size


class ProductPart(Struct, frozen=True):
    """Some rows of a product, and some of its inner dimension, from `begin` on."""

    first: Value
    rows: Value
    begin: Value
    inner: Value
    #: Whether this is the last block, after which results are stored.
    ends: bool


class InnerBlocks:
    """The loops over parts of a product by panels, and what its microkernels do in each."""

    def __init__(
        self,
        k: Kernel,
        tile: RegisterTile,
        sums: Value | None,
        chunk: int = CHUNK,
        unit: int = 4,
    ) -> None:
        """`tile` is that of the microkernels that end a product. `sums`: the working memory, where
        there are several blocks, each of a multiple of `unit` numbers, which is a power of 2.
        """
        self.k, self.tile, self.sums, self.chunk, self.unit = k, tile, sums, chunk, unit
        self.size, self.vector = tile.number.bytes, tile.lanes * tile.number.bytes
        self.line = tile.vectors * self.vector
        self.adding: dict[int, Microkernel] = {}

    def parts(self, rows: Value, inner: Value) -> Iterator[ProductPart]:
        """The bodies of the loops over chunks of rows and blocks of the inner dimension: one for
        blocks whose sums wait, one for the last block.
        """
        k, each = self.k, inner
        if self.sums is not None:
            blocks = (inner + (_BLOCK - 1)) // _BLOCK
            each = (inner + blocks - 1) // blocks + (self.unit - 1) & -self.unit
        chunk = k.variable(k.maximum(rows, k.integer(1)))
        with k.if_(rows * each * self.size > self.chunk):
            most = k.maximum(k.integer(self.chunk) // (each * self.size) & -_ROWS, k.integer(_ROWS))
            chunks = (rows + most - 1) // most
            chunk.set((rows + chunks - 1) // chunks + (_ROWS - 1) & -_ROWS)
        with k.loop(0, rows, chunk.get()) as first:
            count, begin = k.minimum(rows - first, chunk.get()), k.integer(0)
            if self.sums is not None:
                begin = (inner - 1) // each * each
                with k.loop(0, begin, each) as block:
                    yield ProductPart(first, count, block, each, False)
            yield ProductPart(first, count, begin, inner - begin, True)

    def multiply(
        self,
        part: ProductPart,
        ending: Microkernel,
        table: Value,
        panel: tuple[Value, Value],
        extra: Callable[[Value], dict[str, Value]],
    ) -> None:
        """Multiply a part by a panel (its number, the address of its block); `ending` stores the
        results. `extra(row)` gives what microkernels are told besides the sums.
        """
        k, table = self.k, table + part.first * 8
        number, block = panel
        if self.sums is None:
            ending.multiply_rows(
                k, table, block, part.inner, part.rows, lambda row: extra(part.first + row)
            )
            return
        sums = self.sums + number * part.rows * self.line

        def resumed(row: Value) -> dict[str, Value]:
            more = {"begin": part.begin * self.size, "sums": sums + row * self.line}
            return {**more, **extra(part.first + row)}

        if not part.ends:
            with k.if_(part.begin.equals(0)), k.loop(0, part.rows * self.tile.vectors) as vector:
                zero = k.constant(0.0, self.tile.number, self.tile.lanes)
                k.store(zero, sums + vector * self.vector)
        kernel = ending if part.ends else self._adding(ending.used)
        kernel.multiply_rows(k, table, block, part.inner, part.rows, resumed)

    def _adding(self, used: int) -> Microkernel:
        """The microkernels that add a block to the sums, of the first `used` vectors of a panel."""
        if used not in self.adding:
            extra = (*RESUMED, *(AHEAD if self.tile.prefetches else ()))
            tile = replace(self.tile, resumed=True, long=False, results=None)
            self.adding[used] = Microkernel(
                self.k, f"add_{used}", tile, extra, self._keep, used=used
            )
        return self.adding[used]

    def _keep(self, k: Kernel, row: Row) -> None:
        """Store the sums of a row where they were."""
        for v, total in enumerate(row.sums):
            k.store(total, row.extra["sums"] + (row.number * self.line + v * self.vector))
