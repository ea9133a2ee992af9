"""Squeeze-1, -15, Unsqueeze-1: dimensions of size 1 taken out and put in.

Pages: operation-specs/shape/squeeze-1, -15, unsqueeze-1. An axis of another size than 1 is left as
it is (S: strict refuses it, and an axis that is named twice). As the page says, at load a dynamic
dimension that an axis names counts as 1, so the rank is known; with `allow_axis_skip` (Squeeze-15)
the rank is left open instead. Without axes every 1 goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ops._common.vectors import all_known, known_axes, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, boolean
from uncork.types import Array, Dimension, PartialShape, TensorSpec


def _supposed_one(dim: Dimension, usual: bool) -> bool:
    """Whether a dimension that may be 1 is taken to be 1. For an expression its facts decide; any
    other dimension is.
    """
    size = dim.expression
    facts = None if size is None else size.facts
    return facts is None or size is None or facts.suppose_equal(size, 1, usual)


@register("Squeeze", 1)
class Squeeze1(Moving):
    """`data`, and optionally `axes` (a scalar or 1-D; empty is as absent)."""

    axes = Input(INTEGER, optional=True)

    @property
    def may_skip(self) -> bool:
        """Whether an axis may name a dynamic dimension that turns out not to be 1."""
        return False

    def infer(self, data: TensorSpec, axes: TensorSpec | None) -> PartialShape:
        numbers = [] if axes is None else vector(self, "axes", axes, scalar_too=True)
        if data.rank is None or numbers is None:
            return PartialShape()
        ones = [d.contains(1) for d in data.shape]
        maybe = [d.contains(1) and not d.is_static for d in data.shape]
        if not numbers:
            ones = [
                one and _supposed_one(d, usual=False)
                for d, one in zip(data.shape, ones, strict=True)
            ]
            maybe = [m and not d.is_open for d, m in zip(data.shape, maybe, strict=True)]
            return (
                PartialShape()
                if any(maybe)
                else PartialShape([d for d, one in zip(data.shape, ones, strict=True) if not one])
            )
        known = known_axes(self, numbers, data.rank, unique=self.strict)
        chosen = all_known(known)
        if chosen is None:
            # One axis: it takes one dimension away if it names a 1, and the page's reading is that
            # it does.
            one_goes = len(numbers) == 1 and any(ones) and not self.may_skip
            return PartialShape([None] * (data.rank - 1)) if one_goes else PartialShape()
        for axis in chosen:
            self.require(
                not self.strict or data.shape[axis].agrees(1),
                "axis {} is not of size 1: data {}",
                axis,
                data.shape,
            )
        for axis in chosen:
            ones[axis] = ones[axis] and _supposed_one(data.shape[axis], usual=True)
        if self.may_skip and any(maybe[a] and not data.shape[a].is_open for a in chosen):
            return PartialShape()
        return PartialShape([d for i, d in enumerate(data.shape) if not (i in chosen and ones[i])])

    def supposes(self, specs: Sequence[TensorSpec | None]) -> bool:
        """Whether a dimension that may be 1 is taken to be."""
        data = specs[0]
        return data is not None and (
            data.rank is None or any(d.contains(1) and not d.is_static for d in data.shape)
        )

    def reference(self, data: Array, axes: Array | None) -> Array:
        chosen = (
            range(data.ndim)
            if axes is None or axes.size == 0
            else [int(a) % data.ndim for a in axes.reshape(-1)]
        )
        return data.reshape([s for i, s in enumerate(data.shape) if not (i in chosen and s == 1)])


@register("Squeeze", 15)
class Squeeze15(Squeeze1):
    """`allow_axis_skip` leaves the rank open where an axis names a dynamic dimension."""

    allow_axis_skip = Attribute(boolean, default=False)

    @property
    def may_skip(self) -> bool:
        return self.allow_axis_skip


@register("Unsqueeze", 1)
class Unsqueeze1(Moving):
    """`axes` (a scalar or 1-D) are positions in the output; each of them gets a dimension of 1."""

    axes = Input(INTEGER)

    def infer(self, data: TensorSpec, axes: TensorSpec) -> PartialShape:
        numbers = vector(self, "axes", axes, scalar_too=True)
        if data.rank is None or numbers is None:
            return PartialShape()
        rank = data.rank + len(numbers)
        chosen = all_known(known_axes(self, numbers, rank))
        if chosen is None:
            return PartialShape([None] * rank)
        dims = iter(data.shape)
        return PartialShape([1 if i in chosen else next(dims) for i in range(rank)])

    def reference(self, data: Array, axes: Array) -> Array:
        rank = data.ndim + axes.size
        chosen = [int(a) % rank for a in axes.reshape(-1)]
        sizes = iter(data.shape)
        return data.reshape([1 if i in chosen else next(sizes) for i in range(rank)])
