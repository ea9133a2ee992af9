"""EmbeddingSegmentsSum-3: sums of embeddings by segment, every position naming the segment that it
belongs to.

    output[s] = sum of per_sample_weights[i] * emb_table[indices[i]]
                over all i with segment_ids[i] == s

A segment that no position names is the row `default_index`, unweighted, or zeros; one whose weights
are all 0 is not empty.

Page: operation-specs/sparse/embedding-segments-sum-3. Where it is silent or vague:
- Segment ids "should be sorted": the sum is right in any order; with `strict` unsorted ids are
  refused.
- A segment id outside 0 .. num_segments - 1 is refused, never dropped.
- A default of -1 means zeros, as for EmbeddingBagOffsetsSum: the file has no other way to give
  weights without a default.
- A wrong default is refused when a segment is empty and needs it.
- `num_segments` may be known at run time only; a negative one is refused, 0 gives an empty result.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.embedding import Embedding, below
from uncork.ops._common.indices import refuse_first
from uncork.ops._common.vectors import size
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, I32_I64, Input
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("EmbeddingSegmentsSum", 3)
class EmbeddingSegmentsSum3(Embedding):
    """`emb_table [E, d...]`, `indices [N]`, `segment_ids [N]`, `num_segments []`, `default_index
    []`, `per_sample_weights [N]`.
    """

    segment_ids = Input(I32_I64, "T_IND", ids=True)
    num_segments = Input(I32_I64, "T_IND", ids=True)
    default_index = Input(I32_I64, "T_IND", optional=True, ids=True)
    per_sample_weights = Input(ARITHMETIC, "T", optional=True)

    def infer(
        self,
        emb_table: TensorSpec,
        indices: TensorSpec,
        segment_ids: TensorSpec,
        num_segments: TensorSpec,
        default_index: TensorSpec | None = None,
        per_sample_weights: TensorSpec | None = None,
    ) -> PartialShape:
        self.check_ranks(
            1, indices=indices, segment_ids=segment_ids, per_sample_weights=per_sample_weights
        )
        self.check_ranks(0, num_segments=num_segments, default_index=default_index)
        self.check_one_each(indices, segment_ids=segment_ids)
        self.check_weights(indices, per_sample_weights)
        numbers = num_segments.integers()
        count = numbers[0] if numbers else None
        if count is None:
            return self.rows(Dimension.of(size(self, "num_segments", num_segments)), emb_table)
        self.require(count >= 0, "input 'num_segments': expected 0 or more, got {}", count)
        shape = self.rows(Dimension(count, count), emb_table)
        if shape.rank is not None:
            # Rows of no elements need no memory, but an array still counts them in bytes.
            needed = math.prod(max(1, dim.low) for dim in shape) * 8
            self.require(
                needed < 2**63,
                "input 'num_segments': {} rows are more than an array can have",
                count,
            )
        return shape

    def reference(
        self,
        emb_table: Array,
        indices: Array,
        segment_ids: Array,
        num_segments: Array,
        default_index: Array | None = None,
        per_sample_weights: Array | None = None,
    ) -> Array:
        count = int(num_segments)
        outside = (segment_ids < 0) | (segment_ids >= count)
        expected = below(count, "'num_segments' is 0")
        refuse_first(self, "segment_ids", segment_ids, outside, expected, 0, count - 1)
        if self.strict:
            unsorted = np.append(False, segment_ids[1:] < segment_ids[:-1])[: len(segment_ids)]
            refuse_first(
                self,
                "segment_ids",
                segment_ids,
                unsorted,
                "sorted ids: no less than the one before it",
            )
        self.check_indices(emb_table, indices)
        return self.summed(
            emb_table, indices, segment_ids, count, per_sample_weights, default_index, "segment"
        )
