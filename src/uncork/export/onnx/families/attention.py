"""ScaledDotProductAttention, spelled out: a mean of the values by the softmax of the products of
query and keys.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.attention import ScaledDotProductAttention
from uncork.types import ElementType


@lowers("ScaledDotProductAttention")
def attention(
    g: Graph,
    op: ScaledDotProductAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: Tensor | None,
    sink: Tensor | None,
) -> Tensor:
    """softmax(scale * query @ key^T + mask) @ value; f16 and bf16 are computed in f32."""
    own = query.type
    query, key, value = (widened(g, t) for t in (query, key, value))
    rank = g.rank(key)
    turned = g.transpose(key, [*range(rank - 2), rank - 1, rank - 2])
    factor = _factor(g, query) if scale is None else g.scalar(widened(g, scale))
    logits = g.op("Mul", g.op("MatMul", query, turned), factor)
    lowest = g.number(-math.inf, query)
    if op.causal:
        mask = _causal(g, query, key)
    if mask is not None and mask.type is BOOLEAN:
        logits = g.op("Where", mask, logits, lowest)
    elif mask is not None:
        logits = g.op("Add", logits, widened(g, mask))
    if sink is None:
        weights = g.op("Softmax", logits, axis=-1)
    else:
        shape = g.op(
            "Concat",
            g.op("Shape", logits, start=0, end=-1, type=I64),
            g.constant(np.ones(1, np.int64)),
            axis=0,
        )
        joined = g.op("Concat", logits, g.op("Expand", widened(g, sink), shape), axis=-1)
        weights = g.op("Slice", g.op("Softmax", joined, axis=-1), [0], [-1], [-1])
    return g.cast(g.op("MatMul", weights, value), own)


def _factor(g: Graph, query: Tensor) -> Tensor:
    size = query.shape[-1].static_size if query.rank is not None else None
    if size is not None:
        return g.number(1 / math.sqrt(max(size, 1)), query)
    depth = g.cast(g.scalar(g.dim(query, -1)), query.type)
    return g.op("Reciprocal", g.op("Sqrt", g.op("Max", depth, g.number(1, query))))


def _causal(g: Graph, query: Tensor, key: Tensor) -> Tensor:
    """The causal mask: whether a key comes no later than the query, both counted from the first."""
    zero, one = g.constant(0, ElementType.i64), g.constant(1, ElementType.i64)
    rows = g.op("Range", zero, g.scalar(g.dim(query, -2)), one)
    columns = g.op("Range", zero, g.scalar(g.dim(key, -2)), one)
    return g.op("GreaterOrEqual", g.op("Unsqueeze", rows, [1]), columns)
