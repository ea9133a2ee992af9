"""What operations that propose regions share: anchors moved by predicted deltas, cut to the image
and chosen by score.

size = high - low + pixel,  center = low + size / 2
new center = center + delta * size,  new size = size * exp(delta),   both x first, then y
"""

from __future__ import annotations

import math

import numpy as np

from uncork.types import Array


def moved(boxes: Array, deltas: Array, pixel: int, largest: float = math.inf) -> Array:
    """Boxes [.., 4] = low, low, high, high, moved by deltas [.., 4] of center and logarithm of
    size, the latter up to `largest`.

    The high ends are center + size / 2: one pixel past the box where boxes are of pixels.
    """
    kind = deltas.dtype.type
    size = boxes[..., 2:] - boxes[..., :2] + kind(pixel)
    center = boxes[..., :2] + size / 2 + deltas[..., :2] * size
    half = np.exp(np.minimum(deltas[..., 2:], kind(largest))) * size / 2
    return np.concatenate([center - half, center + half], axis=-1)


def inside(boxes: Array, width: float, height: float) -> Array:
    """Boxes cut to 0..width and 0..height."""
    limits = np.array([width, height, width, height], boxes.dtype)
    return np.asarray(np.maximum(np.minimum(boxes, limits), 0))


def large_enough(boxes: Array, pixel: int, width: float, height: float) -> Array:
    """Which boxes have at least this size."""
    size = boxes[..., 2:] - boxes[..., :2] + boxes.dtype.type(pixel)
    return np.asarray((size >= np.array([width, height], boxes.dtype)).all(axis=-1))


def selected_first(scores: Array, count: int) -> Array:
    """Places of the `count` highest scores, in falling order.

    Equal scores come in the order in which a selection by heap leaves them: the heap of the first
    `count` has the lowest score on top, each later score that is higher takes the top's place, and
    the heap is emptied from the back. No page asks for it, but models show this order where scores
    are 0, and those who compare with OpenVINO see it.
    """
    count = min(count, len(scores))
    order: Array = np.argsort(-scores, kind="stable")
    falling = scores[order[: count + 1]]
    if not (falling[1:] == falling[:-1]).any():
        return order[:count]
    values = scores.tolist()
    heap = list(range(count))
    for top in range(count // 2 - 1, -1, -1):
        _sift(heap, top, count, heap[top], values)
    for index in range(count, len(values)):
        if values[index] > values[heap[0]]:
            _sift(heap, 0, count, index, values)
    for size in range(count - 1, 0, -1):
        last, heap[size] = heap[size], heap[0]
        _sift(heap, 0, size, last, values)
    return np.array(heap, np.int64)


def _sift(heap: list[int], hole: int, size: int, place: int, values: list[float]) -> None:
    """Fill the hole of a heap, in which no child has a lower score than its parent, with `place`:
    the hole sinks to the bottom, and `place` rises from there.
    """
    top = hole
    while 2 * hole + 2 < size:
        child = 2 * hole + 2
        if values[heap[child]] > values[heap[child - 1]]:
            child -= 1
        heap[hole], hole = heap[child], child
    if 2 * hole + 2 == size:
        heap[hole], hole = heap[size - 1], size - 1
    while hole > top and values[heap[(hole - 1) // 2]] > values[place]:
        heap[hole], hole = heap[(hole - 1) // 2], (hole - 1) // 2
    heap[hole] = place
