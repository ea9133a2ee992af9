"""Functions that loops need besides Python's own."""

from __future__ import annotations

import torch
from torch import Tensor


def iterations(count: int) -> range:
    """0, 1, 2 and so on; as good as without an end where the count is negative."""
    return range(count if count >= 0 else 2**63 - 1)


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
    blank: list[int | None],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    """Parts joined along an axis, or an empty tensor where there are none."""
    if parts:
        return torch.cat(parts, dim=axis)
    sizes = [size for size in blank if size is not None]
    if len(sizes) < len(blank):
        raise ValueError("a loop without a turn: its parts would have told the sizes of a result")
    return torch.zeros(sizes, dtype=dtype, device=device)
