"""ScaledDotProductAttention-13: every query's mean of the values, weighted by how the query fits
the keys.

    weights = SoftMax(query @ transpose(key) * scale + bias)         along the keys
    output  = weights @ value

Page: operation-specs/sequence/scaled-dot-product-attention. `scale` is 1 / sqrt(E) when absent. The
bias is -inf where a key comes after the query, counted from the first of both, with `causal`; else
it is `attention_mask`, a boolean one meaning -inf where it is false; else 0. `sink`, in newer
versions of the page, is one more logit in every row that takes weight and gives no value. Leading
dimensions stretch by numpy's rule. Decided where the page is silent: a row whose bias is -inf
everywhere is NaN, as the formula has it; without any key the output is 0.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.broadcast import broadcast_shapes
from uncork.ops._common.shapes import require_one
from uncork.ops._operation import Operation, register
from uncork.ops._ports import BOOLEAN, REAL, Attribute, Input, Output, boolean
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


@register("ScaledDotProductAttention", 13)
class ScaledDotProductAttention(Operation):
    """`query [N.., L, E]`, `key [N.., S, E]`, `value [N.., S, V]`, mask and sink that stretch to
    `[N.., L, S]` and `[N.., L, 1]`.
    """

    multiplies = True
    query = Input(REAL, "T")
    key = Input(REAL, "T")
    value = Input(REAL, "T")
    attention_mask = Input(REAL | BOOLEAN, optional=True)
    scale = Input(REAL, "T", optional=True)
    sink = Input(REAL, "T", optional=True)
    output = Output("T")
    causal = Attribute(boolean)

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attention_mask: TensorSpec | None,
        scale: TensorSpec | None,
        sink: TensorSpec | None,
    ) -> PartialShape:
        inputs = {"query": query, "key": key, "value": value}
        for name, spec in inputs.items():
            self.require(
                spec.rank is None or spec.rank >= 3,
                "input '{}': expected at least 3 dimensions, got shape {}",
                name,
                spec.shape,
            )
        if scale is not None:
            require_one(self, "scale", scale)
        targets, sources, size, depth = DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC
        if query.rank is not None:
            targets, size = query.shape[-2], query.shape[-1]
        if key.rank is not None:
            fits = size.agrees(key.shape[-1])
            self.require(
                fits,
                "the embedding sizes differ: {} of query, {} of key (query {}, key {})",
                size,
                key.shape[-1],
                query.shape,
                key.shape,
            )
            sources = key.shape[-2]
        if value.rank is not None:
            sources = self.wanted(
                sources.merge(value.shape[-2]),
                "the lengths of key and value differ: key {}, value {}",
                key.shape,
                value.shape,
            )
            depth = value.shape[-1]
        batches = [spec.shape if spec.rank is None else spec.shape[:-2] for spec in inputs.values()]
        batch = broadcast_shapes(self, batches, [f"batch of {name}" for name in inputs])
        self._check_bias(
            "attention_mask",
            None if self.causal else attention_mask,
            batch,
            targets,
            sources,
            query,
        )
        self._check_bias("sink", sink, batch, targets, Dimension(1, 1), query)
        return PartialShape() if batch.rank is None else PartialShape([*batch, targets, depth])

    def _check_bias(
        self,
        name: str,
        bias: TensorSpec | None,
        batch: PartialShape,
        rows: Dimension,
        columns: Dimension,
        query: TensorSpec,
    ) -> None:
        if bias is None:
            return
        alike = bias.element_type in BOOLEAN or bias.element_type is query.element_type
        self.require(
            alike,
            "input '{}': expected {} as 'query' has, or boolean, got {}",
            name,
            query.element_type,
            bias.element_type,
        )
        if batch.rank is not None:
            broadcast_shapes(
                self,
                [PartialShape([*batch, rows, columns]), bias.shape],
                ["the weights", name],
                "onto",
            )

    def reference(
        self,
        query: Array,
        key: Array,
        value: Array,
        attention_mask: Array | None,
        scale: Array | None,
        sink: Array | None,
    ) -> Array:
        return self.weighed(self.logits(query, key, scale), value, attention_mask, sink)

    def logits(self, query: Array, key: Array, scale: Array | None) -> Array:
        """How each query fits each key, before the bias."""
        factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale.item()
        return np.asarray(np.matmul(query, np.swapaxes(key, -1, -2)) * query.dtype.type(factor))

    def weighed(
        self, logits: Array, value: Array, attention_mask: Array | None, sink: Array | None
    ) -> Array:
        """The means of the values by such numbers."""
        dtype = logits.dtype
        if self.causal:
            logits = np.where(np.tri(*logits.shape[-2:]) > 0, logits, -np.inf).astype(dtype)
        elif attention_mask is not None and attention_mask.dtype == bool:
            logits = np.where(attention_mask, logits, -np.inf).astype(dtype)
        elif attention_mask is not None:
            logits = logits + attention_mask
        top = np.max(logits, -1, keepdims=True, initial=-np.inf)
        rest = np.zeros_like(top)
        if sink is not None:
            top = np.maximum(top, sink)
            rest = np.exp(sink - top)
        powers = np.exp(logits - top)
        return np.asarray(np.matmul(powers / (np.sum(powers, -1, keepdims=True) + rest), value))
