"""Selection of the kernel that transposes blocks in registers, where the last axis of 32-bit
numbers moves.

Every other transposition moves runs of neighbours, as `select_copy_table` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.kernels.extents import certainly, extents, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Out,
    Selection,
)
from uncork.kernels.layer import Layer, shared_call
from uncork.kernels.movement.nd_copy import Loop
from uncork.kernels.movement.select_copy_table import select_move
from uncork.kernels.movement.spec import BLOCK_LOOPS
from uncork.kernels.movement.transpose import blocks_fit, transpose_call
from uncork.symbolic import SizeLike

#: Threads share a matrix by so many columns.
_SHARED = 16


def select_transpose(layer: Layer) -> Selection:
    data, order = layer.input(0), layer.input(1)
    if data.element_type.dtype.itemsize != 4 or order.value is None or is_empty(extents(data)):
        return select_move(layer)
    axes = [int(axis) for axis in order.value] or list(range(len(extents(data))))[::-1]
    sizes, axes = _merged(extents(data), axes)
    steps = [4 * product(sizes[axis + 1 :]) for axis in range(len(sizes))]
    made = [sizes[axis] for axis in axes]
    goes = {axis: 4 * product(made[index + 1 :]) for index, axis in enumerate(axes)}
    last = len(sizes) - 1
    # Rows are the axis that becomes the last one, columns the axis that is it now.
    if (
        not axes
        or axes[-1] == last
        or not blocks_fit(sizes[axes[-1]], sizes[last])
        or len(sizes) > BLOCK_LOOPS + 2
    ):
        return select_move(layer)
    row = axes[-1]
    others = [
        Loop(sizes[axis], steps[axis], goes[axis]) for axis in axes if axis not in (row, last)
    ]
    loops = others or [Loop(1, 0, 0)]
    shared = next((i for i, loop in enumerate(loops) if not certainly(loop.count, 1)), 0)
    turns = loops[shared]
    by_columns = certainly(turns.count, 1)

    def part(first: SizeLike, count: SizeLike) -> KernelCall:
        """The call for some of the turns of the outermost loop that has more than one, or for some
        of the columns of the only matrix.
        """
        apart = (4, goes[last]) if by_columns else (turns.source, turns.target)
        own = replace(turns, count=count)
        some = loops if by_columns else [*loops[:shared], own, *loops[shared + 1 :]]
        return transpose_call(
            width,
            In(0, first * apart[0]),
            Out(0, first * apart[1]),
            some,
            (sizes[row], steps[row]),
            (count if by_columns else sizes[last], goes[last]),
        )

    width = layer.target.lanes
    side = min(
        [
            width,
            *(1 << (n.bit_length() - 1) for n in (sizes[row], sizes[last]) if isinstance(n, int)),
        ]
    )
    cost = nanoseconds(product(sizes), 1 / 6)
    if by_columns:
        return shared_call(part, [(sizes[last], max(side, _SHARED))], cost, whole=True)
    return shared_call(part, turns.count, cost)


def _merged(sizes: Sequence[SizeLike], axes: Sequence[int]) -> tuple[list[SizeLike], list[int]]:
    """The sizes and the order of a transpose without axes of size 1, and with axes that stay
    neighbours as one.
    """
    groups: list[list[int]] = []
    kept = [axis for axis in range(len(sizes)) if not certainly(sizes[axis], 1)]
    for axis in (axis for axis in axes if not certainly(sizes[axis], 1)):
        follows = groups and kept.index(axis) == kept.index(groups[-1][-1]) + 1
        if follows:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    in_order = sorted(groups)
    return [product(sizes[axis] for axis in group) for group in in_order], [
        in_order.index(group) for group in groups
    ]
