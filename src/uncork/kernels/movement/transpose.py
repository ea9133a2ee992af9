"""Calls of the kernel that transposes blocks in registers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from uncork.kernels.kernel_plan import KernelCall, Operand
from uncork.kernels.movement.nd_copy import Loop, layout_copy
from uncork.kernels.movement.spec import BLOCK_LOOPS, TransposeBlocks
from uncork.symbolic import SizeLike

#: Fewer rows and columns make no block.
_SMALLEST = 4


def blocks_fit(rows: SizeLike, columns: SizeLike) -> bool:
    """Whether there are enough rows and columns for a block, as far as that is known."""
    return all(not isinstance(size, int) or size >= _SMALLEST for size in (rows, columns))


def transpose_call(
    widest: int,
    source: Operand,
    target: Operand,
    loops: Sequence[Loop],
    rows: tuple[SizeLike, SizeLike],
    columns: tuple[SizeLike, SizeLike],
) -> KernelCall:
    """A call that turns matrices of 32-bit numbers, as many as the `loops` say, two at most.

    `rows` are as many, so many bytes apart in the source, and neighbours in the target; `columns`
    the other way round.
    """
    outer = [*[Loop(1, 0, 0)] * (BLOCK_LOOPS - len(loops)), *loops]
    assert len(outer) == BLOCK_LOOPS
    side = _SMALLEST
    while side * 2 <= min(
        [widest, *(size for size in (rows[0], columns[0]) if isinstance(size, int))]
    ):
        side *= 2
    spec = TransposeBlocks(side, not (isinstance(rows[0], int) and isinstance(columns[0], int)))

    operands: list[Operand] = [
        source,
        target,
        *(word for loop in outer for word in astuple(loop)),
        *rows,
        *columns,
    ]
    return spec, operands


def arranged(
    widest: int,
    source: Operand,
    target: Operand,
    loops: Sequence[Loop],
    rows: tuple[SizeLike, SizeLike],
    columns: tuple[SizeLike, SizeLike],
) -> KernelCall:
    """A call that does what `transpose_call` does, also for matrices too small for a block."""
    if blocks_fit(rows[0], columns[0]):
        return transpose_call(widest, source, target, loops, rows, columns)
    return layout_copy(source, target, [*loops, Loop(*rows, 4), Loop(columns[0], 4, columns[1])])
