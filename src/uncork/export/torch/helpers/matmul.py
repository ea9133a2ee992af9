"""Attention to items that may be broadcast, or empty."""

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
        logits = query @ key.mT
        return torch.softmax(logits if mask is None else logits + mask, dim=-1) @ value
    found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    if mask is None:
        return found
    return found.masked_fill(torch.isneginf(mask).all(dim=-1, keepdim=True), math.nan)
