"""Tables of places, i64 numbers that a call makes in a step's working memory: where only the call
knows the sizes they come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.kernels.extents import product
from uncork.kernels.gemm.spec_address_table import LOOPS, AddressTable
from uncork.kernels.kernel_plan import KernelCall, Operand, Scratch
from uncork.kernels.runtime.addresses import address_of
from uncork.symbolic import SizeLike

#: How many turns, and from one to the next the bytes in the table and in the place.
Loop = tuple[SizeLike, SizeLike, SizeLike]


def address_table_call(table: Operand, first: SizeLike, loops: Sequence[Loop]) -> KernelCall:
    """The call that writes `first` plus the steps of every turn, by at most four loops, outermost
    first.
    """
    given: list[Loop] = [*[(1, 0, 0)] * (LOOPS - len(loops)), *loops]
    assert len(given) == LOOPS
    operands: list[Operand] = [table, first, *(word for loop in given for word in loop)]
    return AddressTable(), operands


def in_order(table: Operand, loops: Sequence[tuple[SizeLike, SizeLike]]) -> KernelCall:
    """The call that writes the places of all turns one after the other. Each loop is given as its
    number of turns and the distance from one place to the next.
    """
    counts = [count for count, _ in loops]
    return address_table_call(
        table, 0, [(count, product(counts[i + 1 :]) * 8, by) for i, (count, by) in enumerate(loops)]
    )


class RowTables(Struct, frozen=True):
    """Tables of bytes to the rows of a product, and to their results: made now, or by `calls` in
    working memory, of which they take `scratch` bytes.
    """

    sources: int | Scratch
    targets: int | Scratch
    calls: Sequence[KernelCall] = ()
    scratch: SizeLike = 0
    keep: Sequence[object] = ()

    def operands(self, first: SizeLike) -> dict[str, Operand]:
        """The tables from row `first` on."""
        tables = {"sources": self.sources, "targets": self.targets}
        return {
            name: Scratch(table.offset + first * 8)
            if isinstance(table, Scratch)
            else first * 8 + table
            for name, table in tables.items()
        }


def row_tables(loops: Sequence[Loop], begin: SizeLike = 0) -> RowTables:
    """The tables of rows of so many loops: how many turns, and the bytes from one row to the next,
    and from one result. What only the call knows lies from `begin` on in its working memory.
    """
    loops = loops or [(1, 0, 0)]
    known = [tuple(number for number in loop if isinstance(number, int)) for loop in loops]
    if all(len(loop) == 3 for loop in known):
        counts, *steps = zip(*known, strict=True)
        turns = np.indices(counts).reshape(len(counts), -1)
        sources, targets = (np.ascontiguousarray(np.dot(step, turns), np.int64) for step in steps)
        return RowTables(address_of(sources), address_of(targets), keep=[sources, targets])
    size = product(count for count, _, _ in loops) * 8
    tables = Scratch(begin), Scratch(begin + size)
    calls = [
        in_order(table, [(count, step[side]) for count, *step in loops])
        for side, table in enumerate(tables)
    ]
    return RowTables(*tables, calls, 2 * size)
