"""Shapes and places, where torch has no single function."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def reshaped(x: Tensor, shape: list[int], special_zero: bool) -> Tensor:
    """The same elements in another shape; with `special_zero` 0 copies a dimension."""
    copied = [special_zero and n == 0 for n in shape]
    sizes = [
        x.shape[i] if copy else n for i, (n, copy) in enumerate(zip(shape, copied, strict=True))
    ]
    rest = math.prod(n for i, n in enumerate(x.shape) if i >= len(copied) or not copied[i])
    given = math.prod(n for n, copy in zip(sizes, copied, strict=True) if n >= 0 and not copy)
    return x.reshape([rest // max(given, 1) if n == -1 else n for n in sizes])


def squeezed(x: Tensor, axes: list[int], only: bool = False) -> Tensor:
    """The tensor without dimensions of 1 at these axes; with `only` no others may stand there."""
    if only and any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"dimensions {axes} of {list(x.shape)} are not all 1")
    return x.squeeze(tuple({a % x.dim() for a in axes}))


def unsqueezed(x: Tensor, axes: list[int]) -> Tensor:
    """The tensor with dimensions of 1 at these places of the result."""
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def split_in(x: Tensor, count: int, axis: int) -> list[Tensor]:
    """Parts of a tensor along an axis, `count` of one size."""
    size = x.shape[axis] // count
    return [x.narrow(axis, k * size, size) for k in range(count)]


def split_by(x: Tensor, sizes: list[int], axis: int) -> list[Tensor]:
    """Parts of a tensor of these sizes; -1 is the rest."""
    rest = x.shape[axis] - sum(n for n in sizes if n >= 0)
    return list(x.split([rest if n < 0 else n for n in sizes], dim=axis))


def stretched_both_ways(x: Tensor, shape: list[int]) -> Tensor:
    """The tensor broadcast with a shape, in which dimensions of 1 stretch too."""
    return x.expand(torch.broadcast_shapes(x.shape, shape))


def placed_and_stretched(x: Tensor, shape: list[int], axes: list[int]) -> Tensor:
    """The tensor with its dimensions put at these axes of a shape, and broadcast to it."""
    sizes = [1] * len(shape)
    for size, axis in zip(x.shape, axes, strict=True):
        sizes[axis] = size
    return x.reshape(sizes).expand(shape)


def integer_range(
    start: int, stop: int, step: int, dtype: torch.dtype, device: torch.device | None = None
) -> Tensor:
    """start, start + step and so on before stop; nothing where stop lies on the other side."""
    count = max(0, -((start - stop) // step))
    return (start + step * torch.arange(count, device=device)).to(dtype)


def float_range(
    start: float,
    stop: float,
    step: float,
    dtype: torch.dtype,
    single: bool,
    device: torch.device | None = None,
) -> Tensor:
    """start + i * step before stop, in the arithmetic of the type."""
    if not dtype.is_floating_point:
        return integer_range(int(start), int(stop), int(step), dtype, device)
    count = max(0, math.ceil((stop - start) / step))
    kind = torch.float32 if single and dtype != torch.float64 else torch.float64
    places = torch.arange(count, device=device).to(kind)
    return (start + places * step).to(dtype)


def eye(
    rows: int,
    columns: int,
    diagonal: int,
    batch: list[int],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    """1 where column - row is `diagonal`, for each item of a batch."""
    row = torch.arange(rows, device=device).unsqueeze(1)
    column = torch.arange(columns, device=device)
    return (column - row == diagonal).to(dtype).expand([*batch, rows, columns])


def cumulative_sum(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Sums of the elements before each one, with or without the element itself."""
    ordered = x.flip(axis) if reverse else x
    sums = torch.cumsum(ordered, dim=axis, dtype=x.dtype)
    if exclusive:
        sums = sums - ordered
    return sums.flip(axis) if reverse else sums


def rolled(x: Tensor, shift: list[int], axes: list[int]) -> Tensor:
    """Places moved along axes, by one shift or one for each."""
    if not axes:
        return x
    return torch.roll(x, shift * len(axes) if len(shift) == 1 else shift, axes)


def reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int, seq_axis: int) -> Tensor:
    """The first steps of each row, as many as its length, in reverse."""
    moved = x.movedim((batch_axis, seq_axis), (0, 1))
    step = torch.arange(moved.shape[1], device=x.device)
    length = lengths.long().unsqueeze(1)
    places = torch.where(step < length, length - 1 - step, step)
    row = torch.arange(moved.shape[0], device=x.device).unsqueeze(1)
    return moved[row, places].movedim((0, 1), (batch_axis, seq_axis))
