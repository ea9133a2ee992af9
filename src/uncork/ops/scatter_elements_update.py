"""ScatterElementsUpdate-3, -12: `data` with single elements replaced by `updates`, or joined with
them.

    output[indices[i, j, k], j, k] = reduction(output[indices[i, j, k], j, k], updates[i, j, k])
        for axis 0; likewise for others

Pages: operation-specs/movement/scatter-elements-update-3, -12. Version 3 only replaces and refuses
negative indices, as its page says; in version 12 they count from the end. Where the pages are
silent: without `use_init_val` the updates alone are reduced, in places that have any; the mean of
integers is of their exact sum; updates are taken in row-major order, so the last one stays.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.scatter import Reducing, accumulate
from uncork.ops._common.vectors import places, scalar
from uncork.ops._operation import Moving, register
from uncork.ops._ports import ANY, INTEGER, Attribute, Input, boolean, one_of
from uncork.types import Array, PartialShape, TensorSpec


class _Elements(Moving):
    indices = Input(INTEGER)
    updates = Input(ANY, "T", moved=True)
    axis = Input(INTEGER)
    counts_from_end = False

    def infer(
        self, data: TensorSpec, indices: TensorSpec, updates: TensorSpec, axis: TensorSpec
    ) -> PartialShape:
        number = scalar(self, "axis", axis)
        self.require(
            indices.shape.agrees(updates.shape),
            "expected updates of the shape of indices {}, got {}",
            indices.shape,
            updates.shape,
        )
        if data.rank is None:
            return data.shape
        self.require(data.rank > 0, "input 'data' is a scalar: there is no axis to scatter along")
        self.require(
            indices.rank in (None, data.rank),
            "expected indices of the rank of data {}, got {}",
            data.shape,
            indices.shape,
        )
        along = None if number is None else normalised_axis(self, number, data.rank)
        if along is not None and indices.rank is not None:
            fits = [
                k == along or d.covers(i)
                for k, (i, d) in enumerate(zip(indices.shape, data.shape, strict=True))
            ]
            self.require(
                all(fits),
                "expected indices within data {} but for axis {}, got {}",
                data.shape,
                along,
                indices.shape,
            )
        return data.shape

    def targets(self, data: Array, indices: Array, axis: Array) -> tuple[Array, ...]:
        """The place in `data` of each element of `indices`, as one array for each axis."""
        along = int(axis.reshape(-1)[0]) % data.ndim
        grid: list[Array] = list(np.indices(indices.shape))
        grid[along] = places(self, "indices", indices, data.shape[along], self.counts_from_end)
        return tuple(grid)

    def reference(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        output: Array = data.copy()
        accumulate(output, self.targets(data, indices, axis), updates, "none")
        return output


@register("ScatterElementsUpdate", 3)
class ScatterElementsUpdate3(_Elements):
    """Replaces elements."""


class _Overwriting(_Elements):
    counts_from_end = True


@register("ScatterElementsUpdate", 12)
class ScatterElementsUpdate12(Reducing, _Elements):
    """Replaces or reduces."""

    reduction = Attribute(one_of("none", "sum", "prod", "min", "max", "mean"), default="none")
    use_init_val = Attribute(boolean, default=True)
    overwriting = _Overwriting

    def reference(self, data: Array, indices: Array, updates: Array, axis: Array) -> Array:
        index = self.targets(data, indices, axis)
        mean = self.reduction == "mean"
        # The exact sum of integers may need more than 64 bits.
        output: Array = data.astype(object) if mean and data.dtype.kind in "iu" else data.copy()
        if not self.use_init_val:
            output[index] = _neutral(self.reduction, data.dtype)
        accumulate(output, index, updates, "sum" if mean else self.reduction)
        if mean:
            count = np.zeros(data.shape, np.int64)
            np.add.at(count, index, 1)
            touched = count > 0
            count += self.use_init_val
            values, counts = output[touched], count[touched]
            output[touched] = (
                values // counts.astype(object) if output.dtype == object else values / counts
            )
        return output.astype(data.dtype)


def _neutral(reduction: str, dtype: np.dtype) -> object:
    """The identity element of a reduction, which it starts from when the data do not count."""
    if reduction in ("min", "max"):
        if dtype.kind == "b":
            return reduction == "min"
        if dtype.kind == "f":
            return np.inf if reduction == "min" else -np.inf
        return np.iinfo(dtype).max if reduction == "min" else np.iinfo(dtype).min
    return 1 if reduction == "prod" else 0
