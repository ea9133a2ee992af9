"""Normalisations."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def group_norm(x: Tensor, scale: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
    """torch.group_norm of data that may have no elements."""
    return torch.group_norm(x, groups, scale, bias, eps) if x.numel() else x


def standardised(x: Tensor, axes: list[int], eps: float, divide: bool, inside: bool) -> Tensor:
    """Data less its mean and, if wanted, over its deviation; eps is in the root or added to it."""
    centred = x - x.mean(dim=axes, keepdim=True) if axes else x - x
    if not divide:
        return centred
    variance = (centred * centred).mean(dim=axes, keepdim=True) if axes else centred * centred
    return centred / ((variance + eps).sqrt() if inside else variance.sqrt() + eps)


def normalized_l2(x: Tensor, axes: list[int], eps: float, add: bool) -> Tensor:
    """Data divided by its L2 norm along axes."""
    squares = (x * x).sum(dim=axes, keepdim=True) if axes else x * x
    return x / (squares + eps if add else torch.clamp(squares, min=eps)).sqrt()


def local_response(
    x: Tensor, axes: list[int], alpha: float, beta: float, bias: float, size: int
) -> Tensor:
    """Data divided by a power of the sum of squares around each cell, along axes."""
    total = x * x
    for axis in sorted({a % x.dim() for a in axes}):
        length = x.shape[axis]
        radius = min(size // 2, max(length - 1, 0))
        pads = [0, 0] * (x.dim() - 1 - axis) + [radius, radius]
        padded = F.pad(total, pads)
        total = sum(
            (padded.narrow(axis, k, length) for k in range(2 * radius + 1)), torch.zeros_like(x)
        )
    return x / (bias + alpha / size ** len(axes) * total) ** beta
