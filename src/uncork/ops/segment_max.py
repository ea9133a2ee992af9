"""SegmentMax-16: the largest element of each segment of rows.

    output[s, ..] = the maximum of data[i, ..] over all i with segment_ids[i] == s

Page: operation-specs/arithmetic/segment-max-16. Segments from num_segments on are left out;
segments without rows get 0 or, with fill_mode LOWEST, the lowest finite value of the type. NaN is
the maximum of whatever it is in. Ids that are negative or not sorted are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.shapes import require_rank
from uncork.ops._common.vectors import count
from uncork.ops._operation import OfNumbers, register
from uncork.ops._ports import I32_I64, Attribute, Field, Input, one_of
from uncork.ops.bucketize import refuse_unsorted
from uncork.storage import decode
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec


@register("SegmentMax", 16)
class SegmentMax16(OfNumbers):
    """`data [n, ..]`, `segment_ids [n]`, and optionally `num_segments []`."""

    segment_ids = Input(I32_I64, ids=True)
    num_segments = Input(I32_I64, optional=True, ids=True)
    fill_mode = Attribute(one_of("zero", "lowest"))
    #: The element type of data, which `reference` needs: it is handed f16 and bf16 as f32.
    data_type = Field[ElementType]()

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        data = specs[0] if specs else None
        known = self if data is None else self.replace(data_type=data.element_type)
        return super(SegmentMax16, known).evaluate(specs)

    def infer(
        self, data: TensorSpec, segment_ids: TensorSpec, num_segments: TensorSpec | None
    ) -> PartialShape:
        require_rank(self, "segment_ids", segment_ids, 1)
        self.require(data.rank != 0, "input 'data' is a scalar: it has no rows")
        self.require(
            data.rank is None
            or segment_ids.rank is None
            or data.shape[0].agrees(segment_ids.shape[0]),
            "input 'segment_ids': expected an id for each row of data {}, got shape {}",
            data.shape,
            segment_ids.shape,
        )
        segments = DYNAMIC
        if num_segments is not None:
            require_rank(self, "num_segments", num_segments, 0)
            segments = Dimension.of(count(self, "num_segments", num_segments))
        elif segment_ids.value is not None:
            segments = Dimension.of(max(0, int(segment_ids.value.max(initial=-1)) + 1))
        return PartialShape() if data.rank is None else PartialShape([segments]) + data.shape[1:]

    def reference(self, data: Array, segment_ids: Array, num_segments: Array | None) -> Array:
        refuse_first(self, "segment_ids", segment_ids, segment_ids < 0, "at least 0", 0)
        refuse_unsorted(self, "segment_ids", segment_ids)
        count = int(segment_ids.max(initial=-1)) + 1 if num_segments is None else int(num_segments)
        kept = segment_ids < count
        output = np.full(
            (count, *data.shape[1:]),
            -math.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).min,
            data.dtype,
        )
        np.maximum.at(output, segment_ids[kept], data[kept])
        empty = np.bincount(segment_ids[kept], minlength=count) == 0
        output[empty] = 0 if self.fill_mode == "zero" else lowest(self.data_type)
        return output


def lowest(element_type: ElementType) -> float:
    """The lowest finite value of a type."""
    if element_type is ElementType.bf16:
        return float(decode(np.array(0xFF7F, np.uint16), element_type))
    if element_type.is_float:
        return float(np.finfo(element_type.dtype).min)
    return int(np.iinfo(element_type.dtype).min)
