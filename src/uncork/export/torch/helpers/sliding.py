"""Windows that slide: convolutions and poolings with any padding."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def around(
    sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int], pads: object
) -> list[list[int]]:
    """The pads at begin and end of each axis; `same_upper` and `same_lower` follow the sizes."""
    if isinstance(pads, list):
        return pads
    found = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        less, more = total // 2, total - total // 2
        found.append([less, more] if pads == "same_upper" else [more, less])
    return found


def flat_pads(pads: list[list[int]]) -> list[int]:
    """Pads in F.pad's order, the last axis first."""
    return [n for pair in reversed(pads) for n in pair]


def convolution(
    x: Tensor,
    filters: Tensor,
    strides: list[int],
    dilations: list[int],
    pads: object,
    grouped: bool = False,
) -> Tensor:
    """A convolution; filters of groups are [groups, outputs, inputs, ..]."""
    groups = filters.shape[0] if grouped else 1
    weights = filters.flatten(0, 1) if grouped else filters
    sizes, kernel = list(x.shape[2:]), list(weights.shape[2:])
    if not x.dtype.is_floating_point or x.numel() == 0 or weights.numel() == 0:
        return exact_convolution(x, weights, groups, strides, dilations, pads)
    x = F.pad(x, flat_pads(around(sizes, kernel, strides, dilations, pads)))
    run = (F.conv1d, F.conv2d, F.conv3d)[len(sizes) - 1]
    return run(x, weights, None, strides, 0, dilations, groups)


def exact_convolution(
    x: Tensor,
    weights: Tensor,
    groups: int,
    strides: list[int],
    dilations: list[int],
    pads: object,
) -> Tensor:
    """A convolution of integers, which wrap, or of no elements, by sums of products."""
    kernel = list(weights.shape[2:])
    counts = window_counts(x, kernel, strides, dilations, pads, "floor")
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    if 0 in (*x.shape, *weights.shape):
        return x.new_zeros((len(x), weights.shape[0], *counts))
    wide = x if x.dtype.is_floating_point else x.to(torch.int64)
    cells, _ = windows(wide, kernel, strides, dilations, pads, "floor", 0)
    table = cells.reshape(len(x), groups, inputs, math.prod(counts), -1)
    factors = weights.to(wide.dtype).reshape(groups, outputs, inputs, -1)
    found = torch.einsum("ngcpk,gock->ngop", table, factors)
    return found.reshape(len(x), groups * outputs, *counts).to(x.dtype)


def transposed_convolution(
    x: Tensor,
    filters: Tensor,
    strides: list[int],
    dilations: list[int],
    cuts: list[list[int]],
    sizes: list[int] | None = None,
    more_before: bool = False,
    grouped: bool = False,
) -> Tensor:
    """A transposed convolution: `cuts` are taken from its begin and end, and then what is more than
    `sizes`, from both; what is negative adds zeros.
    """
    groups = filters.shape[0] if grouped else 1
    weights = filters.flatten(0, 1) if grouped else filters
    kind = x.dtype
    if not kind.is_floating_point:
        x, weights = x.double(), weights.double()
    if 0 in (*x.shape, *weights.shape):
        axes = zip(x.shape[2:], weights.shape[2:], strides, dilations, strict=True)
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in axes]
        whole = x.new_zeros((len(x), groups * weights.shape[1], *reach))
    else:
        run = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(strides) - 1]
        whole = run(x, weights, None, strides, 0, 0, groups, dilations)
    added = []
    for axis, (begin, end) in enumerate(cuts):
        reached = whole.shape[2 + axis]
        wanted = reached - begin - end
        if sizes is not None:
            more = max(0, wanted - sizes[axis])
            begin += more - more // 2 if more_before else more // 2
            wanted = sizes[axis]
        added.append([-begin, wanted + begin - reached])
    return F.pad(whole, flat_pads(added)).to(kind)


def binary_convolution(
    x: Tensor,
    filters: Tensor,
    strides: list[int],
    dilations: list[int],
    pads: object,
    pad_value: float,
) -> Tensor:
    """A convolution of -1 and 1; the filters are bits, the first one lowest."""
    sizes, kernel = list(x.shape[2:]), list(filters.shape[2:])
    bits = filters.reshape(-1, 8).flip(1).reshape(filters.shape)
    signs = torch.where(bits != 0, 1.0, -1.0)
    numbers = torch.where(x > 0, 1.0, -1.0)
    given = around(sizes, kernel, strides, dilations, pads)
    padded = F.pad(numbers, flat_pads(given), value=pad_value)
    return F.conv2d(padded, signs, None, strides, 0, dilations).to(x.dtype)


def window_count(free: int, limit: int, stride: int, rounding: str) -> int:
    """How many windows there are: `free` cells are left by the first, starts are below `limit`."""
    if rounding == "floor":
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if rounding == "ceil_torch" and (count - 1) * stride >= limit else count


def window_counts(
    x: Tensor,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads: object,
    rounding: str,
) -> list[int]:
    """The number of windows along each axis."""
    counts = []
    for axis, (n, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations, strict=True)):
        if isinstance(pads, list):
            begin, end = pads[axis]
            free = n + begin + end - ((k - 1) * d + 1)
            counts.append(window_count(free, n + begin, s, rounding))
        else:
            counts.append(-(-n // s))
    return counts


def windows(
    x: Tensor,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads: object,
    rounding: str,
    fill: float,
) -> tuple[Tensor, list[Tensor]]:
    """Cells of windows, [N, C, counts.., cells], and of each axis the places [count, kernel]."""
    sizes = list(x.shape[2:])
    given = around(sizes, kernel, strides, dilations, pads)
    places = []
    counts = window_counts(x, kernel, strides, dilations, pads, rounding)
    for axis, (count, k, s, d) in enumerate(zip(counts, kernel, strides, dilations, strict=True)):
        start = torch.arange(count, device=x.device) * s - given[axis][0]
        places.append(start.unsqueeze(1) + torch.arange(k, device=x.device) * d)
    result = x
    for axis, place in enumerate(places):
        at = 2 + 2 * axis
        inside = (place >= 0) & (place < sizes[axis])
        found = result.index_select(at, place.clamp(0, sizes[axis] - 1).reshape(-1))
        found = found.unflatten(at, place.shape)
        shape = [1] * found.dim()
        shape[at : at + 2] = place.shape
        result = torch.where(
            inside.reshape(shape), found, torch.full((), fill, dtype=x.dtype, device=x.device)
        )
    count = len(sizes)
    order = [0, 1, *range(2, 2 + 2 * count, 2), *range(3, 3 + 2 * count, 2)]
    return result.permute(order).flatten(2 + count), places


def lowest_of(x: Tensor) -> float:
    """The lowest value of the tensor's type, which a maximum begins with."""
    return -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min


def average_pool(
    x: Tensor,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads: object,
    rounding: str,
    exclude_pad: bool,
) -> Tensor:
    """Means of the cells that count; 0 where none does."""
    wide = x if x.dtype.is_floating_point else x.to(torch.int64)
    if 0 in x.shape:
        counts = window_counts(x, kernel, strides, dilations, pads, rounding)
        return x.new_zeros((*x.shape[:2], *counts))
    cells, places = windows(wide, kernel, strides, dilations, pads, rounding, 0)
    sizes = list(x.shape[2:])
    given = around(sizes, kernel, strides, dilations, pads)
    counts = torch.ones((), dtype=torch.int64, device=x.device)
    for axis, place in enumerate(places):
        low, high = (
            (0, sizes[axis]) if exclude_pad else (-given[axis][0], sizes[axis] + given[axis][1])
        )
        counts = counts.unsqueeze(-1) * ((place >= low) & (place < high)).sum(dim=1)
    total = cells.sum(dim=-1)
    divisor = counts.clamp(min=1)
    if x.dtype.is_floating_point:
        return torch.where(counts > 0, total / divisor.to(x.dtype), torch.zeros_like(total))
    floor = torch.div(total, divisor, rounding_mode="floor")
    double = 2 * (total - floor * divisor)
    up = (double > divisor) | ((double == divisor) & (floor % 2 == 1))
    return torch.where(counts > 0, floor + up, 0).to(x.dtype)


def max_pool(
    x: Tensor,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    pads: object,
    rounding: str,
    axis: int = 0,
    dtype: torch.dtype = torch.int64,
) -> tuple[Tensor, Tensor]:
    """Maxima of windows and where they stand, counted from an axis on; NaN wins."""
    sizes = list(x.shape[2:])
    if 0 in x.shape:
        counts = window_counts(x, kernel, strides, dilations, pads, rounding)
        blank = x.new_full((*x.shape[:2], *counts), lowest_of(x))
        return blank, torch.zeros(blank.shape, dtype=dtype, device=x.device)
    cells, _ = windows(x, kernel, strides, dilations, pads, rounding, lowest_of(x))
    largest = cells.amax(dim=-1)
    # Numbered from the end, and 0 outside: of the cells that win the first has the highest number.
    number = torch.arange(math.prod(sizes), 0, -1, device=x.device).reshape(1, 1, *sizes)
    numbers, _ = windows(number, kernel, strides, dilations, pads, rounding, 0)
    wins = (cells == largest.unsqueeze(-1)) | (cells != cells)
    best = torch.where(wins, numbers, 0).amax(dim=-1)
    place = torch.where(best > 0, math.prod(sizes) - best, 0)
    channels = torch.arange(math.prod(x.shape[:2]), device=x.device)
    channels = channels.reshape(*x.shape[:2], *(1,) * len(sizes))
    index = channels * math.prod(sizes) + place
    return largest, (index % max(1, math.prod(x.shape[axis:]))).to(dtype)


def adaptive_average(x: Tensor, sizes: list[int]) -> Tensor:
    """F.adaptive_avg_pool of any number of axes; the result may be empty."""
    if 0 in sizes or x.numel() == 0:
        return x.new_zeros((*x.shape[:2], *sizes))
    run = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[len(sizes) - 1]
    return run(x, sizes)


def adaptive_maximum(x: Tensor, sizes: list[int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """F.adaptive_max_pool with places; the result may be empty."""
    if 0 in sizes or x.numel() == 0:
        blank = x.new_zeros((*x.shape[:2], *sizes))
        return blank, blank.to(dtype)
    run = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[len(sizes) - 1]
    values, places = run(x, sizes, return_indices=True)
    return values, places.to(dtype)
