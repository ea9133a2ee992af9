"""Reductions, orders and searches."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def reduced(x: Tensor, axes: list[int], kind: str, keep: bool) -> Tensor:
    """A reduction along axes, over no elements too; no axes at all is the identity."""
    if not axes:
        return x
    along = sorted({a % x.dim() for a in axes})
    rest = [i for i in range(x.dim()) if i not in along]
    count = math.prod(x.shape[i] for i in along)
    table = x.permute(rest + along).reshape([*(x.shape[i] for i in rest), count])
    if kind == "ReduceLogicalAnd":
        result = table.all(dim=-1)
    elif kind == "ReduceLogicalOr":
        result = table.any(dim=-1)
    elif kind == "ReduceProd":
        result = table.prod(dim=-1, dtype=x.dtype)
    elif kind in ("ReduceMax", "ReduceMin"):
        result = extreme_over_last(table, kind == "ReduceMax")
    elif kind == "ReduceMean":
        result = mean_over_last(table)
    elif kind == "ReduceL1":
        result = table.abs().sum(dim=-1, dtype=x.dtype)
    elif kind == "ReduceL2" and x.dtype.is_floating_point:
        result = (table * table).sum(dim=-1).sqrt()
    elif kind == "ReduceL2":
        squares = table.double().square().sum(dim=-1)
        result = torch.floor(squares.sqrt() + 0.5).to(x.dtype)
    else:
        result = table.sum(dim=-1, dtype=x.dtype)
    if keep:
        result = result.reshape([1 if i in along else n for i, n in enumerate(x.shape)])
    return result


def extreme_over_last(table: Tensor, largest: bool) -> Tensor:
    """The largest or smallest along the last axis; of none the lowest or highest of the type."""
    if table.shape[-1] > 0:
        return table.amax(dim=-1) if largest else table.amin(dim=-1)
    if table.dtype.is_floating_point:
        start = -math.inf if largest else math.inf
    else:
        limits = torch.iinfo(table.dtype)
        start = limits.min if largest else limits.max
    return torch.full(table.shape[:-1], start, dtype=table.dtype, device=table.device)


def mean_over_last(table: Tensor) -> Tensor:
    """The mean along the last axis, of integers cut towards zero."""
    if table.dtype.is_floating_point:
        return table.mean(dim=-1)
    total = table.sum(dim=-1, dtype=torch.int64)
    return torch.div(total, table.shape[-1], rounding_mode="trunc").to(table.dtype)


def top_k(
    x: Tensor, k: int, axis: int, largest: bool, by_index: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The k largest or smallest along an axis; of equal ones those that come first."""
    order = torch.argsort(x, dim=axis, descending=largest, stable=True)
    best = order.narrow(axis, 0, k)
    if by_index:
        best = torch.sort(best, dim=axis).values
    return torch.take_along_dim(x, best, axis), best.to(dtype)


def one_hot(
    indices: Tensor, depth: int, on: Tensor, off: Tensor, axis: int, from_end: bool
) -> Tensor:
    """`on` at one place of a new axis, else `off`."""
    place = indices.long()
    if from_end:
        place = torch.where(place < 0, place + depth, place)
    axis %= indices.dim() + 1
    classes = torch.arange(depth, device=indices.device)
    classes = classes.reshape(-1, *(1,) * (indices.dim() - axis))
    return torch.where(place.unsqueeze(axis) == classes, on, off)


def unique(
    x: Tensor, axis: int | None, in_order: bool, index: torch.dtype, count: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct slices, the first place of each, the number of the one each slice is, and counts."""
    table = x.reshape(-1, 1) if axis is None else x.movedim(axis, 0)
    rows = table.reshape(table.shape[0], math.prod(table.shape[1:]))
    order = torch.arange(rows.shape[0], device=x.device)
    for k in reversed(range(rows.shape[1])):
        order = order[torch.argsort(rows[order, k], stable=True)]
    ordered = rows[order]
    begins = torch.ones(rows.shape[0], dtype=torch.bool, device=x.device)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(dim=1)
    first = order[begins]
    owner = torch.empty_like(order)
    owner[order] = torch.cumsum(begins, 0) - 1
    if not in_order:
        by_place = torch.argsort(first)
        first, owner = first[by_place], torch.argsort(by_place)[owner]
    found = table[first, 0] if axis is None else table[first].movedim(0, axis)
    counts = torch.bincount(owner, minlength=len(first))
    return found, first.to(index), owner.to(index), counts.to(count)


def bucketize(x: Tensor, bounds: Tensor, right: bool, dtype: torch.dtype) -> Tensor:
    """How many bounds lie before each element; a NaN lies behind all."""
    kind = torch.promote_types(x.dtype, bounds.dtype)
    if (
        kind in (torch.float16, torch.bfloat16)
        or x.dtype.is_floating_point != bounds.dtype.is_floating_point
    ):
        kind = torch.float64
    found = torch.searchsorted(bounds.to(kind), x.to(kind).contiguous(), right=right)
    if x.dtype.is_floating_point:
        found = torch.where(torch.isnan(x), len(bounds), found)
    return found.to(dtype)


def search_sorted(ordered: Tensor, values: Tensor, right: bool, dtype: torch.dtype) -> Tensor:
    """The place where each value would be inserted, row by row."""
    if ordered.dtype in (torch.float16, torch.bfloat16):
        ordered, values = ordered.float(), values.float()
    found = torch.searchsorted(ordered.contiguous(), values.contiguous(), right=right)
    return found.to(dtype)


def segment_max(x: Tensor, ids: Tensor, count: int | None, lowest: bool) -> Tensor:
    """The largest element of each segment of rows; an empty one is 0, or the lowest number."""
    number = (int(ids.max()) + 1 if ids.numel() else 0) if count is None else count
    kept = ids < number
    place = ids[kept].long().reshape(-1, *(1,) * (x.dim() - 1))
    limits = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
    blank = torch.full(
        (number, *x.shape[1:]), limits.min if lowest else 0, dtype=x.dtype, device=x.device
    )
    given = x[kept]
    return blank.scatter_reduce(0, place.expand(given.shape), given, "amax", include_self=False)
