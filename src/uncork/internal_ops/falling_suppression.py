"""Internal operation: the suppression that MulticlassNms and DetectionOutput are made of."""

from __future__ import annotations

from uncork.ops._ports import Field
from uncork.ops.non_max_suppression import NonMaxSuppression9
from uncork.types import Array


class FallingSuppression(NonMaxSuppression9):
    """NonMaxSuppression of boxes whose corners stand in order; its threshold, above 0.5, falls to
    `eta` times what it was with each box taken.
    """

    eta = Field[float]()

    def prepared(self, boxes: Array) -> Array:
        return boxes
