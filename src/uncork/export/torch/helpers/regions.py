"""Images read in boxes."""

from __future__ import annotations

import torch
from torch import Tensor

from uncork.export.torch.helpers.elementwise import round_half_away


def roi_pooling(
    x: Tensor, rois: Tensor, pooled_h: int, pooled_w: int, spatial_scale: float
) -> Tensor:
    """The largest cell of each bin of each box."""
    output = x.new_zeros((len(rois), x.shape[1], pooled_h, pooled_w))
    height, width = x.shape[2:]
    for k, box in enumerate(rois):
        if float(box[0]) < 0 or not bool(torch.isfinite(box[0])):
            break
        image, place = x[int(box[0])], box[1:]
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
