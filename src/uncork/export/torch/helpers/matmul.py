"""Attention with all inputs of the IR's: mask, scale and sink."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    """F.scaled_dot_product_attention of items that may be broadcast, or empty, and with NaN, not 0,
    in rows whose mask is -inf throughout.
    """
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in (query, key, value))
    if not query.numel() or not key.numel() or not value.numel():
        return attention(query, key, value, mask, None, None, False)
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    if mask is None:
        return found
    return found.masked_fill(torch.isneginf(mask).all(dim=-1, keepdim=True), math.nan)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: Tensor | None,
    sink: Tensor | None,
    causal: bool,
) -> Tensor:
    """Values weighted by the softmax of masked products; a sink takes a part of the weights."""
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale.reshape(())
    logits = query @ key.mT * factor
    if causal:
        seen = torch.ones(logits.shape[-2:], dtype=torch.bool, device=query.device).tril()
        logits = torch.where(seen, logits, -math.inf)
    elif mask is not None and mask.dtype == torch.bool:
        logits = torch.where(mask, logits, -math.inf)
    elif mask is not None:
        logits = logits + mask
    if sink is None:
        return torch.softmax(logits, dim=-1).to(query.dtype) @ value
    top = torch.maximum(logits.amax(dim=-1, keepdim=True), sink)
    powers = torch.exp(logits - top)
    rest = torch.exp(sink - top)
    return (powers / (powers.sum(dim=-1, keepdim=True) + rest)).to(query.dtype) @ value
