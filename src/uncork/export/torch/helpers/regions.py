"""Images read in boxes: the largest cell of each bin, or reads between cells."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from uncork.export.torch.helpers.elementwise import round_half_away


def read_between(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """The values of an image [C, H, W] at places inside it, between its cells."""
    height, width = x.shape[1:]
    low_y, low_z = torch.floor(y), torch.floor(z)
    part_y, part_z = y - low_y, z - low_z
    rows = [low_y.long(), (low_y.long() + 1).clamp(max=height - 1)]
    columns = [low_z.long(), (low_z.long() + 1).clamp(max=width - 1)]
    total = torch.zeros((len(x), *y.shape), dtype=x.dtype, device=x.device)
    for row, row_weight in zip(rows, (1 - part_y, part_y), strict=True):
        for column, column_weight in zip(columns, (1 - part_z, part_z), strict=True):
            total = total + row_weight * column_weight * x[:, row, column]
    return total


def roi_align(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int,
    spatial_scale: float,
    mode: str,
    aligned: str = "",
    turned: str = "",
) -> Tensor:
    """The mean or maximum of an image read on a grid in each bin of each box."""
    height, width = x.shape[2:]
    results = [x.new_zeros((0, x.shape[1], pooled_h, pooled_w))]
    for box, image in zip(rois, images.tolist(), strict=True):
        if turned:
            sides = box[2:4] * spatial_scale
            left, top, wide, high = -sides[0] / 2, -sides[1] / 2, sides[0], sides[1]
        else:
            moved = 0.5 if aligned == "half_pixel" else 0.0
            back = 0.0 if aligned == "asymmetric" else 0.5
            left, top, right, bottom = ((box + moved) * spatial_scale - back).unbind()
            wide, high = right - left, bottom - top
            if aligned == "asymmetric":
                wide, high = wide.clamp(min=1), high.clamp(min=1)
        columns = bin_places(left, wide, pooled_w, sampling_ratio)
        rows = bin_places(top, high, pooled_h, sampling_ratio)
        if 0 in (*rows.shape, *columns.shape):
            results.append(x.new_zeros((1, x.shape[1], pooled_h, pooled_w)))
            continue
        z, y = torch.broadcast_tensors(columns[None, None], rows[:, :, None, None])
        if turned:
            angle = -box[4] if turned == "clockwise" else box[4]
            centre = box[:2] * spatial_scale - 0.5
            sine, cosine = torch.sin(angle), torch.cos(angle)
            z, y = z * cosine + y * sine + centre[0], y * cosine - z * sine + centre[1]
        near = (y >= -1) & (y <= height) & (z >= -1) & (z <= width)
        safe_y, safe_z = (
            torch.where(near, v.clamp(0, n - 1), 0) for v, n in ((y, height), (z, width))
        )
        values = torch.where(near, read_between(x[image], safe_y, safe_z), 0)
        found = values.amax(dim=(2, 4)).clamp(min=0) if mode == "max" else values.mean(dim=(2, 4))
        results.append(found.unsqueeze(0).to(x.dtype))
    return torch.cat(results)


def bin_places(start: Tensor, size: Tensor, bins: int, ratio: int) -> Tensor:
    """The middles of the cells of each bin along an axis, [bins, cells]."""
    step = size / bins
    finite = bool(torch.isfinite(step))
    count = (ratio or max(0, math.ceil(float(step)))) if finite else 0
    inner = step / max(1, count) * (torch.arange(count, device=size.device) + 0.5)
    return start + torch.arange(bins, device=size.device).unsqueeze(1) * step + inner


def roi_pooling(
    x: Tensor, rois: Tensor, pooled_h: int, pooled_w: int, spatial_scale: float, method: str
) -> Tensor:
    """The largest cell of each bin of each box, or a read between cells."""
    output = x.new_zeros((len(rois), x.shape[1], pooled_h, pooled_w))
    height, width = x.shape[2:]
    for k, box in enumerate(rois):
        if float(box[0]) < 0 or not bool(torch.isfinite(box[0])):
            break
        image, place = x[int(box[0])], box[1:]
        if method == "bilinear":
            y = read_places(place[1], place[3], pooled_h, height)
            z = read_places(place[0], place[2], pooled_w, width)
            y, z = torch.broadcast_tensors(y.unsqueeze(1), z)
            inside = (y >= 0) & (y <= height - 1) & (z >= 0) & (z <= width - 1)
            safe = [torch.where(inside, v, 0) for v in (y, z)]
            output[k] = torch.where(inside, read_between(image, *safe), 0)
            continue
        corners = round_half_away(place * spatial_scale).nan_to_num().clamp(-(2.0**40), 2.0**40)
        x1, y1, x2, y2 = (int(v) for v in corners)
        rows = bin_edges(y1, y2, pooled_h, height)
        columns = bin_edges(x1, x2, pooled_w, width)
        for i in range(pooled_h):
            for j in range(pooled_w):
                cells = image[:, rows[i][0] : rows[i][1], columns[j][0] : columns[j][1]]
                if cells.numel():
                    output[k, :, i, j] = cells.amax(dim=(1, 2))
    return output


def bin_edges(first: int, last: int, bins: int, limit: int) -> list[tuple[int, int]]:
    """The first cell of each bin and the one past its last, inside the image."""
    size = max(last - first + 1, 1)
    edges = ((first + i * size // bins, first - (i + 1) * size // -bins) for i in range(bins))
    return [(min(max(b, 0), limit), min(max(e, 0), limit)) for b, e in edges]


def read_places(start: Tensor, end: Tensor, count: int, size: int) -> Tensor:
    """Even places from start to end, both included."""
    if count == 1:
        return (0.5 * (start + end) * (size - 1)).reshape(1)
    steps = torch.arange(count - 1, device=start.device)
    places = steps * ((end - start) * (size - 1) / (count - 1)) + start * (size - 1)
    return torch.cat([places, (end * (size - 1)).reshape(1)])
