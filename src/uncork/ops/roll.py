"""Roll-7: elements shifted along axes; what leaves at one end comes in at the other.

    output[(i + shift) mod size] = data[i]
        along each axis; shifts of an axis that is named again add up

Page: operation-specs/movement/roll-7. One shift counts for every axis, as a scalar or as one
element.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.shapes import is_one_of
from uncork.ops._common.vectors import known_axes, length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import I32_I64, Input
from uncork.types import Array, PartialShape, TensorSpec


@register("Roll", 7)
class Roll7(Moving):
    """`shift` and `axes` are scalars or 1-D."""

    shift = Input(I32_I64)
    axes = Input(I32_I64)

    def infer(self, data: TensorSpec, shift: TensorSpec, axes: TensorSpec) -> PartialShape:
        vector(self, "shift", shift, scalar_too=True)
        numbers = vector(self, "axes", axes, scalar_too=True)
        self.require(
            is_one_of(length(shift), 1, length(axes)),
            "expected one shift, or one for each axis: shift {}, axes {}",
            shift.shape,
            axes.shape,
        )
        if data.rank is not None:
            known_axes(self, numbers, data.rank, unique=False)
        return data.shape

    def reference(self, data: Array, shift: Array, axes: Array) -> Array:
        output = data
        shifts = np.broadcast_to(shift.reshape(-1), axes.size)
        for by, axis in zip(map(int, shifts), map(int, axes.reshape(-1)), strict=True):
            size = data.shape[axis]
            output = output.take((np.arange(size) - by % max(size, 1)) % max(size, 1), axis)
        return output
