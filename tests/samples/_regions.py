"""Regions of images for the samples of ROI operations: random boxes, and reading between cells as a
sum over all cells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from uncork import storage
from uncork.types import ElementType


def hat(image: np.ndarray, y: float, x: float) -> float:
    """An image [H, W] between its cells: every cell by its distance from the place."""
    total = 0.0
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            total += max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column)) * image[row, column]
    return total


def away(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    return math.floor(abs(value) + 0.5) * (1 if value > 0 else -1)


@st.composite
def images_and_boxes(
    draw: st.DrawFn, channels: int, numbers: int, with_image: bool, low: float, high: float
) -> tuple[list[Any], str]:
    """`data [N, channels, H, W]`, boxes [R, (image,) numbers] of one type, and the type's name."""
    count, height, width = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    data, name = draw(arrays((count, channels, height, width), FLOATS))
    rows = draw(st.integers(0, 3))
    boxes, _ = draw(arrays((rows, numbers), (name,), low, high))
    if with_image:
        ids = np.array(
            draw(
                st.lists(
                    st.integers(-1 if draw(st.booleans()) else 0, count - 1),
                    min_size=rows,
                    max_size=rows,
                )
            ),
            np.float32,
        )
        boxes = np.concatenate(
            [storage.encode(ids.reshape(rows, 1), ElementType.parse(name)), boxes], axis=1
        )
    return [data, boxes], name
