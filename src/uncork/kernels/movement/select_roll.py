"""Which strided copies roll a tensor along its axes, for open sizes as well."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from uncork.kernels.extents import certainly, elements_of, extents, is_empty, largest, smallest
from uncork.kernels.movement.looks import Stretch, parts
from uncork.kernels.movement.nd_copy import Copy
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: Each axis that is rolled doubles the copies: at most so many axes.
_MOST_AXES = 3


def roll_copies(
    operation: Operation, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> list[Copy] | None:
    """The copies of Roll: the two parts of each axis that is rolled change places."""
    shape = extents(inputs[0])
    moved = _shifts(operation, inputs, len(shape))
    if moved is None or len(moved) > _MOST_AXES:
        return None
    element = inputs[0].element_type.dtype.itemsize
    stretches = [
        _parts(size, moved[axis]) if axis in moved else [Stretch(size, 0, 0)]
        for axis, size in enumerate(shape)
    ]
    some = (chosen for chosen in combinations(*stretches) if not is_empty(s.count for s in chosen))
    return parts(some, shape, shape, element)


def _shifts(
    operation: Operation, inputs: Sequence[TensorSpec], rank: int
) -> dict[int, SizeLike] | None:
    """The number of places by which each axis is rolled; None where the shifts or axes are known at
    the call only.
    """
    shifts, axes = elements_of(inputs[1]), inputs[2].integers()
    if shifts is None or axes is None:
        return None
    moved: dict[int, SizeLike] = {}
    for by, axis in zip(shifts * len(axes) if len(shifts) == 1 else shifts, axes, strict=True):
        if axis is None:
            return None
        along = normalised_axis(operation, axis, rank)
        moved[along] = moved.get(along, 0) + by
    return moved


def _parts(size: SizeLike, by: SizeLike) -> list[Stretch]:
    """The two parts of an axis."""
    if certainly(size, 0):
        return [Stretch(0, 0, 0)]
    # Of an axis that turns out to be empty nothing is moved.
    turned = smallest(by % largest(size, 1), size)
    return [Stretch(size - turned, turned, 0), Stretch(turned, 0, size - turned)]
