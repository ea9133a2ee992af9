"""Boxes given by two corners: how much two of them overlap, and choosing among boxes that overlap.

    overlap(a, b) = area(a and b) / (area(a) + area(b) - area(a and b)),   0 where a box has no area

Coordinates may be of pixels, both ends of which belong to the box: then every side is longer by `pixel` = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uncork.types import Array


def areas(boxes: Array, pixel: float = 0) -> Array:
    """Of boxes [.., 4] = low, low, high, high; negative sides are counted as they are."""
    sides: Array = boxes[..., 2:] - boxes[..., :2] + boxes.dtype.type(pixel)
    return sides[..., 0] * sides[..., 1]


def overlaps(box: Array, others: Array, pixel: float = 0) -> Array:
    """Intersection over union of a box [4] and each of others [.., 4]."""
    low = np.maximum(box[:2], others[..., :2])
    high = np.minimum(box[2:], others[..., 2:])
    sides = np.maximum(high - low + others.dtype.type(pixel), 0)
    common = sides[..., 0] * sides[..., 1]
    area, other_areas = areas(box, pixel), areas(others, pixel)
    has_area = (area > 0) & (other_areas > 0)
    return np.where(has_area, common / np.where(has_area, area + other_areas - common, 1), 0)


def touching_overlaps(box: Array, others: Array, pixel: float = 0) -> Array:
    """The same, but boxes without a common point do not overlap, however near they are."""
    apart = (box[:2] > others[..., 2:]).any(axis=-1) | (others[..., :2] > box[2:]).any(axis=-1)
    return np.where(apart, 0, overlaps(box, others, pixel))


def best_first(scores: Array) -> Array:
    """Places by falling score, equal scores in order."""
    order: Array = np.argsort(-scores, kind="stable")
    return order


def without_overlap(
    boxes: Array,
    threshold: float,
    limit: int | None = None,
    pixel: float = 0,
    overlap: Callable[[Array, Array, float], Array] = overlaps,
    eta: float = 1,
) -> list[int]:
    """Places of boxes [n, 4], the best first: up to `limit`, none of which overlaps one before it by more than `threshold`.

    With each box taken, a threshold above 0.5 falls to `eta` times what it was.
    """
    taken: list[int] = []
    left = np.arange(len(boxes))
    while left.size and (limit is None or len(taken) < limit):
        best, left = int(left[0]), left[1:]
        taken.append(best)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        left = left[overlap(boxes[best], boxes[left], pixel) <= threshold]
    return taken
