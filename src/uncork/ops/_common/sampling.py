"""Reading images between their cells: what GridSample, deformable convolutions and poolings of
regions share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.types import Array


def pixels(image: Array, y: Array, x: Array, which: Any = ...) -> Array:
    """image[.., y, x] for arrays of whole coordinates; 0 outside. `which` picks from the other
    dimensions, all of them by default.
    """
    height, width = image.shape[-2:]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    if not inside.any():
        return np.zeros((image.shape[:-2] if which is ... else ()) + inside.shape, image.dtype)
    found: Array = image[which, np.where(inside, y, 0), np.where(inside, x, 0)]
    return np.where(inside, found, image.dtype.type(0))


def bilinear(image: Array, y: Array, x: Array, which: Any = ...) -> Array:
    """The image [.., H, W] at coordinates between its cells; what lies outside counts as 0."""
    top, left = np.floor(y), np.floor(x)
    down, right = y - top, x - left
    rows, columns = top.astype(np.int64), left.astype(np.int64)
    upper = (1 - right) * pixels(image, rows, columns, which) + right * pixels(
        image, rows, columns + 1, which
    )
    lower = (1 - right) * pixels(image, rows + 1, columns, which) + right * pixels(
        image, rows + 1, columns + 1, which
    )
    return np.asarray((1 - down) * upper + down * lower)
