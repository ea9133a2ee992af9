"""Bucketize-3: which of the buckets between given boundaries each element lies in.

    with_right_bound:  output = the number of boundaries < data          bucket k is (b[k-1], b[k]]
    else:              output = the number of boundaries <= data         bucket k is [b[k-1], b[k))

Page: operation-specs/condition/bucketize-3. Numbers of different types are compared exactly. NaN
lies in the last bucket. The page wants sorted and unique boundaries: unsorted ones and NaN are
refused, repeated ones only with `strict`.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.shapes import require_rank
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    NUMERIC,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
)
from uncork.types import Array, TensorSpec


def refuse_unsorted(operation: Operation, name: str, values: Array, unique: bool = False) -> None:
    """Refuse a call when values along the last axis decrease, or come twice and must not; NaN
    counts as the greatest value.
    """
    before, after = values[..., :-1], values[..., 1:]
    ordered = before < after if unique else (before <= after) | (after != after)
    wrong = np.zeros(values.shape, bool)
    wrong[..., 1:] = ~ordered
    refuse_first(
        operation,
        name,
        values,
        wrong,
        "more than the one before it" if unique else "at least the one before it",
    )


@register("Bucketize", 3)
class Bucketize3(Operation):
    """`data` of any shape, `buckets [n]`."""

    data = Input(NUMERIC)
    buckets = Input(NUMERIC)
    output = Output()
    output_type = index_type()
    with_right_bound = Attribute(boolean, default=True)

    def infer(self, data: TensorSpec, buckets: TensorSpec) -> TensorSpec:
        require_rank(self, "buckets", buckets, 1)
        return TensorSpec(self.output_type, data.shape)

    def reference(self, data: Array, buckets: Array) -> Array:
        refuse_first(self, "buckets", buckets, buckets != buckets, "a number")
        refuse_unsorted(self, "buckets", buckets, unique=self.strict)
        unordered = data != data  # NaN
        # A search begins where the one before it ended, which must not be at a NaN.
        data = np.where(unordered, data.dtype.type(0), data)
        if data.dtype.kind != buckets.dtype.kind:
            # NumPy would compare 64-bit integers with floats, or with integers of the other sign,
            # as floats.
            data, buckets = data.astype(object), buckets.astype(object)
        found = np.searchsorted(buckets, data, "left" if self.with_right_bound else "right")
        return np.where(unordered, len(buckets), found)
