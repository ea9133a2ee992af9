"""Boxes chosen among boxes that overlap."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def overlaps(box: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of a box [4] and each of others [n, 4]; 0 where one has no area."""
    sides = [
        torch.minimum(box[k + 2], others[:, k + 2]) - torch.maximum(box[k], others[:, k])
        for k in (0, 1)
    ]
    common = sides[0].clamp(min=0) * sides[1].clamp(min=0)
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    has_area = (area > 0) & (areas > 0)
    return torch.where(has_area, common / torch.where(has_area, area + areas - common, 1.0), 0.0)


def without_overlap(boxes: Tensor, threshold: float, limit: int, eta: float) -> list[int]:
    """Places of boxes, best first, none of which overlaps one before it beyond the threshold."""
    taken: list[int] = []
    left = torch.arange(len(boxes), device=boxes.device)
    while len(left) and len(taken) < limit:
        best, left = int(left[0]), left[1:]
        taken.append(best)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        left = left[overlaps(boxes[best], boxes[left]) <= threshold]
    return taken


def falling(scores: Tensor) -> Tensor:
    """Places in the order of falling score, equal scores in their own order."""
    return torch.argsort(scores, descending=True, stable=True)


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    encoding: str,
    ordered: bool,
    limit: int = 0,
    overlap: float = 0.0,
    threshold: float = 0.0,
    eta: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows image, class, box of the boxes that stay; their scores; how many there are."""
    rows: list[list[int]] = []
    if encoding == "center":
        half = boxes[..., 2:] / 2
        boxes = torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    elif encoding == "corner":
        low = torch.minimum(boxes[..., :2], boxes[..., 2:])
        boxes = torch.cat([low, torch.maximum(boxes[..., :2], boxes[..., 2:])], -1)
    most = overlap if overlap > 0 else -math.inf
    for image in range(scores.shape[0] if scores.numel() else 0):
        for number in range(scores.shape[1]):
            own = scores[image, number]
            left = torch.nonzero(own >= threshold).reshape(-1)
            ranked = left[falling(own[left])]
            kept = without_overlap(boxes[image, ranked], most, limit, eta)
            rows += [[image, number, int(ranked[k])] for k in kept]
    indices = torch.tensor(rows, dtype=torch.int64, device=boxes.device).reshape(-1, 3)
    values = scores[indices[:, 0], indices[:, 1], indices[:, 2]]
    if ordered:
        order = falling(values)
        indices, values = indices[order], values[order]
    triples = torch.cat([indices[:, :2].to(scores.dtype), values.unsqueeze(1)], 1)
    return indices, triples, torch.tensor([len(rows)], device=boxes.device)
