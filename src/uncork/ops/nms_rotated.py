"""NMSRotated-13: non-maximum suppression of boxes that are turned by an angle.

    box = x_center, y_center, width, height, angle in radians
    y points down, so a positive angle turns clockwise
    overlap(a, b) = area(a and b) / (area(a) + area(b) - area(a and b)),   0 where a box has no area
    weight(overlap) = 1 if overlap <= iou_threshold else 0

The area of what two boxes share is that of the polygon whose corners are the points where their
edges cross and the corners of either box that lie in the other (shoelace formula). Page:
operation-specs/sort/nms-rotated-13; what it leaves open is decided in `_suppression.py`. Areas are
computed in f64: points on an edge are many, and rounding decides on which side they are.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.suppression import SuppressionWithScores
from uncork.ops._operation import register
from uncork.ops._ports import INTEGER, REAL, Attribute, Input, boolean
from uncork.types import Array

#: How far past an edge, as a part of the size of the boxes, a point still counts as on it.
_TOLERANCE = 1e-9


@register("NMSRotated", 13)
class NMSRotated13(SuppressionWithScores):
    max_output_boxes_per_class = Input(INTEGER)
    iou_threshold = Input(REAL, "T_THRESHOLDS")
    score_threshold = Input(REAL, "T_THRESHOLDS")
    clockwise = Attribute(boolean, default=True)
    box_size = 5

    def prepared(self, boxes: Array) -> Array:
        turned = boxes.astype(np.float64)
        if not self.clockwise:
            turned[:, 4] = -turned[:, 4]
        return turned

    def overlap(self, box: Array, others: Array) -> Array:
        area, other_areas = box[2] * box[3], others[:, 2] * others[:, 3]
        has_area = (area > 0) & (other_areas > 0)
        common = shared_areas(box, others)
        return np.where(has_area, common / np.where(has_area, area + other_areas - common, 1), 0)


def corners(boxes: Array) -> Array:
    """The corners [n, 4, 2] of boxes [n, 5], in order around each box."""
    half = (
        np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]]) * boxes[:, np.newaxis, 2:4]
    )
    cosine, sine = np.cos(boxes[:, 4, np.newaxis]), np.sin(boxes[:, 4, np.newaxis])
    turned = np.stack(
        [half[..., 0] * cosine - half[..., 1] * sine, half[..., 0] * sine + half[..., 1] * cosine],
        axis=-1,
    )
    return np.asarray(boxes[:, np.newaxis, :2] + turned)


def shared_areas(box: Array, others: Array) -> Array:
    """The area that a box [5] shares with each of others [n, 5]."""
    moved = others.copy()
    moved[:, :2] -= box[:2]  # near the origin nothing is lost to large coordinates
    alone = np.concatenate([np.zeros(2), box[2:]])[np.newaxis]
    second = corners(moved)
    first = np.broadcast_to(corners(alone), second.shape)
    crossings, cross = _crossings(first, second)
    points = np.concatenate([crossings, first, second], axis=1)
    counted = np.concatenate(
        [cross, _inside(moved, first), _inside(np.broadcast_to(alone, moved.shape), second)], axis=1
    )
    # Around their centre the corners of a convex polygon go by angle; what is not counted becomes a
    # repetition of one that is.
    number = np.maximum(counted.sum(axis=1), 1)[:, np.newaxis]
    offsets = (
        points - (np.where(counted[..., np.newaxis], points, 0).sum(axis=1) / number)[:, np.newaxis]
    )
    angles = np.where(counted, np.arctan2(offsets[..., 1], offsets[..., 0]), np.inf)
    order = np.argsort(angles, axis=1)
    order = np.where(np.arange(order.shape[1]) < number, order, order[:, :1])
    around = np.take_along_axis(offsets, order[..., np.newaxis], axis=1)
    following = np.roll(around, -1, axis=1)
    area: Array = (around[..., 0] * following[..., 1] - around[..., 1] * following[..., 0]).sum(
        axis=1
    ) / 2
    return np.where(counted.sum(axis=1) > 2, np.abs(area), 0)


def _crossings(first: Array, second: Array) -> tuple[Array, Array]:
    """The points [n, 16, 2] where the edges of each first box cross those of the second, and which
    of these points there are.
    """
    start, step = first[:, :, np.newaxis], (np.roll(first, -1, axis=1) - first)[:, :, np.newaxis]
    other_start, other_step = (
        second[:, np.newaxis],
        (np.roll(second, -1, axis=1) - second)[:, np.newaxis],
    )
    turn = _cross(step, other_step)
    scale = _cross_size(step, other_step)
    # parallel edges do not cross: their ends are corners inside
    crossing = np.abs(turn) > _TOLERANCE * scale
    divisor = np.where(crossing, turn, 1)
    gap = other_start - start
    along, other_along = _cross(gap, other_step) / divisor, _cross(gap, step) / divisor
    crossing &= (along >= 0) & (along <= 1) & (other_along >= 0) & (other_along <= 1)
    points = start + along[..., np.newaxis] * step
    return points.reshape(len(first), 16, 2), crossing.reshape(len(first), 16)


def _inside(boxes: Array, points: Array) -> Array:
    """Whether each of points [n, 4, 2] lies in its box of [n, 5], the box's edges included."""
    offset = points - boxes[:, np.newaxis, :2]
    cosine, sine = np.cos(boxes[:, 4, np.newaxis]), np.sin(boxes[:, 4, np.newaxis])
    across = offset[..., 0] * cosine + offset[..., 1] * sine
    down = offset[..., 1] * cosine - offset[..., 0] * sine
    margin = (
        _TOLERANCE
        * (np.abs(boxes[:, 2:4]).sum(axis=1) + np.abs(offset).max(axis=(1, 2)))[:, np.newaxis]
    )
    return np.asarray(
        (np.abs(across) <= boxes[:, 2, np.newaxis] / 2 + margin)
        & (np.abs(down) <= boxes[:, 3, np.newaxis] / 2 + margin)
    )


def _cross(a: Array, b: Array) -> Array:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _cross_size(a: Array, b: Array) -> Array:
    return np.asarray(np.hypot(a[..., 0], a[..., 1]) * np.hypot(b[..., 0], b[..., 1]))
