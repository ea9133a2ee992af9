"""Sums and means of rows of tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rows_of(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of a table by indices; an index out of range is refused."""
    if not torch.compiler.is_compiling() and not table.is_meta:
        wrong = (indices < 0) | (indices >= len(table))
        if bool(wrong.any()):
            raise IndexError(f"an index is outside 0 to {len(table) - 1}")
    return table.index_select(0, indices.reshape(-1).long())


def averaged(sums: Tensor, sizes: Tensor) -> Tensor:
    """Sums divided by their numbers of terms; integers are cut towards zero."""
    counts = sizes.clamp(min=1).reshape(-1, *(1,) * (sums.dim() - 1))
    if sums.dtype.is_floating_point:
        return sums / counts
    return torch.div(sums, counts, rounding_mode="trunc").to(sums.dtype)


def embedding_bag_offsets(
    table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    default: int = -1,
    weights: Tensor | None = None,
    mean: bool = False,
) -> Tensor:
    """Sums or means of bags of rows; bag b is indices[offsets[b]:offsets[b + 1]].

    An empty bag is the row `default`, unweighted, or zeros where that is -1.
    """
    count, starts = len(indices), offsets.long()
    if len(starts) == 0:
        return table.new_zeros((0, *table.shape[1:]))
    ends = torch.cat([starts[1:], starts.new_full((1,), count)])
    if not torch.compiler.is_compiling() and bool(((starts < 0) | (ends < starts)).any()):
        raise ValueError(f"expected offsets from 0 to {count} that do not decrease")
    if table.dim() == 2 and table.dtype in (torch.float32, torch.float64) and default == -1:
        # The first bag has what lies before the first offset, which is not looked up.
        bounds = torch.cat([starts.new_zeros(1), starts])
        unused = torch.arange(count, device=table.device) < starts[:1]
        indices = torch.where(unused, 0, indices)
        if weights is not None:
            weights = weights.to(table.dtype)
        mode = "mean" if mean else "sum"
        whole = F.embedding_bag(
            indices.long(), table, bounds, mode=mode, per_sample_weights=weights
        )
        return whole[1:]
    sizes = ends - starts
    owners = torch.repeat_interleave(torch.arange(len(starts), device=table.device), sizes)
    first = count - len(owners)
    given = None if weights is None else weights[first:]
    sums = segment_sums(table, indices[first:], owners, len(starts), default, given)
    return averaged(sums, sizes) if mean else sums


def embedding_bag_packed(
    table: Tensor, indices: Tensor, weights: Tensor | None = None, mean: bool = False
) -> Tensor:
    """Sums or means of bags of rows; bag b is indices[b]."""
    if table.dim() == 2 and table.dtype in (torch.float32, torch.float64):
        if weights is not None:
            weights = weights.to(table.dtype)
        mode = "mean" if mean else "sum"
        if indices.shape[1] == 0:
            return table.new_zeros((len(indices), table.shape[1]))
        return F.embedding_bag(indices.long(), table, mode=mode, per_sample_weights=weights)
    rows = rows_of(table, indices).reshape(*indices.shape, *table.shape[1:])
    if weights is not None:
        rows = rows * weights.reshape(*indices.shape, *(1,) * (table.dim() - 1))
    sums = rows.sum(dim=1, dtype=table.dtype)
    sizes = torch.full((len(indices),), indices.shape[1], device=table.device)
    return averaged(sums, sizes) if mean else sums


def embedding_segments_sum(
    table: Tensor,
    indices: Tensor,
    segment_ids: Tensor,
    count: int,
    default: int = -1,
    weights: Tensor | None = None,
) -> Tensor:
    """Sums of rows by segment; an empty one is the row `default`, or zeros where that is -1."""
    if not torch.compiler.is_compiling() and bool(
        ((segment_ids < 0) | (segment_ids >= count)).any()
    ):
        raise ValueError(f"expected segment ids from 0 to {count - 1}")
    return segment_sums(table, indices, segment_ids, count, default, weights)


def segment_sums(
    table: Tensor,
    indices: Tensor,
    owners: Tensor,
    count: int,
    default: int,
    weights: Tensor | None,
) -> Tensor:
    """Sums of weighted rows, each added to its owner."""
    rows = rows_of(table, indices)
    if weights is not None:
        rows = rows * weights.reshape(-1, *(1,) * (table.dim() - 1))
    kind = torch.float32 if table.dtype in (torch.float16, torch.bfloat16) else table.dtype
    blank = torch.zeros((count, *table.shape[1:]), dtype=kind, device=table.device)
    sums = blank.index_add(0, owners.long(), rows.to(kind)).to(table.dtype)
    if default == -1:
        return sums
    sizes = torch.zeros(count, dtype=torch.int64, device=table.device)
    sizes = sizes.index_add(0, owners.long(), torch.ones_like(owners, dtype=torch.int64))
    if not bool((sizes == 0).any()):
        return sums
    row = rows_of(table, torch.tensor([default], device=table.device))
    empty = (sizes == 0).reshape(-1, *(1,) * (table.dim() - 1))
    return torch.where(empty, row, sums)
