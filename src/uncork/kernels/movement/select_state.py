"""Selection of strided copies that append to the storage of a variable, or read its value."""

from __future__ import annotations

from uncork.internal_ops.appended_state import AppendState, StateValue
from uncork.kernels.extents import certainly, nanoseconds, product
from uncork.kernels.kernel_plan import (
    Alias,
    Extends,
    In,
    KernelPlan,
    Out,
    Selection,
)
from uncork.kernels.layer import Layer
from uncork.kernels.movement.nd_copy import Loop, nd_copy
from uncork.kernels.movement.shared_moves import shared_move


def select_append(layer: Layer) -> Selection:
    """Select the copy of new elements behind the old ones, row by row of the axes before."""
    axis, element = layer.of(AppendState).axis, layer.input(2).element_type.dtype.itemsize
    shape, added = layer.shape(0), layer.shape(2)
    before = layer.number(1, "the length is")
    line = product(shape[axis + 1 :]) * element
    run = line * added[axis]
    call = nd_copy(
        In(2), Out(0, line * before), [Loop(product(added[:axis]), run, line * shape[axis])], run
    )
    needed = (*added[:axis], before + added[axis], *added[axis + 1 :])
    return KernelPlan(
        call[0].name,
        [call],
        cost=nanoseconds(product(added) * element, 1 / 8),
        extends=Extends(0, needed),
    )


def select_value(layer: Layer) -> Selection:
    """Select the copy of a variable's value from its storage; an alias of the storage where the
    value lies at its beginning without gaps.
    """
    axis, element = layer.of(StateValue).axis, layer.input(0).element_type.dtype.itemsize
    shape, value = layer.shape(0), layer.result()
    if all(certainly(size, 1) for size in shape[:axis]):
        return Alias(0)
    line = product(shape[axis + 1 :]) * element
    rows, run, step = product(shape[:axis]), line * value[axis], line * shape[axis]
    call = nd_copy(In(0), Out(0), [Loop(rows, step, run)], run)
    return shared_move(call, nanoseconds(product(value) * element, 1 / 8))
