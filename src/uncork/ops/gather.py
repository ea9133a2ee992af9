"""Gather-1, -7, -8: slices of `data` along `axis`, picked by `indices` (the embedding lookup).

    output[p.., i_b.., q..] = data[p.., indices[p_0..p_{b-1}, i_b..], q..]        b = batch_dims

Pages: operation-specs/movement/gather-1, -7, -8. What the pages leave open is decided in the
project's decisions: an index that is still outside the axis after counting from the end gives zeros
("" for strings), for every type and size; Gather-1 and -7 do not count from the end, so there every
negative index gives zeros. With `strict` both are refused.

One exception, for the models that exist: converters write one constant index of -1 or -2 into
Gather-7 to mean the last dimensions of a shape, and OpenVINO makes exactly that (a constant with
one negative element, along an axis whose size is known at load) count from the end before it runs
anything. Such a node counts from the end here too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ops._common.indices import normalised_axis, refuse_first
from uncork.ops._common.shapes import require_one
from uncork.ops._operation import Moving, Operation, register
from uncork.ops._ports import INTEGER, Attribute, Field, Input, integer
from uncork.types import Array, PartialShape, TensorSpec


class Gather(Moving):
    """The base of all versions: `data [d0, d1, ...]`, `indices` of any integer type and rank, `axis
    [] or [1]`.
    """

    indices = Input(INTEGER, ids=True)
    axis = Input(INTEGER)
    fills = True
    #: A negative index counts from the end of the axis.
    counts_from_end = Field(False)

    def batch_count(self, indices_rank: int) -> int:
        """The number of batch dimensions: `batch_dims`, counted from the front."""
        return 0

    def infer(self, data: TensorSpec, indices: TensorSpec, axis: TensorSpec) -> PartialShape:
        require_one(self, "axis", axis)
        if data.rank is None or indices.rank is None:
            return PartialShape()
        self.require(data.rank > 0, "input 'data' is a scalar: there is no axis to gather along")
        batch = self.batch_count(indices.rank)
        limit = min(data.rank, indices.rank)
        self.require(
            0 <= batch <= limit,
            "batch_dims {} is outside 0..{} for data {} and indices {}",
            batch,
            limit,
            data.shape,
            indices.shape,
        )
        lead = self.wanted(
            data.shape[:batch].merge(indices.shape[:batch]),
            "the first {} dimensions (batch_dims) must be equal: data {}, indices {}",
            batch,
            data.shape,
            indices.shape,
        )
        if axis.value is None:
            return PartialShape([None] * (data.rank - 1 + indices.rank - batch))
        along = normalised_axis(self, int(axis.value.reshape(-1)[0]), data.rank)
        self.require(
            batch <= along,
            "axis {} lies within the first {} dimensions (batch_dims) of data {}",
            along,
            batch,
            data.shape,
        )
        return (
            PartialShape(lead)
            + data.shape[batch:along]
            + indices.shape[batch:]
            + data.shape[along + 1 :]
        )

    def specialised(self, specs: Sequence[TensorSpec | None]) -> Operation:
        if len(specs) != 3:
            return self
        data, indices, axis = specs
        if (
            self.counts_from_end
            or data is None
            or indices is None
            or axis is None
            or indices.value is None
            or axis.value is None
        ):
            return self
        if (
            indices.value.size != 1
            or indices.value.reshape(-1)[0] >= 0
            or axis.value.size != 1
            or data.rank is None
        ):
            return self
        along = int(axis.value.reshape(-1)[0])
        if not -data.rank <= along < data.rank or not data.shape[along].is_static:
            return self
        return self.replace(counts_from_end=True)

    def reference(self, data: Array, indices: Array, axis: Array, blank: object) -> Array:
        along = int(axis.reshape(-1)[0]) % data.ndim
        batch = self.batch_count(indices.ndim)
        size = data.shape[along]
        place = np.asarray(indices)
        if self.counts_from_end and indices.dtype.kind == "i":
            wide = indices.astype(np.int64)
            place = np.where(wide < 0, wide + size, wide)
        inside = (place >= 0) & (place < size)
        if self.strict:
            lowest = -size if self.counts_from_end else 0
            refuse_first(
                self, "indices", indices, ~inside, f"{lowest} to {size - 1}", lowest, size - 1
            )
        lead, middle, tail = data.shape[:batch], data.shape[batch:along], data.shape[along + 1 :]
        output = np.full(lead + middle + indices.shape[batch:] + tail, blank, data.dtype)
        for row in np.ndindex(*lead):
            here = (*row, ...)  # with the ellipsis a single element is still an array
            kept = inside[here]
            target = (slice(None),) * len(middle) + (kept,)
            output[here][target] = data[here].take(
                place[here][kept].astype(np.int64), axis=len(middle)
            )
        return output


@register("Gather", 1)
class Gather1(Gather):
    """Without batches; a negative index gives zeros."""


@register("Gather", 7)
class Gather7(Gather):
    """With batches; a negative index gives zeros."""

    batch_dims = Attribute(integer, default=0)

    def batch_count(self, indices_rank: int) -> int:
        return self.batch_dims + indices_rank if self.batch_dims < 0 else self.batch_dims


@register("Gather", 8)
class Gather8(Gather7):
    """With batches; a negative index counts from the end."""

    counts_from_end = Field(True)
