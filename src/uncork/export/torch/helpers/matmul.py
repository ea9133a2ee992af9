"""Attention with all inputs of the IR's: mask, scale and sink."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float | None
) -> Tensor:
    """F.scaled_dot_product_attention with NaN, not 0, in rows whose mask is -inf throughout."""
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    nothing = torch.isneginf(mask).all(dim=-1, keepdim=True)
    return found.masked_fill(nothing, math.nan) if mask.shape[-1] and key.shape[-2] else found


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
