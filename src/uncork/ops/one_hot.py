"""OneHot-1, -16: a new axis on which one place has another value than the rest.

    output[.., i, ..] = on_value if indices[.., ..] == i else off_value
                        i from 0 to depth - 1 along `axis`

Pages: operation-specs/sequence/one-hot-1, -16. An index of `depth` or more gives off_value
everywhere; so does a negative one, which version 1 leaves undefined (refused with `strict`), unless
version 16 has negative_indices_mode normalize. That version's page writes ignore-negative, files
ignore_negative; both are read.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis, refuse_first
from uncork.ops._common.shapes import require_rank
from uncork.ops._common.vectors import count
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, INTEGER, Attribute, Input, Kind, Output, integer
from uncork.types import Array, Dimension, PartialShape, TensorSpec

_MODES = {
    "ignore_negative": "ignore_negative",
    "ignore-negative": "ignore_negative",
    "normalize": "normalize",
}


@register("OneHot", 1)
class OneHot1(Operation):
    """`indices` of any shape; `depth`, `on_value`, `off_value` scalars."""

    indices = Input(INTEGER)
    depth = Input(INTEGER)
    on_value = Input(ANY, "T", moved=True)
    off_value = Input(ANY, "T", moved=True)
    output = Output("T")
    axis = Attribute(integer)

    def infer(
        self, indices: TensorSpec, depth: TensorSpec, on_value: TensorSpec, off_value: TensorSpec
    ) -> PartialShape:
        for name, spec in (("depth", depth), ("on_value", on_value), ("off_value", off_value)):
            require_rank(self, name, spec, 0)
        classes = Dimension.of(count(self, "depth", depth))
        if indices.rank is None:
            return PartialShape()
        along = normalised_axis(self, self.axis, indices.rank + 1)
        return PartialShape([*indices.shape[:along], classes, *indices.shape[along:]])

    def reference(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        along = self.axis % (indices.ndim + 1)
        place = self.places(indices, int(depth))
        classes = np.arange(int(depth)).reshape((-1,) + (1,) * (indices.ndim - along))
        return np.where(np.expand_dims(place, along) == classes, on_value, off_value)

    def places(self, indices: Array, depth: int) -> Array:
        """The place of each index on the new axis. A negative place is none; u64 indices that
        become negative are too large in any case.
        """
        if self.strict:
            refuse_first(self, "indices", indices, indices < 0, "at least 0", 0)
        return indices.astype(np.int64)


@register("OneHot", 16)
class OneHot16(OneHot1):
    """With a choice for negative indices: no place at all, or counted from the end."""

    negative_indices_mode = Attribute(
        Kind("ignore_negative or normalize", lambda t: _MODES[t.strip().lower()], str),
        default="ignore_negative",
    )

    def places(self, indices: Array, depth: int) -> Array:
        wide = indices.astype(np.int64)
        if self.negative_indices_mode == "ignore_negative":
            return wide
        return np.where(indices < 0, wide + depth, wide)
