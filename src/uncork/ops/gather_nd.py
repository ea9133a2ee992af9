"""GatherND-5, -8: slices of `data` picked by tuples of indices.

    output[b.., i.., q..] = data[b.., indices[b.., i.., 0], .., indices[b.., i.., K - 1], q..]

K is the last dimension of `indices`; b.. are the `batch_dims` leading dimensions of both inputs,
where a 1 stretches.

Pages: operation-specs/movement/gather-nd-5, -8. GatherND-5 joins all batch dimensions into one
output dimension. Beyond the pages: a negative index counts from the end in version 5 too; an index
that is outside is refused; K may be 0 (whole batches).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.broadcast import broadcast_dimension
from uncork.ops._common.vectors import places
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, at_least, integer
from uncork.types import DYNAMIC, Array, PartialShape, TensorSpec


@register("GatherND", 8)
class GatherND8(Moving):
    """Keeps the batch dimensions apart."""

    indices = Input(INTEGER, ids=True)
    batch_dims = Attribute(integer, default=0, check=at_least(0))

    def joined(self, batch: PartialShape) -> PartialShape:
        """The batch dimensions of the output, from those of the inputs."""
        return batch

    def infer(self, data: TensorSpec, indices: TensorSpec) -> PartialShape:
        batch = self.batch_dims
        for name, spec in (("data", data), ("indices", indices)):
            self.require(
                spec.rank != 0, "input '{}': expected at least one dimension, got a scalar", name
            )
            self.require(
                spec.rank is None or batch < spec.rank,
                "batch_dims {} is not below the rank of '{}' {}",
                batch,
                name,
                spec.shape,
            )
        size = None if indices.rank is None else indices.shape[-1].static_size
        if data.rank is None or size is None:
            return PartialShape()
        self.require(
            batch + size <= data.rank,
            "batch_dims {} and {} indices a tuple go past the rank of 'data' {}: indices {}",
            batch,
            size,
            data.shape,
            indices.shape,
        )
        stretched = [
            broadcast_dimension(a, b)
            for a, b in zip(data.shape[:batch], indices.shape[:batch], strict=True)
        ]
        self.require(
            None not in stretched,
            "the first {} dimensions (batch_dims) must be equal or 1: data {}, indices {}",
            batch,
            data.shape,
            indices.shape,
        )
        return (
            self.joined(PartialShape([d or DYNAMIC for d in stretched]))
            + indices.shape[batch:-1]
            + data.shape[batch + size :]
        )

    def reference(self, data: Array, indices: Array) -> Array:
        batch, size = self.batch_dims, indices.shape[-1]
        lead = np.broadcast_shapes(data.shape[:batch], indices.shape[:batch])
        rest = data.shape[batch + size :]
        place = places(
            self, "indices", indices, np.array(data.shape[batch : batch + size], np.int64)
        )
        data = np.broadcast_to(data, lead + data.shape[batch:])
        place = np.broadcast_to(place, lead + place.shape[batch:])
        output = np.empty(lead + indices.shape[batch:-1] + rest, data.dtype)
        for row in np.ndindex(*lead):
            tuples = place[row]
            here = (*row, ...)  # with the ellipsis a single element is still an array
            output[here] = data[row][tuple(tuples[..., k] for k in range(size))]
        return output.reshape(self.joined(PartialShape(lead)).static + output.shape[batch:])


@register("GatherND", 5)
class GatherND5(GatherND8):
    """Joins the batch dimensions into one."""

    def joined(self, batch: PartialShape) -> PartialShape:
        return PartialShape([batch.size]) if len(batch) else batch
