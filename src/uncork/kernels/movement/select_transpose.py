"""Which kernel transposes: one that turns square blocks in registers, where the last axis of 32-bit numbers goes elsewhere.

Every other transposition moves runs of neighbours, as `move` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.movement.select_copy_table import choose_move
from uncork.kernels.runtime.kernel_cache import STORE, lanes
from uncork.kernels.select import Choice, In, KernelCall, Native, Operand, Out, Stages, chooses, shares
from uncork.ops import Operation
from uncork.ops.transpose import Transpose1
from uncork.types import TensorSpec

#: Loops around the blocks; more axes than that are left to `move`.
LOOPS = 2
#: Fewer rows and columns make no block.
_SMALLEST = 4
ARGUMENTS = ("source", "target", *(f"{n}_{i}" for i in range(LOOPS) for n in ("count", "from", "to")), "rows", "row", "columns", "column")


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a kernel is specialised for: rows and columns of a block."""

    side: int

    @property
    def name(self) -> str:
        return f"transpose_{self.side}"


#: How many times, and bytes from one to the next in the source and in the target.
Loop = tuple[int, int, int]


def blocks_fit(rows: int, columns: int) -> bool:
    """There are enough of both for a block."""
    return min(rows, columns) >= _SMALLEST


def turning(
    widest: int, source: Operand, target: Operand, loops: Sequence[Loop], rows: tuple[int, int], columns: tuple[int, int]
) -> KernelCall:
    """A call that turns matrices of 32-bit numbers, as many as the two `loops` say.

    `rows` are as many, so many bytes apart in the source, and neighbours in the target; `columns` the other way round.
    """
    assert len(loops) == LOOPS
    side = _SMALLEST
    while side * 2 <= min(widest, rows[0], columns[0]):
        side *= 2
    spec = Blocks(side)

    def make() -> str:
        from uncork.kernels.movement.emit_transpose import emit_blocks

        return emit_blocks(spec)

    words: list[Operand] = [source, target, *(word for loop in loops for word in loop), *rows, *columns]
    return STORE.function(spec.name, repr(spec), make), words


@chooses(Transpose1)
def choose_transpose(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data, order = inputs[0], inputs[1]
    assert data is not None and order is not None
    if data.element_type.dtype.itemsize != 4 or not data.shape.is_static or order.value is None or 0 in data.shape.static:
        return choose_move(operation, inputs, outputs)
    axes = [int(axis) for axis in order.value] or list(range(len(data.shape.static)))[::-1]
    sizes, axes = _merged(data.shape.static, axes)
    steps = [4 * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    made = [sizes[axis] for axis in axes]
    goes = {axis: 4 * math.prod(made[place + 1 :]) for place, axis in enumerate(axes)}
    last = len(sizes) - 1
    # Rows are the axis that becomes the last one, columns the axis that is it now.
    if not axes or axes[-1] == last or not blocks_fit(sizes[axes[-1]], sizes[last]) or len(sizes) > LOOPS + 2:
        return choose_move(operation, inputs, outputs)
    row = axes[-1]
    others = [(sizes[axis], steps[axis], goes[axis]) for axis in axes if axis not in (row, last)]
    loops = [(1, 0, 0)] * (LOOPS - len(others)) + others
    shared = next((i for i, loop in enumerate(loops) if loop[0] > 1), 0)
    turns, step, to = loops[shared]

    def part(first: int, count: int) -> KernelCall:
        """Some of the turns of the outermost loop that has more than one."""
        some = [*loops[:shared], (count, step, to), *loops[shared + 1 :]]
        return turning(width, In(0, first * step), Out(0, first * to), some, (sizes[row], steps[row]), (sizes[last], goes[last]))

    width = lanes()
    side = min(width, 1 << (min(sizes[row], sizes[last]).bit_length() - 1))
    cost = math.prod(sizes) / 6
    split = (lambda threads: Stages([[part(*share) for share in shares(turns, threads)]], 0)) if turns > 1 else None
    return Native(Blocks(side).name, [part(0, turns)], cost=cost, split=split)


def _merged(sizes: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes and order without axes of size 1, and with axes that stay neighbours as one."""
    groups: list[list[int]] = []
    kept = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    for axis in (axis for axis in axes if sizes[axis] != 1):
        follows = groups and kept.index(axis) == kept.index(groups[-1][-1]) + 1
        if follows:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    in_order = sorted(groups)
    return [math.prod(sizes[axis] for axis in group) for group in in_order], [in_order.index(group) for group in groups]
