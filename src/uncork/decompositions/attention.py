"""Attention: a mean of values by the softmax of the products of query and keys."""

from __future__ import annotations

import math

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops.attention import ScaledDotProductAttention
from uncork.types import ElementType


@composite("ScaledDotProductAttention")
def attention(
    g: Layers,
    op: ScaledDotProductAttention,
    query: Source,
    key: Source,
    value: Source,
    mask: Source | None,
    scale: Source | None,
    sink: Source | None,
) -> Source:
    """softmax(scale * query @ key^T + mask) @ value; a sink is one more key, without a value."""
    factor = _factor(g, query) if scale is None else g.reshape(scale, [])
    logits = g.times(g.matmul(query, key, tb=True), factor)
    if op.causal:  # both counted from the first
        rows, columns = (g.range(g.dim(t, -2)) for t in (query, key))
        mask = g.make("GreaterEqual", g.unsqueeze(rows, 1), columns)
    if mask is not None and g.type(mask) is ElementType.boolean:
        logits = g.select(mask, logits, g.like(-math.inf, logits))
    elif mask is not None:
        logits = g.plus(logits, mask)
    if sink is None:
        return g.matmul(g.make("SoftMax", logits, axis=-1), value)
    shape = g.shape(g.slice(g.shape_of(logits), 0, -1, 0), 1)
    whole = g.make("SoftMax", g.concat([logits, g.broadcast(sink, shape)], -1), axis=-1)
    return g.matmul(g.slice(whole, 0, -1, -1), value)


def _factor(g: Layers, query: Source) -> Source:
    """One over the root of the size of a head."""
    size = g.spec(query).shape[-1].static_size if g.spec(query).rank is not None else None
    if size is not None:
        return g.like(1 / math.sqrt(max(size, 1)), query)
    depth = g.convert(g.reshape(g.dim(query, -1), []), g.type(query))
    return g.over(1, g.root(g.largest(depth, 1)))
