"""EmbeddingBagPackedSum-3, EmbeddingBagPacked-15: sums or means of bags of embeddings, all bags of
one size.

    output[b] = sum of per_sample_weights[b, k] * emb_table[indices[b, k]]     over k

Pages: operation-specs/sparse/embedding-bag-packed-sum-3, embedding-bag-packed-15. Where they are
silent: bags of no indices (k = 0) give zeros, as a sum and as a mean. The mean of integers is the
sum, which wraps as every sum does, divided by the number of terms and truncated toward zero.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.embedding import Embedding, ReducedEmbedding, averaged
from uncork.ops._operation import register
from uncork.ops._ports import ARITHMETIC, Input
from uncork.types import DYNAMIC, Array, PartialShape, TensorSpec


class _BagPacked(Embedding):
    """`emb_table [E, d...]`, `indices [B, k]`, `per_sample_weights [B, k]` -> `[B, d...]`."""

    per_sample_weights = Input(ARITHMETIC, "T", optional=True)

    def infer(
        self,
        emb_table: TensorSpec,
        indices: TensorSpec,
        per_sample_weights: TensorSpec | None = None,
    ) -> PartialShape:
        self.check_ranks(2, indices=indices, per_sample_weights=per_sample_weights)
        self.check_weights(indices, per_sample_weights)
        return self.rows(DYNAMIC if indices.rank is None else indices.shape[0], emb_table)

    def reference(
        self, emb_table: Array, indices: Array, per_sample_weights: Array | None = None
    ) -> Array:
        self.check_indices(emb_table, indices)
        bags, size = indices.shape
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        sums = self.summed(
            emb_table, indices.reshape(-1), np.repeat(np.arange(bags), size), bags, weights
        )
        return averaged(sums, np.full(bags, size)) if self.takes_mean() else sums


@register("EmbeddingBagPackedSum", 3)
class EmbeddingBagPackedSum3(_BagPacked):
    """Sums."""


@register("EmbeddingBagPacked", 15)
class EmbeddingBagPacked15(_BagPacked, ReducedEmbedding):
    """Sums, or means without weights."""
