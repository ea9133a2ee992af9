"""Which kernel transposes: one that turns square blocks in registers, where the last axis of 32-bit numbers goes elsewhere.

Every other transposition moves runs of neighbours, as `move` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.choose import Choice, In, KernelCall, Native, Operand, Out, Stages, chooses, shares
from uncork.kernels.move import choose_move
from uncork.kernels.store import STORE, lanes
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


def _blocks(spec: Blocks) -> int:
    def make() -> str:
        from uncork.kernels.transpose_code import emit_blocks

        return emit_blocks(spec)

    return STORE.function(spec.name, repr(spec), make)


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
    if not axes or axes[-1] == last or min(sizes[axes[-1]], sizes[last]) < _SMALLEST or len(sizes) > LOOPS + 2:
        return choose_move(operation, inputs, outputs)
    row = axes[-1]
    side = _SMALLEST
    while side * 2 <= min(lanes(), sizes[row], sizes[last]):
        side *= 2
    spec = Blocks(side)
    others = [(sizes[axis], steps[axis], goes[axis]) for axis in axes if axis not in (row, last)]
    loops = [(1, 0, 0)] * (LOOPS - len(others)) + others

    def part(first: int, count: int) -> KernelCall:
        """Some of the turns of the outermost loop that has more than one."""
        number = next((i for i, loop in enumerate(loops) if loop[0] > 1), 0)
        _, step, to = loops[number]
        some = [*loops[:number], (count, step, to), *loops[number + 1 :]]
        words: list[Operand] = [In(0, first * step), Out(0, first * to), *(word for loop in some for word in loop)]
        return _blocks(spec), [*words, sizes[row], steps[row], sizes[last], goes[last]]

    turns = next((loop[0] for loop in loops if loop[0] > 1), 1)
    cost = math.prod(sizes) / 6
    return Native(spec.name, [part(0, turns)], cost=cost, split=lambda threads: Stages([[part(*share) for share in shares(turns, threads)]], 0))


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
