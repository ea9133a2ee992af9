"""Boxes chosen among boxes that overlap."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def overlaps(box: Tensor, others: Tensor, pixel: float = 0.0, touching: bool = False) -> Tensor:
    """Intersection over union of a box [4] and each of others [n, 4]; 0 where one has no area."""
    sides = [
        torch.minimum(box[k + 2], others[:, k + 2]) - torch.maximum(box[k], others[:, k])
        for k in (0, 1)
    ]
    common = (sides[0] + pixel).clamp(min=0) * (sides[1] + pixel).clamp(min=0)
    area = (box[2] - box[0] + pixel) * (box[3] - box[1] + pixel)
    areas = (others[:, 2] - others[:, 0] + pixel) * (others[:, 3] - others[:, 1] + pixel)
    has_area = (area > 0) & (areas > 0)
    found = torch.where(has_area, common / torch.where(has_area, area + areas - common, 1.0), 0.0)
    if touching:
        found = torch.where((sides[0] < 0) | (sides[1] < 0), 0.0, found)
    return found


def without_overlap(
    boxes: Tensor, threshold: float, limit: int | None = None, pixel: float = 0.0, eta: float = 1.0
) -> list[int]:
    """Places of boxes, best first, none of which overlaps one before it beyond the threshold."""
    taken: list[int] = []
    left = torch.arange(len(boxes), device=boxes.device)
    while len(left) and (limit is None or len(taken) < limit):
        best, left = int(left[0]), left[1:]
        taken.append(best)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        left = left[overlaps(boxes[best], boxes[left], pixel) <= threshold]
    return taken


def falling(scores: Tensor) -> Tensor:
    """Places in the order of falling score, equal scores in their own order."""
    return torch.argsort(scores, descending=True, stable=True)


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    center: bool,
    ordered: bool,
    limit: int = 0,
    overlap: float = 0.0,
    threshold: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows image, class, box of the boxes that stay; their scores; how many there are."""
    rows: list[list[int]] = []
    if center:
        half = boxes[..., 2:] / 2
        boxes = torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    else:
        low = torch.minimum(boxes[..., :2], boxes[..., 2:])
        boxes = torch.cat([low, torch.maximum(boxes[..., :2], boxes[..., 2:])], -1)
    most = overlap if overlap > 0 else -math.inf
    for image in range(scores.shape[0] if scores.numel() else 0):
        for number in range(scores.shape[1]):
            own = scores[image, number]
            left = torch.nonzero(own >= threshold).reshape(-1)
            ranked = left[falling(own[left])]
            kept = without_overlap(boxes[image, ranked], most, max(limit, 0))
            rows += [[image, number, int(ranked[k])] for k in kept]
    indices = torch.tensor(rows, dtype=torch.int64, device=boxes.device).reshape(-1, 3)
    values = scores[indices[:, 0], indices[:, 1], indices[:, 2]]
    if ordered:
        order = falling(values)
        indices, values = indices[order], values[order]
    triples = torch.cat([indices[:, :2].to(scores.dtype), values.unsqueeze(1)], 1)
    return indices, triples, torch.tensor([len(rows)], device=boxes.device)


def nms_of_class(
    boxes: Tensor,
    scores: Tensor,
    threshold: float,
    limit: int,
    pixel: int,
    iou_threshold: float,
    eta: float,
) -> tuple[Tensor, Tensor]:
    """Places of the boxes of a class that stay, and their scores."""
    left = torch.nonzero(scores >= threshold).reshape(-1)
    left = left[falling(scores[left])]
    left = left[:limit] if limit >= 0 else left
    taken = left[without_overlap(boxes[left], iou_threshold, None, pixel, eta)]
    return taken, scores[taken]


def matrix_nms_of_class(
    boxes: Tensor,
    scores: Tensor,
    threshold: float,
    limit: int,
    pixel: int,
    gaussian: float | None,
    post_threshold: float,
) -> tuple[Tensor, Tensor]:
    """Places of boxes and their decayed scores, where those are high enough still."""
    left = torch.nonzero(scores > threshold).reshape(-1)
    left = left[falling(scores[left])]
    left = left[:limit] if limit >= 0 else left
    best = boxes[left]
    values = list(scores[left])
    largest = [torch.zeros_like(v) for v in values]
    for j in range(1, len(values)):
        overlap = overlaps(best[j], best[:j], pixel, touching=True)
        before = torch.stack(largest[:j])
        if gaussian is not None:
            decay = torch.exp((before**2 - overlap**2) * gaussian)
        else:
            decay = torch.where(before == 1, math.inf, (1 - overlap) / (1 - before))
        values[j] = values[j] * decay.min()
        largest[j] = overlap.max()
    found = torch.stack(values) if values else scores[left]
    kept = found > post_threshold
    return left[kept], found[kept]


def lexical_order(*keys: Tensor) -> Tensor:
    """The order of rows by several keys, the last one first."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in keys:
        order = order[torch.argsort(key[order], stable=True)]
    return order


def best_of_classes(
    boxes: Tensor,
    scores: Tensor,
    counts: Tensor | None,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    background_class: int,
    sort_result_type: str,
    across: bool,
    pixel: int,
    by_class: bool,
    suppress: Callable[..., tuple[Tensor, Tensor]],
    **options: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows class, score, box; the place of each box; how many rows each image has."""
    images = []
    if counts is None:
        for k in range(len(scores)):
            places = torch.arange(boxes.shape[1], device=boxes.device) + k * boxes.shape[1]
            classes = scores.shape[1] if scores.numel() else 0
            images.append([(boxes[k], scores[k, c], places) for c in range(classes)])
    else:
        classes, number = scores.shape
        places = torch.arange(classes * number, device=boxes.device).reshape(number, classes).T
        end = 0
        for count in counts.tolist():
            part = slice(end, end + count)
            end += count
            images.append(
                [(boxes[c, part], scores[c, part], places[c, part]) for c in range(classes)]
            )
    tables: list[list[Tensor]] = []
    numbers = []
    for image, parts in enumerate(images):
        rows: list[list[Tensor]] = []
        for label, (own, values, places) in enumerate(parts):
            if label == background_class:
                continue
            taken, found = suppress(own, values, score_threshold, nms_top_k, pixel, **options)
            one = torch.ones_like(taken)
            rows.append([image * one, label * one, found, places[taken], own[taken]])
        nothing = torch.zeros(0, dtype=torch.int64, device=boxes.device)
        rows.append([nothing, nothing, scores.new_zeros(0), nothing, boxes.new_zeros((0, 4))])
        table = [torch.cat(column) for column in zip(*rows, strict=True)]
        order = lexical_order(table[3], table[1], -table[2])
        order = order[:keep_top_k] if keep_top_k >= 0 else order
        table = [column[order] for column in table]
        if by_class:
            order = lexical_order(table[3], -table[2], table[1])
            table = [column[order] for column in table]
        numbers.append(len(table[0]))
        tables.append(table)
    nothing = torch.zeros(0, dtype=torch.int64, device=boxes.device)
    tables.append([nothing, nothing, scores.new_zeros(0), nothing, boxes.new_zeros((0, 4))])
    image_of, label_of, score, place, box = (
        torch.cat(column) for column in zip(*tables, strict=True)
    )
    if across and sort_result_type == "score":
        order = lexical_order(place, label_of, image_of, -score)
    elif across and sort_result_type == "classid":
        order = lexical_order(place, -score, image_of, label_of)
    else:
        order = torch.arange(len(score), device=boxes.device)
    columns = [label_of[order].to(boxes.dtype).unsqueeze(1), score[order].unsqueeze(1), box[order]]
    total = torch.tensor(numbers, dtype=torch.int64, device=boxes.device)
    return torch.cat(columns, 1), place[order].unsqueeze(1), total


def detection_output(
    logits: Tensor,
    preds: Tensor,
    proposals: Tensor,
    objectness: Tensor | None,
    moves: Tensor | None,
    background_label_id: int,
    top_k: int,
    nms_threshold: float,
    confidence_threshold: float,
    clip_after_nms: bool,
    clip_before_nms: bool,
    share_location: bool,
    normalized: bool,
    objectness_score: float,
    variance_encoded_in_target: bool,
    decrease_label_id: bool,
    keep_top_k: int,
    num_classes: int | None,
    centered: bool,
    image: list[int],
) -> Tensor:
    """Rows image, class, confidence, box of the detections of an SSD."""
    size = 4 if normalized else 5
    images, priors = len(logits), proposals.shape[2] // size
    classes = num_classes or preds.shape[1] // priors
    scores = preds.reshape(images, priors, classes)
    scores = torch.where(torch.isnan(scores), -math.inf, scores)
    if objectness is not None:
        none = objectness.reshape(images, priors, 2)[..., 1] < objectness_score
        certain = (torch.arange(classes, device=preds.device) == background_label_id).to(
            scores.dtype
        )
        scores = torch.where(none.unsqueeze(-1), certain, scores)
    shape = (images, priors, 1 if share_location else classes, 4)
    boxes = proposals[:, 0].reshape(len(proposals), priors, 1, size)[..., -4:]
    if not normalized:
        boxes = boxes / torch.tensor(image * 2, dtype=boxes.dtype, device=boxes.device)
    variances = torch.ones(4, dtype=boxes.dtype, device=boxes.device)
    if not variance_encoded_in_target:
        variances = proposals[:, 1, : 4 * priors].reshape(len(proposals), priors, 1, 4)
    for offsets in (moves, logits):
        if offsets is not None:
            moved = variances * offsets.reshape(shape)
            boxes = decoded_boxes(boxes, moved, centered, clip_before_nms)
    boxes = boxes.expand(images, *boxes.shape[1:])
    rows = []
    for k in range(images):
        taken: list[tuple[int, int, float]] = []
        own = candidates_of(
            scores[k], background_label_id, top_k, confidence_threshold, decrease_label_id
        )
        for label, places in own:
            found = boxes[k, places, 0 if share_location else label]
            kept = without_overlap(found, nms_threshold)
            taken += [(label, int(places[i]), float(scores[k, places[i], label])) for i in kept]
        if -1 < keep_top_k < len(taken):
            best = sorted(taken, key=lambda row: (-row[2], row[1]))[:keep_top_k]
            taken = sorted(best, key=lambda row: row[0])
        for label, place, _ in taken:
            box = boxes[k, place, 0 if share_location else label]
            box = box.clamp(0, 1) if clip_after_nms else box
            head = box.new_tensor([k, label - int(decrease_label_id)])
            rows.append(torch.cat([head, scores[k, place, label].reshape(1), box]))
    if keep_top_k > 0:
        room = images * keep_top_k
    else:
        room = images * classes * (top_k if keep_top_k == -1 and top_k > 0 else priors)
    output = preds.new_zeros((room, 7))
    if rows:
        output = torch.cat([torch.stack(rows), output[len(rows) :]])
    if len(rows) < room:
        output[len(rows), 0] = -1
    return output[None, None]


def decoded_boxes(priors: Tensor, offsets: Tensor, centered: bool, clip: bool) -> Tensor:
    """Priors moved by offsets, of corners or of center and size."""
    if centered:
        low, high = priors[..., :2], priors[..., 2:]
        size = high - low
        center = (low + high) / 2 + offsets[..., :2] * size
        half = torch.exp(offsets[..., 2:]) * size / 2
        boxes = torch.cat([center - half, center + half], -1)
    else:
        boxes = priors + offsets
    return boxes.clamp(0, 1) if clip else boxes


def candidates_of(
    scores: Tensor, background: int, top_k: int, threshold: float, only_best: bool
) -> list[tuple[int, Tensor]]:
    """The places of each class's boxes, best first."""
    labels = [c for c in range(scores.shape[1]) if c != background]
    if not scores.numel():
        return []
    if not only_best:
        found = []
        for c in labels:
            places = torch.nonzero(scores[:, c] > threshold).reshape(-1)
            places = places[falling(scores[places, c])]
            found.append((c, places if top_k < 0 else places[:top_k]))
        return found
    labels = [c for c in labels if c > 0]
    if not labels:
        return []
    best = torch.tensor(labels, device=scores.device)[scores[:, labels].argmax(dim=1)]
    confidence = scores.gather(1, best.unsqueeze(1)).squeeze(1)
    places = torch.nonzero((confidence >= threshold) & (confidence > -1)).reshape(-1)
    places = places[falling(confidence[places])]
    places = places if top_k < 0 else places[:top_k]
    return [(c, places[best[places] == c]) for c in labels]
