"""Boxes given by two corners: how much two of them overlap, and choosing among boxes that overlap.

    overlap(a, b) = area(a and b) / (area(a) + area(b) - area(a and b)),   0 where a box has no area

Coordinates may be of pixels, both ends of which belong to the box: then every side is longer by
`pixel` = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uncork.types import Array


def areas(boxes: Array, pixel: float) -> Array:
    """The areas of boxes [.., 4] = low, low, high, high; negative sides are counted as they are."""
    extra = boxes.dtype.type(pixel)
    return np.asarray(
        (boxes[..., 2] - boxes[..., 0] + extra) * (boxes[..., 3] - boxes[..., 1] + extra)
    )


def overlaps(box: Array, others: Array, pixel: float = 0) -> Array:
    """Intersection over union of a box [4] and each of others [.., 4]."""
    common: Array = np.maximum(_shared_side(box, others, 0, pixel), 0) * np.maximum(
        _shared_side(box, others, 1, pixel), 0
    )
    area, other_areas = areas(box, pixel), areas(others, pixel)
    has_area = (area > 0) & (other_areas > 0)
    return np.where(has_area, common / np.where(has_area, area + other_areas - common, 1), 0)


def _shared_side(box: Array, others: Array, axis: int, pixel: float = 0) -> Array:
    """How much of an axis both cover; negative where they lie apart."""
    ends, starts = (
        np.minimum(box[axis + 2], others[..., axis + 2]),
        np.maximum(box[axis], others[..., axis]),
    )
    return np.asarray(ends - starts + others.dtype.type(pixel))


def touching_overlaps(box: Array, others: Array, pixel: float = 0) -> Array:
    """Intersection over union of a box and others, 0 for boxes without a common point, however near
    they are.
    """
    apart = (_shared_side(box, others, 0) < 0) | (_shared_side(box, others, 1) < 0)
    return np.where(apart, 0, overlaps(box, others, pixel))


def best_first(scores: Array) -> Array:
    """The indices of scores from the highest to the lowest, equal scores in order."""
    return np.asarray(np.argsort(-scores, kind="stable"))


def without_overlap(
    boxes: Array,
    threshold: float,
    limit: int | None = None,
    pixel: float = 0,
    overlap: Callable[[Array, Array, float], Array] = overlaps,
    eta: float = 1,
) -> list[int]:
    """Non-maximum suppression: the indices of up to `limit` of the boxes [n, 4], which come best
    first, none of which overlaps one before it by more than `threshold`.

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
