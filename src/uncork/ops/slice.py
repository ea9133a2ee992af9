"""Slice-8: a region of `data`, by Python's `data[start:stop:step]` along some axes.

Page: operation-specs/movement/slice-8. Beyond the page: the integer types of the bounds may differ, as converters write them.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, INTEGER, Input, Output
from uncork.ops._slices import sliced
from uncork.ops._vectors import all_known, common_length, known_axes, vector
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("Slice", 8)
class Slice8(Operation):
    """`start`, `stop`, `step` and `axes` are 1-D and of one length; without `axes` they are for the first axes."""

    data = Input(ANY, "T", moved=True)
    start = Input(INTEGER)
    stop = Input(INTEGER)
    step = Input(INTEGER)
    axes = Input(INTEGER, optional=True)
    output = Output("T")

    def infer(self, data: TensorSpec, start: TensorSpec, stop: TensorSpec, step: TensorSpec, axes: TensorSpec | None) -> PartialShape:
        named = {"start": start, "stop": stop, "step": step} | ({} if axes is None else {"axes": axes})
        numbers = {name: vector(self, name, spec) for name, spec in named.items()}
        count = common_length(self, named)
        self.require(0 not in (numbers["step"] or []), "input 'step': expected steps other than 0, got {}", numbers["step"])
        self.require(data.rank != 0, "input 'data': expected at least one dimension, got a scalar")
        if data.rank is None:
            return PartialShape()
        self.require(count.low <= data.rank, "expected at most one slice for each dimension of data {}, got {}", data.shape, count)
        if axes is not None:
            along = all_known(known_axes(self, numbers["axes"], data.rank))
        else:
            along = list(range(count.low)) if count.is_static else None
        if along is None:
            return PartialShape([Dimension(0, d.high) for d in data.shape])
        dims = list(data.shape)
        bounds = [numbers[name] or [None] * len(along) for name in ("start", "stop", "step")]
        for axis, first, end, by in zip(along, *bounds):
            dims[axis] = sliced(dims[axis], first, end, by)
        return PartialShape(dims)

    def reference(self, data: Array, start: Array, stop: Array, step: Array, axes: Array | None) -> Array:
        index = [slice(None)] * data.ndim
        for i, axis in enumerate(range(len(start)) if axes is None else axes):
            index[int(axis)] = slice(int(start[i]), int(stop[i]), int(step[i]))
        return np.array(data[tuple(index)], order="C")
