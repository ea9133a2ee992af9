"""What the poolings of regions share: their shapes, and boxes that name the image they lie in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import Operation
from uncork.types import DYNAMIC, Array, Dimension, TensorSpec


def box_count(operation: Operation, spec: TensorSpec, numbers: int) -> Dimension:
    """How many boxes the input 'rois' [boxes, numbers] holds."""
    operation.require(
        spec.rank is None or (spec.rank == 2 and spec.shape[1].agrees(numbers)),
        "input 'rois': expected boxes of {} numbers [boxes, {}], got shape {}",
        numbers,
        numbers,
        spec.shape,
    )
    return DYNAMIC if spec.rank is None else spec.shape[0]


def boxes_with_images(operation: Operation, boxes: Array, images: int) -> Iterator[tuple[int, int]]:
    """Place of each box and the image that its first number names.

    An image of -1 ends the list: Proposal writes it behind its last box. Numbers that are no image
    are refused.
    """
    ids = boxes[:, 0]
    ends = np.flatnonzero(ids == -1)
    used = ids[: ends[0]] if len(ends) else ids
    wrong = ~((used >= 0) & (used < images) & (used == np.floor(used)))
    if wrong.any():
        refuse_first(
            operation,
            "rois[:, 0]",
            used,
            wrong,
            f"an image from 0 to {images - 1}, or -1 after the last box",
        )
    return ((index, int(image)) for index, image in enumerate(used))


def rounded(values: Array) -> Array:
    """Values rounded to the nearest whole number, halves away from zero, as these operations' pages
    mean it.
    """
    return np.asarray(np.trunc(values + np.copysign(values.dtype.type(0.5), values)))
