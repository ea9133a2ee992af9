"""Images resized, read between cells, and cut into patches."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def coordinates_of(
    size: int, result: int, scale: float | None, mode: str, double: bool, single: bool = False
) -> Tensor:
    """The input coordinate of each cell of the result, along one axis."""
    kind = torch.float32 if single or (scale is not None and not double) else torch.float64
    if size == result:
        return torch.arange(result, dtype=torch.float64)
    x = torch.arange(result).to(kind)
    if mode == "align_corners":
        if single and result > 1:
            step = torch.tensor(size - 1, dtype=kind) / torch.tensor(result - 1, dtype=kind)
            return (x * step).double()
        return x.double() * (size - 1) / max(1, result - 1)
    if mode == "pytorch_half_pixel" and result == 1:
        return torch.zeros(1, dtype=torch.float64)
    centre = 0.0 if mode == "asymmetric" else 0.5
    back = 0.0 if mode == "tf_half_pixel_for_nn" else centre
    if single and scale is None:
        factor = torch.tensor(result / size, dtype=kind)
        return ((x + centre) / factor - back).double()
    if scale is None:
        return (x + centre) * size / result - back
    return ((x + centre) / torch.tensor(scale, dtype=kind) - back).double()


def nearest_cells(size: int, shrinks: bool, places: Tensor, rounding: str) -> Tensor:
    """The cell that each place reads."""
    if rounding == "simple":
        rounding = "ceil" if shrinks else "floor"
    if rounding == "round_prefer_floor":
        cells = torch.ceil(places - 0.5)
    elif rounding == "round_prefer_ceil":
        cells = torch.floor(places + 0.5)
    else:
        cells = torch.ceil(places) if rounding == "ceil" else torch.floor(places)
    return cells.clamp(0, size - 1).long()


def keys_kernel(distance: Tensor, a: float) -> Tensor:
    """The weight at a distance by Keys' cubic convolution kernel."""
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return torch.where(d < 1, near, torch.where(d < 2, far, 0.0))


def mean_taps(
    size: int, centres: Tensor, reach: float, stretch: float, coefficient: float | None
) -> tuple[Tensor, Tensor]:
    """Cells within reach of each centre, and weights by distance that sum up to 1."""
    cells = torch.ceil(centres - reach).unsqueeze(1) + torch.arange(int(2 * reach) + 1)
    distance = (cells - centres.unsqueeze(1)) / stretch
    if coefficient is None:
        weights = (1 - distance.abs()).clamp(min=0)
    else:
        weights = keys_kernel(distance, coefficient)
    weights = torch.where((cells >= 0) & (cells < size), weights, 0.0)
    total = weights.sum(dim=1, keepdim=True)
    weights = torch.where(total == 0, 0.0, weights / torch.where(total == 0, 1.0, total))
    return cells.clamp(0, size - 1).long(), weights


def resize_taps(
    size: int, result: int, places: Tensor, mode: str, coefficient: float, stretch: float
) -> tuple[Tensor, Tensor]:
    """The cells that each place of an axis reads and their weights, both [result, taps]."""
    if mode.endswith("pillow"):
        step = size / result
        wide = max(1.0, step)
        centres = (torch.arange(result, dtype=torch.float64) + 0.5) * step - 0.5
        cubic = mode == "bicubic_pillow"
        own = (-0.5 if coefficient == -0.75 else coefficient) if cubic else None
        return mean_taps(size, centres, (2.0 if cubic else 1.0) * wide, wide, own)
    if mode == "linear_onnx":
        inside = places.clamp(0, size - 1)
        low = torch.floor(inside).long()
        part = inside - low
        high = (low + 1).clamp(max=size - 1)
        return torch.stack([low, high], 1), torch.stack([1 - part, part], 1)
    if mode == "cubic":
        cells = torch.floor(places).unsqueeze(1) + torch.arange(-1, 3)
        weights = keys_kernel(cells - places.unsqueeze(1), coefficient)
        return cells.clamp(0, size - 1).long(), weights
    return mean_taps(size, places, stretch, stretch, None)


def resized(
    x: Tensor,
    axes: list[int],
    mode: str,
    coordinates: str,
    sizes: list[int] | None = None,
    scales: list[float] | None = None,
    rounding: str = "round_prefer_floor",
    coefficient: float = -0.75,
    antialias: bool = False,
    pads: list[list[int]] | None = None,
    double: bool = False,
) -> Tensor:
    """An image, or any tensor, resized along axes one after the other."""
    if pads is not None:
        x = torch.nn.functional.pad(x, [n for pair in reversed(pads) for n in pair])
    plan: list[tuple[int, int, int, float | None]] = []
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        if scales is None:
            assert sizes is not None
            plan.append((axis, size, sizes[i], None))
        else:
            plan.append((axis, size, scaled_size(size, scales[i], double), scales[i]))
    results = [next((r for a, _, r, _ in plan if a == i), n) for i, n in enumerate(x.shape)]
    if 0 in results:
        return x.new_zeros(results)
    if any(n == 0 for _, n, _, _ in plan):
        raise ValueError("an axis without cells cannot be resized to any")
    factors = {a: r / n if s is None else s for a, n, r, s in plan}
    changed = [p for p in plan if p[1] != p[2]]
    whole = not x.dtype.is_floating_point
    if mode == "nearest":
        for axis, size, result, scale in changed:
            places = coordinates_of(size, result, scale, coordinates, double)
            cells = nearest_cells(size, factors[axis] < 1, places, rounding)
            x = x.index_select(axis, cells.to(x.device))
        return x
    pictures = mode == "linear_onnx" and x.dtype in (torch.uint8, torch.int8)
    smooth = antialias and any(f < 1 for f in factors.values())
    pillow = mode.endswith("pillow")
    values = x.to(torch.float32 if pictures else torch.float64) if whole else x
    if pillow or pictures:
        changed.sort(key=lambda p: -p[0])
    for axis, size, result, scale in changed:
        places = coordinates_of(size, result, scale, coordinates, double, pictures)
        stretch = 1 / factors[axis] if smooth else 1.0
        cells, weights = resize_taps(size, result, places, mode, coefficient, stretch)
        values = weighed(values, axis, cells, weights, pictures)
        if pillow and whole:
            values = limited(values, x.dtype).double()
    return limited(values, x.dtype) if whole else values


def scaled_size(size: int, scale: float, double: bool) -> int:
    """floor(scale * size), where a product that misses a whole number by a millionth is that."""
    kind = torch.float64 if double else torch.float32
    near = (torch.tensor(scale, dtype=kind) + torch.tensor(1e-6, dtype=kind)) * size
    exact = float(torch.tensor(scale, dtype=kind)) * size
    return size if scale == 1 else min(math.floor(float(near)), math.ceil(exact))


def weighed(x: Tensor, axis: int, cells: Tensor, weights: Tensor, pictures: bool) -> Tensor:
    """The weighted sums of cells along an axis; of pictures the second product is not rounded."""
    shape = [1] * x.dim()
    shape[axis] = len(cells)
    terms = []
    for k in range(cells.shape[1]):
        picked = x.index_select(axis, cells[:, k].to(x.device))
        terms.append((picked, weights[:, k].to(x.dtype).to(x.device).reshape(shape)))
    if pictures:
        first, second = terms if axis != x.dim() - 2 else reversed(terms)
        rounded = second[0] * second[1]
        return (first[0].double() * first[1] + rounded).float()
    total = terms[0][0] * terms[0][1]
    for picked, weight in terms[1:]:
        total = total + picked * weight
    return total


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
