"""Layers between convolutions that can run over blocks of channels: element by element, joined and
cut along the channels, spatial means.

The operation stays what it is, on tensors of one more dimension: `[N, C / b, .., b]` instead of
`[N, C, ..]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from uncork.internal_ops.blocks import BlockedPooling
from uncork.ir.model import Model, Node
from uncork.kernels.convolution.select_pool import pooling_of, pools_blocks
from uncork.kernels.convolution.tiles import block_of
from uncork.kernels.elementwise.lowering import has_lowering, lowered
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    extents,
    has_extents,
    is_empty,
    pixels_of_picture,
    same,
    same_extents,
)
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.avg_pool import Pooling
from uncork.ops.concat import Concat1
from uncork.ops.slice import Slice8
from uncork.ops.split import Split1, VariadicSplit1
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: Reductions that leave blocks as they are, where they are over all spatial dimensions.
_REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
#: What cuts tensors, and what joins them, too: over blocks it moves whole ones, of any type.
_CUTS = (Split1, VariadicSplit1, Slice8)
MOVES = (Concat1, *_CUTS)
#: What a result of a pooling saves over blocks, in nanoseconds.
_POOLED = 0.4
#: The fewest dimensions: images, channels and one more.
_LEAST = 3


class Between(Struct, frozen=True):
    """How a layer would be done over blocks: which inputs lie in them, its operation there, and
    inputs that are other constants.
    """

    lies: tuple[bool, ...]
    block: int
    operation: Operation
    constants: Mapping[int, Array] = field(default_factory=dict)
    #: What that saves, in the unit of the pass.
    saved: float = 0.0


def between(model: Model, node: Node, target: Target, *, deep: bool = False) -> Between | None:
    """How a layer could be done over blocks, which may be `deep`; None where it cannot."""
    operation = node.operation
    cuts = isinstance(operation, _CUTS)
    if operation is None or not node.inputs or not (len(node.outputs) == 1 or cuts):
        return None
    pool = pooling_of(operation)
    wanted = (
        pool
        or has_lowering(operation)
        or isinstance(operation, MOVES)
        or node.type_name in _REDUCTIONS
    )
    specs, result = [model.spec(source) for source in node.inputs], node.outputs[0].spec
    if not wanted or not _is_plain(specs[0]) or not _is_plain(result):
        return None
    block = block_of(_channels(result), target, deep=deep)
    if not block:
        return None
    if pool is not None:
        return _pooling(operation, pool, specs[0], result, block)
    if node.type_name in _REDUCTIONS:
        return _reduction(operation, specs, block)
    if cuts:
        parts = [port.spec for port in node.outputs]
        whole = all(
            _is_plain(part) and block_of(_channels(part), target, deep=deep) == block
            for part in (specs[0], *parts)
        )
        return _cut(operation, specs, parts, block) if whole else None
    if not all(spec.element_type is ElementType.f32 and has_extents(spec) for spec in specs):
        return None
    if isinstance(operation, Concat1):
        blocks = [
            block_of(_channels(spec), target, deep=deep) if _is_plain(spec) else 0 for spec in specs
        ]
        return _concat(operation, specs, blocks, block)
    return _by_element(operation, specs, result, block)


def _is_plain(spec: TensorSpec) -> bool:
    """Whether it is f32 of known or open sizes, with channels whose number is known."""
    if spec.element_type is not ElementType.f32 or not has_extents(spec):
        return False
    sizes = extents(spec)
    return len(sizes) >= _LEAST and isinstance(sizes[1], int) and not is_empty(sizes)


def _channels(spec: TensorSpec) -> int:
    channels = extents(spec)[1]
    assert isinstance(channels, int)
    return channels


def _by_element(
    operation: Operation, specs: Sequence[TensorSpec], result: TensorSpec, block: int
) -> Between | None:
    """The way to do an element-wise operation over blocks: every operand has the result's channels,
    or is one number.
    """
    try:
        found = lowered(operation, specs, result)
    except KernelDeclined:
        return None
    if found.inputs != tuple(range(len(specs))):
        return None
    whole = extents(result)
    lies = tuple(len(shape) == len(whole) and same(shape[1], whole[1]) for shape in found.shapes)
    given = [extents(spec) for spec in specs]
    fits = all(
        same_extents(shape, own) and (inside or _is_one(own))
        for inside, shape, own in zip(lies, found.shapes, given, strict=True)
    )
    return (
        Between(lies, block, operation)
        if fits and any(same_extents(own, whole) for own in given)
        else None
    )


def _is_one(sizes: Sequence[SizeLike]) -> bool:
    return all(certainly(size, 1) for size in sizes)


def _concat(
    operation: Concat1, specs: Sequence[TensorSpec], blocks: Sequence[int], block: int
) -> Between | None:
    """The way to do a Concat along the channels over blocks: whole blocks follow each other, which
    have so many channels in each input and in the result.
    """
    rank = len(extents(specs[0]))
    if normalised_axis(operation, operation.axis, rank) != 1:
        return None
    if any(own != block for own in blocks):
        return None
    return Between((True,) * len(specs), block, Concat1(axis=1))


def _cut(
    operation: Operation, specs: Sequence[TensorSpec], parts: Sequence[TensorSpec], block: int
) -> Between | None:
    """The way to cut a tensor along the channels over blocks, of which each part has whole ones."""
    if isinstance(operation, Slice8):
        values = _bounds_in_blocks(operation, specs, block)
    else:
        values = [[1]] if _is_of_channels(operation, specs[1], specs[0]) else None
        if values and isinstance(operation, VariadicSplit1):
            values.append([_channels(part) // block for part in parts])
    if values is None:
        return None
    constants = {
        position: np.array(value, specs[position].element_type.dtype).reshape(
            specs[position].shape.static
        )
        for position, value in enumerate(values, 1)
    }
    return Between((True, *[False] * (len(specs) - 1)), block, operation, constants)


def _bounds_in_blocks(
    operation: Slice8, specs: Sequence[TensorSpec], block: int
) -> list[list[int]] | None:
    """The start, stop, step and axis of neighbouring channels in blocks; None where it is another
    slice, or the first channel is within a block.
    """
    bounds = [spec.value for spec in specs[1:]]
    if len(bounds) != len(Slice8.inputs) - 1 or any(b is None or b.size != 1 for b in bounds):
        return None
    start, stop, step = (int(bound.item()) for bound in bounds[:3] if bound is not None)
    first, end, _ = slice(start, stop, step).indices(_channels(specs[0]))
    if step != 1 or first % block or not _is_of_channels(operation, specs[4], specs[0]):
        return None
    return [[first // block], [end // block], [1], [1]]


def _is_of_channels(operation: Operation, axis: TensorSpec, data: TensorSpec) -> bool:
    """Whether an axis is known to be that of the channels."""
    if axis.value is None:
        return False
    return normalised_axis(operation, int(axis.value.item()), len(extents(data))) == 1


def _reduction(operation: Operation, specs: Sequence[TensorSpec], block: int) -> Between | None:
    axes, rank = specs[1].value, len(extents(specs[0]))
    if axes is None or not getattr(operation, "keep_dims", False):
        return None
    spatial = list(range(2, rank))
    if sorted(int(axis) % rank for axis in axes.reshape(-1)) != spatial:
        return None
    return Between((True, False), block, operation, {1: np.array(spatial, axes.dtype)})


def _pooling(
    operation: Operation, pool: Pooling, data: TensorSpec, result: TensorSpec, block: int
) -> Between | None:
    sizes, counts = extents(data), extents(result)
    if not pools_blocks(pool, sizes[2:], counts[2:]):
        return None
    saved = math.prod(map(pixels_of_picture, counts[1:])) * _POOLED
    return Between((True,), block, BlockedPooling(operation, (True,), block), saved=saved)
