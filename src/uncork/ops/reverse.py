"""Reverse-1: `data` backwards along some axes.

Page: operation-specs/movement/reverse-1. Where it is silent: axes may count from the end; one that
is named twice counts once (S).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.vectors import known_axes, length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import BOOLEAN, INTEGER, Attribute, Input, one_of
from uncork.types import Array, PartialShape, TensorSpec


@register("Reverse", 1)
class Reverse1(Moving):
    """`axis` holds axes (mode index) or one boolean for each dimension (mode mask)."""

    axis = Input(INTEGER | BOOLEAN)
    mode = Attribute(one_of("index", "mask"))

    def infer(self, data: TensorSpec, axis: TensorSpec) -> PartialShape:
        masked = self.mode == "mask"
        self.require(
            (axis.element_type in BOOLEAN) == masked,
            "input 'axis': expected {} in mode {}, got {}",
            "boolean" if masked else "an integer type",
            self.mode,
            axis.element_type,
        )
        numbers = vector(self, "axis", axis)
        if data.rank is not None:
            if masked:
                self.require(
                    length(axis).agrees(data.rank),
                    "input 'axis': expected a boolean for each dimension of data {}, got shape {}",
                    data.shape,
                    axis.shape,
                )
            else:
                known_axes(self, numbers, data.rank, "axis", unique=self.strict)
        elif masked and length(axis).is_static:
            return PartialShape([None] * length(axis).low)
        return data.shape

    def reference(self, data: Array, axis: Array) -> Array:
        chosen = (
            np.flatnonzero(axis)
            if self.mode == "mask"
            else set((axis.astype(np.int64) % max(data.ndim, 1)).tolist())
        )
        return np.array(np.flip(data, tuple(int(a) for a in chosen)), order="C")
