"""Gathers and scatters."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def gather(
    data: Tensor, indices: Tensor, axis: int = 0, batch_dims: int = 0, from_end: bool = False
) -> Tensor:
    """Slices of data along an axis; an index that is outside reads zeros."""
    size = data.shape[axis]
    place = indices.long()
    if from_end:
        place = torch.where(place < 0, place + size, place)
    inside = (place >= 0) & (place < size)
    place = torch.where(inside, place, 0)
    lead = data.shape[:batch_dims]
    middle, tail = data.shape[batch_dims:axis], data.shape[axis + 1 :]
    if size == 0:
        return data.new_zeros((*lead, *middle, *indices.shape[batch_dims:], *tail))
    if batch_dims == 0:
        found = data.index_select(axis, place.reshape(-1))
    else:
        rows = place.reshape(math.prod(lead), math.prod(place.shape[batch_dims:]))
        table = data.reshape(math.prod(lead), math.prod(middle), size, math.prod(tail))
        index = rows[:, None, :, None].expand(-1, table.shape[1], -1, table.shape[3])
        found = table.gather(2, index)
    inner = indices.shape[batch_dims:]
    found = found.reshape((*lead, *middle, *inner, *tail))
    kept = inside.reshape((*lead, *(1,) * len(middle), *inner, *(1,) * len(tail)))
    return torch.where(kept, found, torch.zeros_like(found))


def counted(indices: Tensor, size: int) -> Tensor:
    """Indices with negative ones counted from the end; an index out of range is refused."""
    place = indices.long()
    place = torch.where(place < 0, place + size, place)
    if not torch.compiler.is_compiling() and bool(((place < 0) | (place >= size)).any()):
        raise IndexError(f"an index is outside -{size} to {size - 1}")
    return place


def taken(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Slices of data along an axis; an index that is outside is refused."""
    place = counted(indices, data.shape[axis]).reshape(-1)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return data.index_select(axis, place).reshape(shape)


def gather_elements(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """One element of data for each index, along an axis."""
    return torch.gather(data, axis, counted(indices, data.shape[axis]))


def gather_nd(data: Tensor, indices: Tensor, batch_dims: int, joined: bool) -> Tensor:
    """Slices of data by tuples of indices, batch by batch."""
    size = indices.shape[-1]
    lead = torch.broadcast_shapes(data.shape[:batch_dims], indices.shape[:batch_dims])
    data = data.expand(*lead, *data.shape[batch_dims:])
    indices = indices.expand(*lead, *indices.shape[batch_dims:])
    inner = indices.shape[batch_dims:-1]
    batches = [
        torch.arange(n, device=data.device).reshape([-1 if i == k else 1 for i in range(len(lead))])
        for k, n in enumerate(lead)
    ]
    batches = [b.expand(lead).reshape(*lead, *(1,) * len(inner)) for b in batches]
    dims = data.shape[batch_dims : batch_dims + size]
    places = [counted(indices[..., k], n) for k, n in enumerate(dims)]
    rest = data.shape[batch_dims + size :]
    if size + batch_dims == 0:
        found = data.expand(*inner, *data.shape)
    elif size == 0:
        found = data.reshape(*lead, *(1,) * len(inner), *rest).expand(*lead, *inner, *rest)
    else:
        index = (*batches, *places)
        found = data[index]
    if joined and batch_dims > 1:
        found = found.reshape(math.prod(lead), *found.shape[batch_dims:])
    return found


def gather_tree(step_ids: Tensor, parents: Tensor, lengths: Tensor, end: Tensor) -> Tensor:
    """Beams followed from their last step to the first; after an end token all are end tokens."""
    steps, batch, beams = step_ids.shape
    beam = torch.arange(beams, device=step_ids.device).expand(batch, beams)
    rows = []
    for step in reversed(range(steps)):
        used = (step < lengths.long()).unsqueeze(1)
        found = step_ids[step].gather(1, beam)
        rows.append(torch.where(used, found, end.to(step_ids.dtype)))
        beam = torch.where(used, parents[step].gather(1, beam).long(), beam)
        if step:
            beam = beam.clamp(0, beams - 1)
    if not rows:
        return step_ids
    final = torch.stack(rows[::-1])
    ended = torch.cumsum((final == end).to(torch.int64), 0) > 0
    return torch.where(ended, end.to(step_ids.dtype), final)


def scatter_update(data: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A copy of data with slices along an axis replaced."""
    axis %= data.dim()
    count = indices.dim()
    moved = updates.movedim(list(range(axis, axis + count)), list(range(count)))
    place = indices.long()
    if bool(((place < 0) | (place >= data.shape[axis])).any()):
        raise IndexError(f"an index is outside 0 to {data.shape[axis] - 1}")
    front = data.movedim(axis, 0).index_put((place,), moved)
    return front.movedim(0, axis)


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str, initial: bool
) -> Tensor:
    """A copy of data with elements along an axis replaced, or reduced with updates."""
    place = counted(indices, data.shape[axis])
    if reduction == "none":
        # Of several updates of one place the last counts, also where torch goes in any order.
        return last_written(data, place, updates, axis)
    if data.dtype == torch.bool:
        names = {"sum": "amax", "max": "amax", "prod": "amin", "min": "amin"}
        whole = data.to(torch.uint8)
        whole = whole.scatter_reduce(
            axis, place, updates.to(torch.uint8), names[reduction], include_self=initial
        )
        return whole != 0
    if reduction == "mean":
        start = data if initial else data.scatter(axis, place, torch.zeros_like(updates))
        total = start.scatter_add(axis, place, updates)
        count = torch.zeros(data.shape, dtype=torch.int64, device=data.device)
        count = count.scatter_add(axis, place, torch.ones_like(place))
        touched = count > 0
        count = (count + int(initial)).clamp(min=1)
        if data.dtype.is_floating_point:
            return torch.where(touched, total / count, data)
        return torch.where(
            touched, torch.div(total, count, rounding_mode="floor").to(data.dtype), data
        )
    names = {"sum": "sum", "prod": "prod", "min": "amin", "max": "amax"}
    return data.scatter_reduce(axis, place, updates, names[reduction], include_self=initial)


def last_written(data: Tensor, place: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A copy of data with elements replaced; of several updates of one place the last counts."""
    order = torch.arange(place.numel(), device=data.device).reshape(place.shape)
    newest = torch.full(data.shape, -1, dtype=torch.int64, device=data.device)
    newest = newest.scatter_reduce(axis, place, order, "amax")
    if updates.numel() == 0:
        return data
    return torch.where(newest >= 0, updates.reshape(-1)[newest.clamp(min=0)], data)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """A copy of data with slices, by tuples of indices, replaced or reduced with updates."""
    size = indices.shape[-1]
    rest = data.shape[size:]
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=data.device)
    for k in range(size):
        flat = flat * data.shape[k] + counted(indices[..., k], data.shape[k])
    columns = math.prod(rest)
    table = data.reshape(math.prod(data.shape[:size]), columns)
    place = flat.reshape(-1, 1).expand(-1, columns)
    given = updates.reshape(flat.numel(), columns)
    if reduction == "sub" and data.dtype == torch.bool:
        joined = table.int().scatter_add(0, place, given.int()) % 2 == 1
    elif reduction == "sub":
        joined = table - torch.zeros_like(table).scatter_add(0, place, given)
    else:
        joined = scatter_elements(table, place, given, 0, reduction, True)
    return joined.reshape(data.shape)


def sparse_fill_empty_rows(
    values: Tensor, shape: Tensor, indices: Tensor, default: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Elements in the order of their places, with a default for each row that has none."""
    rows = int(shape[0])
    empty = torch.ones(rows, dtype=torch.bool, device=indices.device)
    empty[indices[:, 0].long()] = False
    missing = torch.nonzero(empty).reshape(-1).to(indices.dtype)
    places = torch.cat([indices, torch.stack([missing, torch.zeros_like(missing)], 1)])
    filled = torch.cat([values, default.to(values.dtype).expand(len(missing))])
    order = torch.argsort(places[:, 1], stable=True)
    order = order[torch.argsort(places[order, 0], stable=True)]
    return places[order], filled[order], empty
