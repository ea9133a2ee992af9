"""Selection of the kernel that transposes blocks in registers, where the last axis of 32-bit
numbers moves.

Every other transposition moves runs of neighbours, as `select_copy_table` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import certainly, extents, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    Out,
    Selection,
)
from uncork.kernels.layer import Layer
from uncork.kernels.movement.nd_copy import Loop
from uncork.kernels.movement.select_copy_table import select_move
from uncork.kernels.movement.shared_moves import shared_move
from uncork.kernels.movement.spec import BLOCK_LOOPS
from uncork.kernels.movement.transpose import blocks_fit, transpose_call
from uncork.ops.transpose import order_of
from uncork.symbolic import SizeLike


def select_transpose(layer: Layer) -> Selection:
    data, order = layer.input(0), layer.input(1)
    if data.element_type.dtype.itemsize != 4 or order.value is None or is_empty(extents(data)):
        return select_move(layer)
    sizes, axes = _merged(extents(data), order_of(order.value, len(extents(data))))
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
    loops = [Loop(sizes[axis], steps[axis], goes[axis]) for axis in axes if axis not in (row, last)]
    rows, columns = (sizes[row], steps[row]), (sizes[last], goes[last])
    call = transpose_call(layer.target.lanes, In(0), Out(0), loops, rows, columns)
    return shared_move(call, nanoseconds(product(sizes), 1 / 6))


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
