"""Functions that loops need besides Python's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
from torch import Tensor


def iterations(count: int) -> Iterable[int]:
    """0, 1, 2 and so on; without an end where the count is negative."""
    return range(count) if count >= 0 else itertools.count()


def part_starts(size: int, start: int, end: int, stride: int, part: int) -> range:
    """The start of each part of an axis; negative bounds count from the end."""
    first = start + size + 1 if start < 0 else start
    last = end + size + 1 if end < 0 else end
    if stride > 0:
        return range(first, last, stride)
    return range(first - part, last - part, stride)


def joined(
    parts: list[Tensor],
    axis: int,
    blank: list[int],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    """Parts joined along an axis, or an empty tensor where there are none."""
    return torch.cat(parts, dim=axis) if parts else torch.zeros(blank, dtype=dtype, device=device)
