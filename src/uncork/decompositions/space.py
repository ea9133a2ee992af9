"""Blocks of space moved into depth or batch and back, shuffled channels, patches of images."""

from __future__ import annotations

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops._common.spatial import extent
from uncork.ops._operation import Operation
from uncork.ops.extract_image_patches import ExtractImagePatches3
from uncork.ops.reorg_yolo import ReorgYolo2
from uncork.ops.shuffle_channels import ShuffleChannels1
from uncork.ops.space_to_depth import DepthToSpace1, SpaceToDepth1


@composite("SpaceToDepth")
def space_to_depth(g: Layers, op: SpaceToDepth1, data: Source) -> Source:
    """Blocks of space moved into the channels, by a Reshape and a Transpose."""
    rank, block = g.rank(data), op.block_size
    axes = range(2, rank)
    sizes = [g.over(g.dim(data, axis), block) for axis in axes]
    parts = [n for size in sizes for n in (size, block)]
    spatial = list(range(2, 2 * rank - 2, 2))
    within = [a + 1 for a in spatial]
    order = [0, *within, 1, *spatial] if op.mode == "blocks_first" else [0, 1, *within, *spatial]
    moved = g.transpose(g.shaped(data, g.dim(data, 0), g.dim(data, 1), *parts), order)
    depth = g.times(g.dim(data, 1), block ** len(axes))
    return g.shaped(moved, g.dim(data, 0), depth, *sizes)


@composite("DepthToSpace")
def depth_to_space(g: Layers, op: DepthToSpace1, data: Source) -> Source:
    """Channels moved into blocks of space, by a Reshape and a Transpose."""
    rank, block = g.rank(data), op.block_size
    first, count = op.mode == "blocks_first", rank - 2
    depth = g.over(g.dim(data, 1), block**count)
    sizes = [g.dim(data, axis) for axis in range(2, rank)]
    blocks: list[Source | int] = [block] * count
    lead = [*blocks, depth] if first else [depth, *blocks]
    channels, within = (1 + count, 1) if first else (1, 2)
    order = [0, channels, *(a for k in range(count) for a in (2 + count + k, within + k))]
    moved = g.transpose(g.shaped(data, g.dim(data, 0), *lead, *sizes), order)
    return g.shaped(moved, g.dim(data, 0), depth, *(g.times(size, block) for size in sizes))


@composite("SpaceToBatch")
def space_to_batch(
    g: Layers, op: Operation, data: Source, blocks: Source, begins: Source, ends: Source
) -> Source:
    """The data padded and cut into blocks, whose inner places become items of the batch."""
    rank = g.rank(data)
    inner = g.each(blocks, rank)[1:]
    padded = g.pad(data, begins, ends)
    sizes = [g.over(g.dim(padded, k + 1), block) for k, block in enumerate(inner)]
    parts = [n for pair in zip(sizes, inner, strict=True) for n in pair]
    spatial = list(range(1, 2 * rank - 2, 2))
    split = g.shaped(padded, g.dim(padded, 0), *parts)
    moved = g.transpose(split, [*(a + 1 for a in spatial), 0, *spatial])
    return g.shaped(moved, g.product([g.dim(padded, 0), *inner]), *sizes)


@composite("BatchToSpace")
def batch_to_space(
    g: Layers, op: Operation, data: Source, blocks: Source, begins: Source, ends: Source
) -> Source:
    """Items of the batch moved back into blocks of space, and the result cropped."""
    rank = g.rank(data)
    inner = g.each(blocks, rank)[1:]
    count = rank - 1
    batch = g.over(g.dim(data, 0), g.product(inner))
    sizes = [g.dim(data, axis) for axis in range(1, rank)]
    split = g.shaped(data, *inner, batch, *sizes)
    moved = g.transpose(split, [count, *(a for k in range(count) for a in (count + 1 + k, k))])
    pairs = zip(sizes, inner, strict=True)
    joined = g.shaped(moved, batch, *(g.times(size, block) for size, block in pairs))
    first, last = g.known(begins), g.known(ends)
    if first is not None and last is not None and not first.any() and not last.any():
        return joined
    reached = g.minus(g.shape_of(joined), g.wide(ends))
    steps, axes = g.i64([1] * rank), g.i64(range(rank))
    return g.make("Slice", joined, g.wide(begins), reached, steps, axes)


@composite("ShuffleChannels")
def shuffle(g: Layers, op: ShuffleChannels1, data: Source) -> Source:
    """The channels as a table of `group` rows, transposed."""
    rank = g.rank(data)
    along = op.axis % rank
    sizes: list[Source | int] = [g.dim(data, axis) for axis in range(rank)]
    columns = g.over(g.dim(data, along), op.group)
    order = list(range(rank + 1))
    order[along], order[along + 1] = along + 1, along
    table = g.shaped(data, *sizes[:along], op.group, columns, *sizes[along + 1 :])
    return g.shaped(g.transpose(table, order), *sizes)


@composite("ReorgYolo")
def reorg(g: Layers, op: ReorgYolo2, data: Source) -> Source:
    """The image as blocks of space, as if its channels had them; picked by number from the
    flattened image where the channels are no multiple of a block.
    """
    stride, sizes = op.stride, [g.dim(data, axis) for axis in range(4)]
    shape = [sizes[0], g.times(sizes[1], stride**2), *(g.over(size, stride) for size in sizes[2:])]
    channels = g.sizes(data)[1]
    if channels is not None and channels % stride**2 == 0:
        split = (channels // stride**2, sizes[2], stride, sizes[3], stride)
        return g.shaped(g.transpose(g.shaped(data, sizes[0], *split), [0, 3, 5, 1, 2, 4]), *shape)
    n, c, h, w = (g.reshape(g.range(size), [-1, *[1] * (3 - i)]) for i, size in enumerate(sizes))
    base = g.over(sizes[1], stride**2)
    shift = g.over(c, base)
    row = g.plus(g.times(n, base), g.make("FloorMod", c, base))
    row = g.plus(g.times(g.plus(g.times(row, sizes[2]), h), stride), g.over(shift, stride))
    place = g.times(g.plus(g.times(row, sizes[3]), w), stride)
    place = g.plus(place, g.make("FloorMod", shift, g.i64(stride)))
    return g.shaped(g.gather(g.reshape(data, [-1]), place, 0), *shape)


@composite("ExtractImagePatches")
def patches(g: Layers, op: ExtractImagePatches3, data: Source) -> Source:
    """Slices with steps, one for each place of the kernel, joined along the channels."""
    counts, begins, ends = zip(*(_patches(g, op, axis, data) for axis in range(2)), strict=True)
    none = g.i64([0, 0])
    padded = g.pad(data, g.shape(none, *begins), g.shape(none, *ends))
    reach = g.shape(*(g.times(n, stride) for n, stride in zip(counts, op.strides, strict=True)))
    parts = []
    for cell in np.ndindex(*op.sizes):
        first = g.i64([k * rate for k, rate in zip(cell, op.rates, strict=True)])
        bounds = (first, g.plus(first, reach), g.i64(op.strides), g.i64([2, 3]))
        parts.append(g.make("Slice", padded, *bounds))
    return g.concat(parts, 1)


def _patches(
    g: Layers, op: ExtractImagePatches3, axis: int, data: Source
) -> tuple[Source, Source, Source]:
    """How many patches there are along rows (axis 0) or columns, and the zeros at both ends."""
    cells, stride, none = g.dim(data, axis + 2), op.strides[axis], g.i64([0])
    reach = extent(op.sizes[axis], op.rates[axis])
    if op.auto_pad == "valid":
        room = g.largest(g.plus(cells, stride - reach), 0)
        return g.over(room, stride), none, none
    count = g.over(g.plus(cells, stride - 1), stride)
    reached = g.plus(g.times(count, stride), reach - stride)
    total = g.largest(g.minus(reached, cells), 0)
    half = g.over(total, 2)
    rest = g.minus(total, half)
    return (count, half, rest) if op.auto_pad == "same_upper" else (count, rest, half)
