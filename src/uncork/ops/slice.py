"""Slice-8: a region of `data`, by Python's `data[start:stop:step]` along some axes.

Page: operation-specs/movement/slice-8. Beyond the page: the integer types of the bounds may differ,
as converters write them.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.slices import sliced_shape, slices
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Input
from uncork.types import Array, PartialShape, TensorSpec


@register("Slice", 8)
class Slice8(Moving):
    """`start`, `stop`, `step` and `axes` are 1-D and of one length; without `axes` they are for the
    first axes.
    """

    start = Input(INTEGER)
    stop = Input(INTEGER)
    step = Input(INTEGER)
    axes = Input(INTEGER, optional=True)

    def infer(
        self,
        data: TensorSpec,
        start: TensorSpec,
        stop: TensorSpec,
        step: TensorSpec,
        axes: TensorSpec | None,
    ) -> PartialShape:
        return sliced_shape(self, data, start, stop, step, axes)

    def reference(
        self, data: Array, start: Array, stop: Array, step: Array, axes: Array | None
    ) -> Array:
        return np.array(data[slices(data.ndim, start, stop, step, axes)], order="C")
