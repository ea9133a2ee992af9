"""ScatterUpdate-3: `data` with the slices that `indices` name along `axis` replaced by `updates`.

    output[p.., indices[i..], q..] = updates[p.., i.., q..]

Page: operation-specs/movement/scatter-update-3. Negative indices are refused, as it says. When a
slice is named twice the update that comes later in row-major order counts (the page leaves the
order open).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import axis_along, places
from uncork.ops._operation import Moving, register
from uncork.ops._ports import ANY, INTEGER, Input
from uncork.types import Array, PartialShape, TensorSpec


@register("ScatterUpdate", 3)
class ScatterUpdate3(Moving):
    """`data [d0, d1, ...]`, `indices` of any rank, `updates`, `axis [] or [1]`."""

    indices = Input(INTEGER)
    updates = Input(ANY, "T", moved=True)
    axis = Input(INTEGER)

    def infer(
        self, data: TensorSpec, indices: TensorSpec, updates: TensorSpec, axis: TensorSpec
    ) -> PartialShape:
        along = axis_along(self, data, axis, "scatter")
        if data.rank is not None and indices.rank is not None:
            expected = PartialShape([None] * (data.rank - 1 + indices.rank))
            if along is not None:
                expected = data.shape[:along] + indices.shape + data.shape[along + 1 :]
            self.require(
                expected.agrees(updates.shape),
                "input 'updates': expected shape {} (axis {}), got {}",
                expected,
                along,
                updates.shape,
            )
        return data.shape

    def reference(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        along = int(axis.reshape(-1)[0]) % data.ndim
        place = places(self, "indices", indices, data.shape[along], from_end=False)
        output: Array = data.copy()
        front = np.moveaxis(output, along, 0)
        moved = np.moveaxis(updates, range(along, along + indices.ndim), range(indices.ndim))
        front[place] = moved
        return output
