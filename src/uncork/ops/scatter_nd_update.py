"""ScatterNDUpdate-4, -15: `data` with the slices that tuples of indices name replaced by `updates`,
or joined with them.

    output[indices[i.., 0], .., indices[i.., K - 1], q..] = reduction(.., updates[i.., q..])
        K = indices.shape[-1]

Pages: operation-specs/movement/scatter-nd-update-3 (in the operation sets from opset4 on), -15. The
first only replaces, and refuses negative indices, as its page says; in version 15 they count from
the end. Where the pages are silent: updates are taken in row-major order, so the last one stays; K
may be 0 (everything).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.scatter import Reducing, accumulate
from uncork.ops._common.vectors import places
from uncork.ops._operation import Moving, register
from uncork.ops._ports import ANY, I32_I64, Attribute, Input, one_of
from uncork.types import Array, PartialShape, TensorSpec


class _Tuples(Moving):
    indices = Input(I32_I64)
    updates = Input(ANY, "T", moved=True)
    counts_from_end = False

    def infer(self, data: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> PartialShape:
        for name, spec in (("data", data), ("indices", indices)):
            self.require(
                spec.rank != 0, "input '{}': expected at least one dimension, got a scalar", name
            )
        size = None if indices.rank is None else indices.shape[-1].static_size
        if data.rank is None or size is None:
            return data.shape
        self.require(
            size <= data.rank,
            "expected at most {} indices a tuple (data {}), got indices {}",
            data.rank,
            data.shape,
            indices.shape,
        )
        expected = indices.shape[:-1] + data.shape[size:]
        single = len(expected) == 0 and updates.shape.size.agrees(1)
        self.require(
            single or expected.agrees(updates.shape),
            "input 'updates': expected shape {}, got {}",
            expected,
            updates.shape,
        )
        return data.shape

    def scattered(self, data: Array, indices: Array, updates: Array, reduction: str) -> Array:
        """The output: `data` with the slices that `indices` name replaced by `updates`, or reduced
        with them.
        """
        size = indices.shape[-1]
        place = places(
            self, "indices", indices, np.array(data.shape[:size], np.int64), self.counts_from_end
        )
        output: Array = data.copy()
        # A leading axis of 1 makes an index of K + 1 places, so that K = 0 is no special case.
        index = (np.zeros(indices.shape[:-1], np.int64), *np.moveaxis(place, -1, 0))
        accumulate(
            output[None], index, updates.reshape(indices.shape[:-1] + data.shape[size:]), reduction
        )
        return output

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        return self.scattered(data, indices, updates, "none")


@register("ScatterNDUpdate", 4)
class ScatterNDUpdate4(_Tuples):
    """Replaces slices."""


class _Overwriting(_Tuples):
    counts_from_end = True


@register("ScatterNDUpdate", 15)
class ScatterNDUpdate15(Reducing, _Tuples):
    """Replaces or reduces."""

    reduction = Attribute(one_of("none", "sum", "sub", "prod", "min", "max"), default="none")
    overwriting = _Overwriting

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        return self.scattered(data, indices, updates, self.reduction)
