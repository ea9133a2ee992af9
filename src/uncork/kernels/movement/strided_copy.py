"""Copying numbers from one arrangement of up to four dimensions to another, into memory that is
cleared before if need be.

It is how kernels lay out their data in their working memory; no operation has it for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import certainly
from uncork.kernels.kernel_plan import KernelCall, Operand
from uncork.kernels.movement.spec import COPY_LOOPS, StridedCopy
from uncork.symbolic import SizeLike

#: How many times, and bytes from one to the next in the source and in the target.
Loop = tuple[SizeLike, SizeLike, SizeLike]
#: What a number is taken to be that only the call knows.
_MANY = 1 << 20


def strided_copy_call(
    lanes: int,
    source: Operand,
    target: Operand,
    loops: Sequence[Loop],
    cleared: Operand = 0,
    clear: SizeLike = 0,
) -> KernelCall:
    """A call that copies f32 numbers by four loops (count, bytes in the source, bytes in the
    target), outermost first.

    Before that the `clear` bytes at `cleared` become zeros. The two innermost loops are put in the
    better order.
    """
    assert len(loops) == COPY_LOOPS + 1

    def cost(loop: Loop) -> tuple[bool, int]:
        count, step, to = loop
        most = count if isinstance(count, int) else _MANY
        neighbours = certainly(to, 4) and (certainly(step, 4) or certainly(step, 8))
        return (neighbours and most > lanes // 4, most)  # as vectors

    ordered = [*loops[: COPY_LOOPS - 1], *sorted(loops[COPY_LOOPS - 1 :], key=cost)]
    spec = StridedCopy(lanes)

    operands: list[Operand] = [
        source,
        target,
        cleared,
        clear,
        *(word for loop in ordered for word in loop),
    ]
    return spec, operands
