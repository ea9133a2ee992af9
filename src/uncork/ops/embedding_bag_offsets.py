"""EmbeddingBagOffsetsSum-3, EmbeddingBagOffsets-15: sums or means of bags of embeddings, bags given
by where each one starts.

    output[b] = sum of per_sample_weights[i] * emb_table[indices[i]]
                over i in offsets[b] .. offsets[b + 1] - 1

The last bag runs to the end of `indices`. An empty bag is the row `default_index`, unweighted, or
zeros.

Pages: operation-specs/sparse/embedding-bag-offsets-sum-3, embedding-bag-offsets-15. Where they are
silent or vague:
- Offsets must not decrease, be negative or exceed the number of indices; one may equal it (the bag
  is empty), and there may be no indices at all.
- Positions before the first offset belong to no bag and are not looked up, right or wrong; with
  `strict` they are refused.
- A default of -1 means zeros in both versions. A wrong default is refused when a bag is empty and
  needs it.
- The mean of integers is the sum, which wraps as every sum does, divided by the number of terms and
  truncated toward zero.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.embedding import Embedding, ReducedEmbedding, averaged
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, I32_I64, Input
from uncork.types import DYNAMIC, Array, PartialShape, TensorSpec


class _BagOffsets(Embedding):
    """`emb_table [E, d...]`, `indices [N]`, `offsets [B]`, `default_index []`, `per_sample_weights
    [N]` -> `[B, d...]`.
    """

    offsets = Input(I32_I64, "T_IND", ids=True)
    default_index = Input(I32_I64, "T_IND", optional=True, ids=True)
    per_sample_weights = Input(ARITHMETIC, "T", optional=True)

    def infer(
        self,
        emb_table: TensorSpec,
        indices: TensorSpec,
        offsets: TensorSpec,
        default_index: TensorSpec | None = None,
        per_sample_weights: TensorSpec | None = None,
    ) -> PartialShape:
        self.check_ranks(1, indices=indices, offsets=offsets, per_sample_weights=per_sample_weights)
        self.check_ranks(0, default_index=default_index)
        self.check_weights(indices, per_sample_weights)
        return self.rows(DYNAMIC if offsets.rank is None else offsets.shape[0], emb_table)

    def reference(
        self,
        emb_table: Array,
        indices: Array,
        offsets: Array,
        default_index: Array | None = None,
        per_sample_weights: Array | None = None,
    ) -> Array:
        bounds = np.append(offsets.astype(np.int64), len(indices))
        previous = np.append(0, bounds)[: len(offsets)]
        outside, count = (offsets < 0) | (offsets > len(indices)), len(indices)
        refuse_first(
            self, "offsets", offsets, outside, f"0 to {count}, the number of indices", 0, count
        )
        refuse_first(
            self, "offsets", offsets, offsets < previous, "no less than the offset before it"
        )
        if self.strict:
            refuse_first(
                self,
                "offsets",
                offsets,
                (np.arange(len(offsets)) == 0) & (offsets > 0),
                "0: the indices before it are in no bag",
            )
        sizes = np.diff(bounds)
        first = int(bounds[0])
        self.check_indices(emb_table, indices, first)
        weights = None if per_sample_weights is None else per_sample_weights[first:]
        owners = np.repeat(np.arange(len(sizes)), sizes)
        sums = self.summed(emb_table, indices[first:], owners, len(sizes), weights, default_index)
        return averaged(sums, sizes) if self.takes_mean() else sums


@register("EmbeddingBagOffsetsSum", 3)
class EmbeddingBagOffsetsSum3(_BagOffsets):
    """Sums."""


@register("EmbeddingBagOffsets", 15)
class EmbeddingBagOffsets15(_BagOffsets, ReducedEmbedding):
    """Sums, or means without weights."""
