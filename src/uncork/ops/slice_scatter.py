"""SliceScatter-15: `data` with the slice `start:stop:step` along `axes` replaced by `updates`.

Page: operation-specs/movement/slice-scatter-15. `updates` has exactly the shape of the slice;
nothing is broadcast.
"""

from __future__ import annotations

from uncork.ops._common.slices import sliced_shape, slices
from uncork.ops._operation import Moving, register
from uncork.ops._ports import ANY, INTEGER, Input
from uncork.types import Array, PartialShape, TensorSpec


@register("SliceScatter", 15)
class SliceScatter15(Moving):
    """`start`, `stop`, `step` and `axes` as in Slice-8."""

    updates = Input(ANY, "T", moved=True)
    start = Input(INTEGER)
    stop = Input(INTEGER)
    step = Input(INTEGER)
    axes = Input(INTEGER, optional=True)

    def infer(
        self,
        data: TensorSpec,
        updates: TensorSpec,
        start: TensorSpec,
        stop: TensorSpec,
        step: TensorSpec,
        axes: TensorSpec | None,
    ) -> PartialShape:
        hole = sliced_shape(self, data, start, stop, step, axes)
        self.require(
            hole.agrees(updates.shape),
            "input 'updates': expected the shape of the slice {}, got {}",
            hole,
            updates.shape,
        )
        return data.shape

    def reference(
        self,
        data: Array,
        updates: Array,
        start: Array,
        stop: Array,
        step: Array,
        axes: Array | None,
    ) -> Array:
        output: Array = data.copy()
        output[slices(data.ndim, start, stop, step, axes)] = updates
        return output
