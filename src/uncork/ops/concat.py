"""Concat-1: tensors of one rank, one after the other along an axis.

Page: operation-specs/movement/concat-1.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, Attribute, Input, Output, integer
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


@register("Concat", 1)
class Concat1(Operation):
    """Any number of inputs, of equal dimensions but for `axis`."""

    tensors = Input(ANY, "T", variadic=True, moved=True)
    output = Output("T")
    axis = Attribute(integer)

    def infer(self, *specs: TensorSpec) -> PartialShape:
        ranks = sorted({s.rank for s in specs if s.rank is not None})
        if not ranks:
            return PartialShape()
        self.require(
            len(ranks) == 1,
            "expected inputs of one rank, got shapes {}",
            ", ".join(str(s.shape) for s in specs),
        )
        self.require(ranks[0] > 0, "the inputs are scalars: there is no axis to join along")
        along = normalised_axis(self, self.axis, ranks[0])
        output = PartialShape([None] * ranks[0])
        total = Dimension(0, 0)
        for position, spec in enumerate(specs):
            if spec.rank is None:
                total = total + DYNAMIC
                continue
            total = total + spec.shape[along]
            output = self.wanted(
                output.merge(spec.shape.with_dimension(along, DYNAMIC)),
                "input {}: expected dimensions {} but for axis {}, got {}",
                position,
                specs[0].shape,
                along,
                spec.shape,
            )
        return output.with_dimension(along, total)

    def reference(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)
