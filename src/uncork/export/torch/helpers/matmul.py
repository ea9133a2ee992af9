"""Attention with all that the IR's has, and adjugates."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: Tensor | None,
    sink: Tensor | None,
    causal: bool,
) -> Tensor:
    """Softmax of the masked products, with weights that a sink takes from all."""
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


def adjugate(x: Tensor) -> Tensor:
    """The transposed matrix of cofactors."""
    size = x.shape[-1]
    wide = x.double()
    rows = []
    for i in range(size):
        row = []
        for j in range(size):
            keep_rows = [k for k in range(size) if k != j]
            keep_columns = [k for k in range(size) if k != i]
            minor = wide[..., keep_rows, :][..., keep_columns]
            sign = -1 if (i + j) % 2 else 1
            row.append(sign * torch.linalg.det(minor) if size > 1 else torch.ones_like(wide[..., 0, 0]))
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2).to(x.dtype)
