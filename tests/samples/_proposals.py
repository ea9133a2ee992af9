"""Moving boxes and choosing among them in Python numbers, for the operations that propose
regions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.samples._suppression import intersection_over_union

Box = Sequence[float]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def moved_box(box: Box, delta: Box, pixel: int, largest: float = math.inf) -> list[float]:
    """With its high ends at center + size / 2."""
    ends = []
    for axis in (0, 1):
        size = box[axis + 2] - box[axis] + pixel
        center = box[axis] + size / 2 + delta[axis] * size
        half = math.exp(min(delta[axis + 2], largest)) * size / 2
        ends.append((center - half, center + half))
    return [ends[0][0], ends[1][0], ends[0][1], ends[1][1]]


def cut(box: Box, width: float, height: float) -> list[float]:
    return [
        max(0.0, min(v, limit))
        for v, limit in zip(box, (width, height, width, height), strict=True)
    ]


def touching_iou(a: Box, b: Box, pixel: int) -> float:
    apart = any(min(a[i + 2], b[i + 2]) < max(a[i], b[i]) for i in (0, 1))
    return 0.0 if apart else intersection_over_union(a, b, pixel)


def apart_from_better(
    boxes: list[Any], order: list[int], threshold: float, limit: int, pixel: int, eta: float = 1.0
) -> list[int]:
    """Of boxes in an order those that overlap none before them by more than the threshold of the
    time when that one was taken.
    """
    taken: list[tuple[int, float]] = []
    for place in order:
        if len(taken) == limit:
            break
        if all(touching_iou(boxes[place], boxes[other], pixel) <= bar for other, bar in taken):
            if eta < 1 and threshold > 0.5:
                threshold *= eta
            taken.append((place, threshold))
    return [place for place, _ in taken]


def distinct_scores(count: int, generator: np.random.Generator) -> np.ndarray:
    """Multiples of 1/64 above 0 in any order, no two alike: what equal scores do is another
    question.
    """
    return (generator.permutation(count) + 1) / 64
