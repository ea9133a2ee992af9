"""Blocks of space moved into depth or batch and back, shuffled channels, patches of images and
images of patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Operand, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.sizes import Size, combined, dimension, each, vectors
from uncork.ops._common.spatial import extent
from uncork.ops._operation import Operation
from uncork.ops.col2im import Col2Im15
from uncork.ops.extract_image_patches import ExtractImagePatches3
from uncork.ops.reorg_yolo import ReorgYolo2
from uncork.ops.shuffle_channels import ShuffleChannels1
from uncork.ops.space_to_depth import DepthToSpace1, SpaceToDepth1
from uncork.types import ElementType


def split(g: Graph, data: Tensor, parts: Sequence[Operand]) -> Tensor:
    """The data in another shape, given piece by piece: numbers, and vectors of one element."""
    shape = g.concat([[p] if isinstance(p, int) else p for p in parts])
    return g.reshape(data, shape)


def over(g: Graph, data: Tensor, axis: int, divisor: Size) -> Size:
    """A dimension divided by a size."""
    return combined(g, "Div", dimension(g, data, axis), divisor)


def times(g: Graph, data: Tensor, axis: int, factor: Size) -> Size:
    """A dimension multiplied by a size."""
    return combined(g, "Mul", dimension(g, data, axis), factor)


@lowers("SpaceToDepth")
def space_to_depth(g: Graph, op: SpaceToDepth1, data: Tensor) -> Tensor:
    """Blocks of space moved into the channels, by a Reshape and a Transpose."""
    rank, block = g.rank(data), op.block_size
    count = rank - 2
    parts: list[Operand] = [g.dim(data, 0), g.dim(data, 1)]
    for axis in range(2, rank):
        parts += [over(g, data, axis, block), block]
    spatial = list(range(2, 2 + 2 * count, 2))
    within = [a + 1 for a in spatial]
    order = [0, *within, 1, *spatial] if op.mode == "blocks_first" else [0, 1, *within, *spatial]
    moved = g.transpose(split(g, data, parts), order)
    return split(
        g,
        moved,
        [
            g.dim(data, 0),
            times(g, data, 1, block**count),
            *(over(g, data, a, block) for a in range(2, rank)),
        ],
    )


@lowers("DepthToSpace")
def depth_to_space(g: Graph, op: DepthToSpace1, data: Tensor) -> Tensor:
    """ONNX's DepthToSpace for f32 of four dimensions, else a Reshape and a Transpose."""
    rank, block = g.rank(data), op.block_size
    first = op.mode == "blocks_first"
    if rank == 4 and data.type is ElementType.f32:
        return g.op("DepthToSpace", data, blocksize=block, mode="DCR" if first else "CRD")
    count = rank - 2
    depth = over(g, data, 1, block**count)
    sizes: list[Operand] = [g.dim(data, a) for a in range(2, rank)]
    blocks: list[Operand] = [block] * count
    parts = (
        [g.dim(data, 0), *blocks, depth, *sizes]
        if first
        else [g.dim(data, 0), depth, *blocks, *sizes]
    )
    channels, within = (1 + count, 1) if first else (1, 2)
    order = [0, channels, *(a for k in range(count) for a in (2 + count + k, within + k))]
    moved = g.transpose(split(g, data, parts), order)
    return split(
        g, moved, [g.dim(data, 0), depth, *(times(g, data, a, block) for a in range(2, rank))]
    )


def _product(g: Graph, blocks: Tensor) -> Size:
    known = blocks.known()
    return math.prod(known) if known is not None else g.op("ReduceProd", g.cast(blocks, I64))


@lowers("SpaceToBatch")
def space_to_batch(
    g: Graph, op: Operation, data: Tensor, blocks: Tensor, begins: Tensor, ends: Tensor
) -> Tensor:
    """The data padded and cut into blocks, whose inner places become items of the batch."""
    rank = g.rank(data)
    sizes = each(g, blocks, rank)
    padded = _padded(g, data, begins, ends)
    parts: list[Operand] = [g.dim(padded, 0)]
    for axis in range(1, rank):
        parts += [over(g, padded, axis, sizes[axis]), sizes[axis]]
    spatial = list(range(1, 2 * rank - 2, 2))
    moved = g.transpose(split(g, padded, parts), [*(a + 1 for a in spatial), 0, *spatial])
    return split(
        g,
        moved,
        [
            times(g, padded, 0, _product(g, blocks)),
            *(over(g, padded, a, sizes[a]) for a in range(1, rank)),
        ],
    )


def _padded(g: Graph, data: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    before, after = begins.known(), ends.known()
    if before is None or after is None:
        return g.op("Pad", data, g.concat([g.cast(begins, I64), g.cast(ends, I64)]))
    if not any(before) and not any(after):
        return data
    dims = [d + b + e for d, b, e in zip(data.shape, before, after, strict=True)]
    return g.op("Pad", data, [*before, *after], shape=[d.static_size for d in dims])


@lowers("BatchToSpace")
def batch_to_space(
    g: Graph, op: Operation, data: Tensor, blocks: Tensor, begins: Tensor, ends: Tensor
) -> Tensor:
    """Items of the batch moved back into blocks of space, and the result cropped."""
    rank = g.rank(data)
    count, sizes = rank - 1, each(g, blocks, rank)
    batch = over(g, data, 0, _product(g, blocks))
    rest: list[Operand] = [g.dim(data, a) for a in range(1, rank)]
    parts = split(g, data, [*sizes[1:], batch, *rest])
    moved = g.transpose(parts, [count, *(a for k in range(count) for a in (count + 1 + k, k))])
    joined = split(g, moved, [batch, *(times(g, data, a, sizes[a]) for a in range(1, rank))])
    first, last = begins.known(), ends.known()
    if first is not None and last is not None and not any(first) and not any(last):
        return joined
    reached = g.op("Sub", g.shape(joined), g.cast(ends, I64))
    return g.op("Slice", joined, g.cast(begins, I64), reached, list(range(rank)))


@lowers("ShuffleChannels")
def shuffle(g: Graph, op: ShuffleChannels1, data: Tensor) -> Tensor:
    """The channels as a table of `group` rows, transposed."""
    rank = g.rank(data)
    along = op.axis % rank
    lead: list[Operand] = [g.dim(data, a) for a in range(along)]
    tail: list[Operand] = [g.dim(data, a) for a in range(along + 1, rank)]
    table = split(g, data, [*lead, op.group, over(g, data, along, op.group), *tail])
    order = list(range(rank + 1))
    order[along], order[along + 1] = along + 1, along
    return g.reshape(g.transpose(table, order), g.shape(data))


@lowers("ReorgYolo")
def reorg(g: Graph, op: ReorgYolo2, data: Tensor) -> Tensor:
    """The elements picked by number from the flattened image."""
    if not data.shape.is_static:
        g.refuse("the sizes of the image are not known")
    sizes = data.shape.static
    place = op.reference(np.arange(math.prod(sizes)).reshape(sizes))
    return g.op(
        "Gather",
        g.op("Reshape", data, [-1]),
        g.constant(np.ascontiguousarray(place)),
        axis=0,
        shape=place.shape,
    )


@lowers("ExtractImagePatches")
def patches(g: Graph, op: ExtractImagePatches3, data: Tensor) -> Tensor:
    """Slices with steps, one for each place of the kernel, joined along the channels."""
    counts, begins, ends = zip(*(_patches(g, op, axis, data) for axis in range(2)), strict=True)
    padded = data
    if any(n != 0 for n in (*begins, *ends)):
        padded = g.op("Pad", data, vectors(g, 0, 0, *begins, 0, 0, *ends))
    parts = []
    for cell in np.ndindex(*op.sizes):
        first = [k * rate for k, rate in zip(cell, op.rates, strict=True)]
        last = [
            combined(g, "Add", combined(g, "Mul", n, stride), start)
            for n, stride, start in zip(counts, op.strides, first, strict=True)
        ]
        parts.append(g.op("Slice", padded, first, vectors(g, *last), [2, 3], list(op.strides)))
    return g.op("Concat", *parts, axis=1)


def _patches(
    g: Graph, op: ExtractImagePatches3, axis: int, data: Tensor
) -> tuple[Size, Size, Size]:
    """How many patches there are along rows (axis 0) or columns, and the zeros at both ends."""
    cells, stride = dimension(g, data, axis + 2), op.strides[axis]
    reach = extent(op.sizes[axis], op.rates[axis])
    if op.auto_pad == "valid":
        room = combined(g, "Max", combined(g, "Add", cells, stride - reach), 0)
        return combined(g, "Div", room, stride), 0, 0
    count = combined(g, "Div", combined(g, "Add", cells, stride - 1), stride)
    reached = combined(g, "Add", combined(g, "Mul", count, stride), reach - stride)
    total = combined(g, "Max", combined(g, "Sub", reached, cells), 0)
    half = combined(g, "Div", total, 2)
    rest = combined(g, "Sub", total, half)
    return (count, half, rest) if op.auto_pad == "same_upper" else (count, rest, half)


@lowers("Col2Im")
def col2im(
    g: Graph, op: Col2Im15, data: Tensor, output_size: Tensor, kernel_size: Tensor
) -> Tensor:
    """ONNX's Col2Im, on a batch."""
    own = data.type
    single = g.rank(data) == 2
    wide = data if own in (ElementType.f32, ElementType.f16) else None
    if wide is None:
        if own not in (
            ElementType.bf16,
            ElementType.i8,
            ElementType.u8,
            ElementType.i16,
            ElementType.u16,
        ):
            g.approximate(f"Col2Im of {own} is computed in f32")
        wide = g.cast(data, ElementType.f32)
    batched = g.unsqueeze(wide, [0]) if single else wide
    image = g.op(
        "Col2Im",
        batched,
        g.cast(output_size, I64),
        g.cast(kernel_size, I64),
        strides=list(op.strides),
        dilations=list(op.dilations),
        pads=[*op.pads_begin, *op.pads_end],
    )
    return g.cast(g.squeeze(image, [0]) if single else image, own)
