"""GatherElements-6: one element of `data` for each element of `indices`, along one axis.

    output[i, j, k] = data[indices[i, j, k], j, k]        axis 0; likewise for the others

Page: operation-specs/movement/gather-elements-6. Beyond the page: a negative index counts from the
end; an index that is outside the axis is refused, since the page gives it no value.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.vectors import places
from uncork.ops._operation import Moving, register
from uncork.ops._ports import I32_I64, Attribute, Input, integer
from uncork.types import DYNAMIC, Array, PartialShape, TensorSpec


@register("GatherElements", 6)
class GatherElements6(Moving):
    """`data` and `indices` of one rank, and of equal dimensions but for `axis`."""

    indices = Input(I32_I64, ids=True)
    axis = Attribute(integer)

    def infer(self, data: TensorSpec, indices: TensorSpec) -> PartialShape:
        rank = indices.rank if data.rank is None else data.rank
        if rank is None:
            return PartialShape()
        self.require(rank > 0, "input 'data' is a scalar: there is no axis to gather along")
        self.require(
            indices.rank in (None, rank),
            "inputs must have one rank: data {}, indices {}",
            data.shape,
            indices.shape,
        )
        along = normalised_axis(self, self.axis, rank)
        limits = (
            PartialShape([None] * rank)
            if data.rank is None
            else data.shape.with_dimension(along, DYNAMIC)
        )
        return self.wanted(
            limits.merge(indices.shape),
            "dimensions must be equal but for axis {}: data {}, indices {}",
            along,
            data.shape,
            indices.shape,
        )

    def reference(self, data: Array, indices: Array) -> Array:
        along = self.axis % data.ndim
        place = places(self, "indices", indices, data.shape[along])
        return np.take_along_axis(data, place, along)
