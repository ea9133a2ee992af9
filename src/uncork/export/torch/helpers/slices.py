"""Regions of tensors, with steps of both signs."""

from __future__ import annotations

import torch
from torch import Tensor


def sliced(
    x: Tensor, start: list[int], stop: list[int], step: list[int], axes: list[int] | None
) -> Tensor:
    """Slices along some axes, as Python has them, with steps of both signs."""
    for i, axis in enumerate(range(len(start)) if axes is None else axes):
        places = range(*slice(start[i], stop[i], step[i]).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def backwards(x: Tensor, axis: int, start: int | None, stop: int | None, step: int) -> Tensor:
    """A slice with a negative step; a start before the first element is the first element."""
    size = x.shape[axis]
    first, last, _ = slice(start, stop, step).indices(size)
    first = 0 if first < 0 < size else first
    places = list(range(first, last, step))
    return x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))


def slice_scattered(
    x: Tensor,
    updates: Tensor,
    start: list[int],
    stop: list[int],
    step: list[int],
    axes: list[int] | None,
) -> Tensor:
    """A copy of x with a region replaced."""
    places = [torch.arange(n, device=x.device) for n in x.shape]
    for i, axis in enumerate(range(len(start)) if axes is None else axes):
        inside = range(*slice(start[i], stop[i], step[i]).indices(x.shape[axis]))
        places[axis] = torch.tensor(list(inside), dtype=torch.int64, device=x.device)
    grid = torch.meshgrid(*places, indexing="ij")
    return x.index_put(grid, updates.expand(grid[0].shape))


def padded(x: Tensor, begin: list[int], end: list[int], mode: str, value: Tensor | None) -> Tensor:
    """A tensor padded or cropped at both ends of each axis, in any mode of Pad."""
    for axis, (before, after) in enumerate(zip(begin, end, strict=True)):
        size = x.shape[axis]
        place = torch.arange(max(0, before + size + after), device=x.device) - before
        inside = (place >= 0) & (place < size)
        if mode == "constant" or mode == "edge":
            mirrored = place.clamp(0, max(size - 1, 0))
        else:
            again = 1 if mode == "symmetric" else 0
            mirrored = torch.where(place < 0, -place - again, 2 * (size - 1) + again - place)
        places = torch.where(inside, place, mirrored)
        if mode != "constant":
            x = x.index_select(axis, places)
            continue
        shape = [1] * x.dim()
        shape[axis] = len(place)
        blank = torch.zeros((), dtype=x.dtype, device=x.device) if value is None else value
        if size == 0:
            sizes = [len(place) if i == axis else n for i, n in enumerate(x.shape)]
            x = blank.expand(sizes)
        else:
            x = torch.where(inside.reshape(shape), x.index_select(axis, places), blank)
    return x
