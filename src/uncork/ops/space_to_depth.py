"""SpaceToDepth-1, DepthToSpace-1: blocks of the spatial dimensions moved into the channels and
back.

    SpaceToDepth: output[n, d, s_1, .., s_k] = data[n, c, s_1 B + b_1, .., s_k B + b_k]
    d = (b_1, .., b_k, c) with mode blocks_first, (c, b_1, .., b_k) with depth_first
    B = block_size

DepthToSpace does the reverse. Pages: operation-specs/movement/space-to-depth-1, depth-to-space-1.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.shapes import divided
from uncork.ops._operation import Moving, register
from uncork.ops._ports import Attribute, at_least, integer, one_of
from uncork.types import Array, Dimension, PartialShape, TensorSpec


class _Depth(Moving):
    block_size = Attribute(integer, default=1, check=at_least(1))
    mode = Attribute(one_of("blocks_first", "depth_first"))

    def divided(self, dim: Dimension, times: int, what: str, data: TensorSpec) -> Dimension:
        return divided(
            self,
            dim,
            times,
            "expected {} that are multiples of {}, got data {}",
            what,
            times,
            data.shape,
        )

    def check_rank(self, data: TensorSpec) -> None:
        self.require(
            data.rank is None or data.rank >= 3,
            "input 'data': expected at least 3 dimensions, got shape {}",
            data.shape,
        )


@register("SpaceToDepth", 1)
class SpaceToDepth1(_Depth):
    """`data [N, C, D_1, .., D_k]` -> `[N, C B**k, D_1 / B, .., D_k / B]`."""

    def infer(self, data: TensorSpec) -> PartialShape:
        self.check_rank(data)
        if data.rank is None:
            return data.shape
        depth = data.shape[1] * self.block_size ** (data.rank - 2)
        return PartialShape(
            [
                data.shape[0],
                depth,
                *(
                    self.divided(d, self.block_size, "spatial dimensions", data)
                    for d in data.shape[2:]
                ),
            ]
        )

    def reference(self, data: Array) -> Array:
        batch, depth, *sizes = data.shape
        count, block = len(sizes), self.block_size
        split = data.reshape([batch, depth, *(n for s in sizes for n in (s // block, block))])
        spatial = list(range(2, 2 + 2 * count, 2))
        within = [a + 1 for a in spatial]
        order = (
            [0, *within, 1, *spatial] if self.mode == "blocks_first" else [0, 1, *within, *spatial]
        )
        return np.asarray(
            split.transpose(order).reshape(
                [batch, depth * block**count, *(s // block for s in sizes)]
            )
        )


@register("DepthToSpace", 1)
class DepthToSpace1(_Depth):
    """`data [N, C, D_1, .., D_k]` -> `[N, C / B**k, D_1 B, .., D_k B]`."""

    def infer(self, data: TensorSpec) -> PartialShape:
        self.check_rank(data)
        if data.rank is None:
            return data.shape
        depth = self.divided(data.shape[1], self.block_size ** (data.rank - 2), "channels", data)
        return PartialShape([data.shape[0], depth, *(d * self.block_size for d in data.shape[2:])])

    def reference(self, data: Array) -> Array:
        batch, depth, *sizes = data.shape
        count, block = len(sizes), self.block_size
        depth //= block**count
        first = self.mode == "blocks_first"
        split = data.reshape(
            [batch, *[block] * count, depth, *sizes]
            if first
            else [batch, depth, *[block] * count, *sizes]
        )
        channels, within = (1 + count, 1) if first else (1, 2)
        order = [0, channels, *(a for k in range(count) for a in (2 + count + k, within + k))]
        return np.asarray(
            split.transpose(order).reshape([batch, depth, *(s * block for s in sizes)])
        )
