"""SpaceToBatch-2, BatchToSpace-2: blocks of the spatial dimensions moved into the batch dimension
and back.

SpaceToBatch pads with zeros to D_i + P_i, cuts dimension i into blocks of B_i, and stacks the
places within a block before the batch:

    output[(b_1, .., b_k, n), s_1, .., s_k] = padded[n, s_1 B_1 + b_1, .., s_k B_k + b_k]

BatchToSpace does the reverse and crops. Pages: operation-specs/movement/space-to-batch-2,
batch-to-space-2. The first block must be 1 and the first pads and crops 0, as the pages expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.ops._common.shapes import divided
from uncork.ops._common.vectors import Numbers, all_known, length, vector
from uncork.ops._operation import Moving, register
from uncork.ops._ports import INTEGER, Input
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


class _Blocks(Moving):
    block_shape = Input(INTEGER)

    def infer(
        self, data: TensorSpec, block_shape: TensorSpec, begin: TensorSpec, end: TensorSpec
    ) -> PartialShape:
        if data.rank is None:
            return data.shape
        self.require(
            data.rank >= 2, "input 'data': expected at least 2 dimensions, got shape {}", data.shape
        )
        given = zip(self.inputs[1:], (block_shape, begin, end), (1, 0, 0), strict=True)
        blocks, begins, ends = [
            self.numbers(data, port.name, spec, first) for port, spec, first in given
        ]
        dims = [self.batch(data.shape[0], blocks)]
        for axis in range(1, data.rank):
            numbers = all_known([blocks[axis], begins[axis], ends[axis]])
            dims.append(
                DYNAMIC if numbers is None else self.side(data.shape[axis], axis, blocks, numbers)
            )
        return PartialShape(dims)

    def batch(self, batch: Dimension, blocks: Numbers) -> Dimension:
        """The batch dimension of the result."""
        raise NotImplementedError

    def side(
        self, size: Dimension, axis: int, blocks: Numbers, numbers: Sequence[int]
    ) -> Dimension:
        """A spatial dimension of the result, where all of its numbers are known."""
        raise NotImplementedError

    def numbers(self, data: TensorSpec, name: str, spec: TensorSpec, first: int) -> Numbers:
        """The numbers of an input, one for each dimension of `data`: the first is `first`, and none
        is less than that.
        """
        result = vector(self, name, spec)
        assert data.rank is not None
        self.require(
            length(spec).agrees(data.rank),
            "input '{}': expected a number for each dimension of data {}, got shape {}",
            name,
            data.shape,
            spec.shape,
        )
        result = [None] * data.rank if result is None else result
        self.require(
            all(n is None or n >= first for n in result),
            "input '{}': expected numbers of at least {}, got {}",
            name,
            first,
            result,
        )
        self.require(
            result[0] in (None, first),
            "input '{}': expected {} for the batch dimension, got {}",
            name,
            first,
            result,
        )
        return result


@register("SpaceToBatch", 2)
class SpaceToBatch2(_Blocks):
    """`data [N, D_1, ..]` and a block size and two pads for each dimension."""

    pads_begin = Input(INTEGER)
    pads_end = Input(INTEGER)
    fills = True

    def batch(self, batch: Dimension, blocks: Numbers) -> Dimension:
        known = all_known(blocks)
        return DYNAMIC if known is None else batch * math.prod(known)

    def side(
        self, size: Dimension, axis: int, blocks: Numbers, numbers: Sequence[int]
    ) -> Dimension:
        block, begin, end = numbers
        padded = size + (begin + end)
        rule = "expected blocks that divide the padded size {} of axis {}, got block_shape {}"
        return divided(self, padded, block, rule, padded, axis, blocks)

    def reference(
        self, data: Array, block_shape: Array, pads_begin: Array, pads_end: Array, blank: object
    ) -> Array:
        pads = [(int(b), int(e)) for b, e in zip(pads_begin, pads_end, strict=True)]
        padded = np.full(
            [b + s + e for s, (b, e) in zip(data.shape, pads, strict=True)], blank, data.dtype
        )
        padded[tuple(slice(b, b + s) for s, (b, _) in zip(data.shape, pads, strict=True))] = data
        blocks = [int(b) for b in block_shape[1:]]
        sizes = [s // b for s, b in zip(padded.shape[1:], blocks, strict=True)]
        split = padded.reshape(
            [len(padded), *(n for pair in zip(sizes, blocks, strict=True) for n in pair)]
        )
        spatial = range(1, 2 * len(blocks), 2)
        order = [*(a + 1 for a in spatial), 0, *spatial]
        return np.asarray(split.transpose(order).reshape([len(padded) * math.prod(blocks), *sizes]))


@register("BatchToSpace", 2)
class BatchToSpace2(_Blocks):
    """`data [N, D_1, ..]` and a block size and two crops for each dimension."""

    crops_begin = Input(INTEGER)
    crops_end = Input(INTEGER)

    def batch(self, batch: Dimension, blocks: Numbers) -> Dimension:
        known = all_known(blocks)
        rule = "expected blocks whose product divides the batch {}, got block_shape {}"
        return (
            DYNAMIC
            if known is None
            else divided(self, batch, math.prod(known), rule, batch, blocks)
        )

    def side(
        self, size: Dimension, axis: int, blocks: Numbers, numbers: Sequence[int]
    ) -> Dimension:
        block, begin, end = numbers
        whole = size * block
        rule = "expected crops of at most {} along axis {}, got {} and {}"
        self.require(whole.covers(begin + end), rule, whole, axis, begin, end)
        return whole - (begin + end)

    def reference(
        self, data: Array, block_shape: Array, crops_begin: Array, crops_end: Array
    ) -> Array:
        blocks = [int(b) for b in block_shape[1:]]
        count = len(blocks)
        batch = len(data) // math.prod(blocks)
        split = data.reshape([*blocks, batch, *data.shape[1:]])
        order = [count, *(a for k in range(count) for a in (count + 1 + k, k))]
        joined = split.transpose(order).reshape(
            [batch, *(s * b for s, b in zip(data.shape[1:], blocks, strict=True))]
        )
        keep = (
            slice(int(b), s - int(e))
            for s, b, e in zip(joined.shape, crops_begin, crops_end, strict=True)
        )
        return np.array(joined[tuple(keep)], order="C")
