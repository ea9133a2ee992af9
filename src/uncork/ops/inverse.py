"""Inverse-14: inverses of square matrices, or their transposes (`adjoint`).

Page: operation-specs/matrix/inverse-14. f64 is computed in f64, where the page goes through f32. A
matrix that the elimination finds singular is refused with its place in the batch; one that is
nearly so gives large numbers.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import OfReals, register
from uncork.ops._ports import Attribute, boolean
from uncork.types import Array, PartialShape, TensorSpec


@register("Inverse", 14)
class Inverse(OfReals):
    """`data [..., n, n]`"""

    multiplies = True
    adjoint = Attribute(boolean, default=False)

    def infer(self, data: TensorSpec) -> PartialShape:
        if data.rank is None:
            return data.shape
        self.require(
            data.rank >= 2, "input 'data': expected at least 2 dimensions, got shape {}", data.shape
        )
        side = self.wanted(
            data.shape[-1].merge(data.shape[-2]),
            "input 'data': expected square matrices, got shape {}",
            data.shape,
        )
        return PartialShape([*data.shape[:-2], side, side])

    def reference(self, data: Array) -> Array:
        output = np.empty_like(data)
        for place in np.ndindex(*data.shape[:-2]):
            try:
                output[place] = np.linalg.inv(data[place])
            except np.linalg.LinAlgError:
                self.refuse(
                    "input 'data': the matrix{} is singular and has no inverse",
                    f" at {list(place)}" if place else "",
                )
        return np.swapaxes(output, -1, -2) if self.adjoint else output
