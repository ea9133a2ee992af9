"""Images read between cells, and made of patches."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def keys_kernel(distance: Tensor, a: float) -> Tensor:
    """The weight at a distance by Keys' cubic convolution kernel."""
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return torch.where(d < 1, near, torch.where(d < 2, far, 0.0))


def limited(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Values rounded, halves to even, and limited to the range of an integer type."""
    limits = torch.iinfo(dtype)
    return torch.round(x).clamp(limits.min, limits.max).to(dtype)


def grid_sample(
    x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """Images [N, C, H, W] read at places [N, h, w, 2] from -1 to 1."""
    height, width = x.shape[2:]
    if 0 in x.shape:
        return x.new_zeros((*x.shape[:2], *grid.shape[1:3]))
    places = [
        centre_of(grid[..., 1], height, align_corners),
        centre_of(grid[..., 0], width, align_corners),
    ]
    modes = (padding_mode, align_corners)
    if mode == "nearest":
        rows, columns = (torch.round(p) for p in places)
        found = cells_at(
            x, moved_inside(rows, height, *modes), moved_inside(columns, width, *modes)
        )
        unknown = torch.isnan(places[0] + places[1]).unsqueeze(1)
        return torch.where(unknown, math.nan, found) if x.dtype.is_floating_point else found
    work = x if x.dtype.is_floating_point else x.double()
    total = work.new_zeros((*x.shape[:2], *grid.shape[1:3]))
    for row, row_weight in grid_taps(places[0], height, mode, *modes):
        for column, column_weight in grid_taps(places[1], width, mode, *modes):
            weight = (row_weight * column_weight).to(work.dtype).unsqueeze(1)
            total = total + weight * cells_at(work, row, column)
    return total if x.dtype.is_floating_point else limited(torch.nan_to_num(total), x.dtype)


def centre_of(place: Tensor, size: int, align_corners: bool) -> Tensor:
    """A coordinate counted in cells, from one between -1 and 1."""
    if align_corners:
        centre = (place + 1) * (size - 1) / 2
    else:
        centre = ((place + 1) * size - 1) / 2
    return centre.clamp(-(2.0**40), 2.0**40)


def grid_taps(
    centre: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool
) -> list[tuple[Tensor, Tensor]]:
    """Cells along an axis that each place reads, and their weights."""
    low = torch.floor(centre)
    part = centre - low
    if mode == "bilinear":
        steps = [(0, 1 - part), (1, part)]
    else:
        steps = [(i, keys_kernel(part - i, -0.75) + 0 * part) for i in range(-1, 3)]
    return [
        (moved_inside(low + i, size, padding_mode, align_corners), weight) for i, weight in steps
    ]


def moved_inside(places: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Whole coordinates, moved into the image by the padding mode."""
    cells = torch.where(torch.isnan(places), 0, places).long()
    if padding_mode == "border":
        return cells.clamp(0, size - 1)
    if padding_mode == "reflection" and align_corners:
        return size - 1 - (cells % max(1, 2 * (size - 1)) - (size - 1)).abs()
    if padding_mode == "reflection":
        turned = cells % (2 * size)
        return torch.minimum(turned, 2 * size - 1 - turned)
    return cells


def cells_at(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Cells of images [N, C, H, W] at [N, ..] whole places; zeros outside."""
    height, width = x.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    flat = place.reshape(len(x), 1, -1).expand(-1, x.shape[1], -1)
    found = x.flatten(2).gather(2, flat).reshape(*x.shape[:2], *rows.shape[1:])
    return torch.where(inside.unsqueeze(1), found, torch.zeros_like(found))


def columns_to_image(
    x: Tensor,
    size: list[int],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads_begin: list[int],
    pads_end: list[int],
) -> Tensor:
    """Patches added up to an image."""
    whole = [n + b + e for n, b, e in zip(size, pads_begin, pads_end, strict=True)]
    count = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(whole, kernel, strides, dilations, strict=True)
    ]
    channels = x.shape[-2] // (kernel[0] * kernel[1])
    table = x.reshape(*x.shape[:-2], channels, *kernel, *count)
    canvas = x.new_zeros((*x.shape[:-2], channels, *whole))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(
                i * dilations[0], i * dilations[0] + (count[0] - 1) * strides[0] + 1, strides[0]
            )
            columns = slice(
                j * dilations[1], j * dilations[1] + (count[1] - 1) * strides[1] + 1, strides[1]
            )
            canvas[..., rows, columns] = canvas[..., rows, columns] + table[..., i, j, :, :]
    top, left = pads_begin
    return canvas[..., top : top + size[0], left : left + size[1]]
