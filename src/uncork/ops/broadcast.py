"""Broadcast-1, -3: `data` repeated to fill a shape.

- numpy: dimensions aligned from the right; each of `data` is 1 or that of `target_shape`.
- bidirectional (Broadcast-3): as numpy, but a 1 of `target_shape` stretches to `data` too, and so
  do missing dimensions.
- explicit: dimension i of `data` becomes dimension axes_mapping[i] of the output, and is 1 or that
  of `target_shape` there.

Pages: operation-specs/movement/broadcast-1, -3, and the broadcast rules. Where they are silent: in
modes other than explicit a third input is ignored (OpenVINO's own files of Broadcast-1 carry a
dummy), and "none" is that file format's word for explicit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ops._common.broadcast import broadcast_shapes, stretched_dimension
from uncork.ops._common.vectors import all_known, length, sizes, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Attribute, Input, one_of
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec


class _Broadcast(Moving):
    target_shape = Input(INTEGER)
    axes_mapping = Input(INTEGER, optional=True)
    mode: Attribute[str]

    def infer(
        self, data: TensorSpec, target_shape: TensorSpec, axes_mapping: TensorSpec | None
    ) -> PartialShape:
        target = vector(self, "target_shape", target_shape)
        if target is not None:
            self.require(
                all(n is None or n >= 0 for n in target),
                "input 'target_shape': expected no negative sizes, got {}",
                target,
            )
        wanted = None if target is None else sizes(self, "target_shape", target_shape)
        if self.mode in ("explicit", "none"):
            return self.explicit(data, wanted, axes_mapping)
        if wanted is None:
            return PartialShape()
        if self.mode == "bidirectional":
            return broadcast_shapes(
                self, (data.shape, PartialShape(wanted)), ("data", "target_shape")
            )
        if data.rank is None:
            return PartialShape(wanted)
        self.require(
            data.rank <= len(wanted),
            "data {} has more dimensions than target_shape {}",
            data.shape,
            wanted,
        )
        lead = len(wanted) - data.rank
        return self.stretched(data, wanted, list(range(lead, len(wanted))))

    def explicit(
        self, data: TensorSpec, target: Sequence[Element] | None, axes_mapping: TensorSpec | None
    ) -> PartialShape:
        given = self.wanted(axes_mapping, "mode explicit needs the input 'axes_mapping'")
        mapping = vector(self, "axes_mapping", given)
        self.require(
            data.rank is None or length(given).agrees(data.rank),
            "input 'axes_mapping': expected an axis for each dimension of data {}, got shape {}",
            data.shape,
            given.shape,
        )
        axes = all_known(mapping)
        if target is None:
            return PartialShape()
        if axes is None or data.rank is None:
            return PartialShape(target)
        fits = all(0 <= a < len(target) for a in axes) and axes == sorted(set(axes))
        self.require(
            fits,
            "input 'axes_mapping': expected rising axes within 0..{}, got {}",
            len(target) - 1,
            axes,
        )
        return self.stretched(data, target, axes)

    def stretched(
        self, data: TensorSpec, target: Sequence[Element], axes: list[int]
    ) -> PartialShape:
        """The output's shape: the target, with the dimensions filled in that only `data` tells."""
        dims = [Dimension.of(n) for n in target]
        for dim, axis in zip(data.shape, axes, strict=True):
            if target[axis] is None:
                dims[axis] = DYNAMIC if dim.contains(1) else dim
                continue
            dims[axis] = self.wanted(
                stretched_dimension(dims[axis], dim),
                "data {} does not stretch to target_shape {} at axis {}",
                data.shape,
                target,
                axis,
            )
        return PartialShape(dims)

    def reference(self, data: Array, target_shape: Array, axes_mapping: Array | None) -> Array:
        target = [int(n) for n in target_shape]
        if self.mode == "bidirectional":
            target = list(np.broadcast_shapes(data.shape, tuple(target)))
        elif self.mode != "numpy" and axes_mapping is not None:
            places = [1] * len(target)
            for size, axis in zip(data.shape, axes_mapping, strict=True):
                places[int(axis)] = size
            data = data.reshape(places)
        return np.array(np.broadcast_to(data, target), order="C")


@register("Broadcast", 1)
class Broadcast1(_Broadcast):
    """Modes numpy and explicit."""

    mode = Attribute(one_of("numpy", "explicit", "none"), default="numpy")


@register("Broadcast", 3)
class Broadcast3(_Broadcast):
    """Modes numpy, explicit and bidirectional."""

    mode = Attribute(one_of("numpy", "explicit", "bidirectional"), default="numpy")
