"""Sums and means of rows of tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def embedding_bag_offsets(
    table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    weights: Tensor | None = None,
    default: int = -1,
    mean: bool = False,
) -> Tensor:
    """Sums or means of bags of rows; bag b is indices[offsets[b]:offsets[b + 1]]. An empty one is
    the row `default`, unweighted, or zeros where that is -1.
    """
    count, starts = len(indices), offsets.long()
    if len(starts) == 0:
        return table.new_zeros((0, table.shape[1]))
    ends = torch.cat([starts[1:], starts.new_full((1,), count)])
    if not torch.compiler.is_compiling() and bool(((starts < 0) | (ends < starts)).any()):
        raise ValueError(f"expected offsets from 0 to {count} that do not decrease")
    # The first bag has what lies before the first offset, which is not looked up.
    bounds = torch.cat([starts.new_zeros(1), starts])
    unused = torch.arange(count, device=table.device) < starts[:1]
    places, mode = torch.where(unused, 0, indices).long(), "mean" if mean else "sum"
    bags = F.embedding_bag(places, table, bounds, mode=mode, per_sample_weights=weights)[1:]
    if default == -1 or not bool((starts == ends).any()):
        return bags
    if not 0 <= default < len(table):
        raise IndexError(f"an index is outside 0 to {len(table) - 1}")
    return torch.where((starts == ends).unsqueeze(1), table[default], bags)


def embedding_bag_packed(
    table: Tensor, indices: Tensor, weights: Tensor | None = None, mean: bool = False
) -> Tensor:
    """Sums or means of bags of rows; bag b is indices[b]."""
    if indices.shape[1] == 0:
        return table.new_zeros((len(indices), table.shape[1]))
    mode = "mean" if mean else "sum"
    return F.embedding_bag(indices.long(), table, mode=mode, per_sample_weights=weights)


def embedding_segments_sum(
    table: Tensor,
    indices: Tensor,
    ids: Tensor,
    count: int,
    weights: Tensor | None = None,
    default: int = -1,
) -> Tensor:
    """Sums of rows by segment: bags, with positions in the order of their segments."""
    if not torch.compiler.is_compiling() and bool(((ids < 0) | (ids >= count)).any()):
        raise ValueError(f"expected segment ids from 0 to {count - 1}")
    if table.shape[1] == 0:
        return table.new_zeros((count, 0))
    order = torch.argsort(ids, stable=True)
    starts = torch.searchsorted(ids[order].long(), torch.arange(count, device=ids.device))
    given = None if weights is None else weights[order]
    return embedding_bag_offsets(table, indices[order], starts, given, default)
