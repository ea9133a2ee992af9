"""Tables of places, i64 numbers that a call makes in a step's working memory: where only the call
knows the sizes they come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import product
from uncork.kernels.gemm.spec_address_table import LOOPS, AddressTable
from uncork.kernels.kernel_plan import KernelCall, Operand
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
