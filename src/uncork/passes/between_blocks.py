"""Layers between convolutions that can run over blocks of channels: element by element, joined and
cut along the channels, spatial means, normalisations, poolings, resizing.

The operation stays what it is, on tensors of one more dimension: `[N, C / b, .., b]` instead of
`[N, C, ..]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from uncork.internal_ops.blocks import BlockedNormalization, BlockedPooling, ChannelLayout, joined
from uncork.internal_ops.fused import product_of
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.select_pool import pooling_of, pools_blocks
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
from uncork.kernels.select_epilogue import epilogue_of, read_by_element
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.avg_pool import Pooling
from uncork.ops.concat import Concat1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.mvn import MVN6
from uncork.ops.slice import Slice8
from uncork.ops.split import VariadicSplit1
from uncork.passes.blocked_layers import (
    NORMALISATIONS,
    REDUCTIONS,
    channels_of,
    resizes_pixels,
)
from uncork.passes.channel_layouts import first_of_slice
from uncork.passes.match_parts import SPLITS, split_axis
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: What cuts tensors, and what joins them, too: over blocks it moves whole ones, of any type.
_CUTS = (*SPLITS, Slice8)
MOVES = (Concat1, *_CUTS)
#: What a result of a pooling saves over blocks, and one of a mean of pixels, in nanoseconds.
_POOLED, _RESIZED = 0.4, 0.1


class Between(Struct, frozen=True):
    """How a layer would be done over blocks: the layout of each input that lies in them and those
    of its results, its operation there, and inputs that are other constants.
    """

    given: tuple[ChannelLayout | None, ...]
    made: tuple[ChannelLayout, ...]
    operation: Operation
    constants: Mapping[int, Array] = field(default_factory=dict)
    #: What that saves, in the unit of the pass.
    saved: float = 0.0


def between(model: Model, node: Node, layouts: Mapping[Source, ChannelLayout]) -> Between | None:
    """How a layer could be done over blocks of these layouts; None where it cannot."""
    operation = node.operation
    cuts = isinstance(operation, _CUTS)
    if operation is None or not node.inputs or not (len(node.outputs) == 1 or cuts):
        return None
    pool = pooling_of(operation)
    wanted = (
        pool
        or has_lowering(operation)
        or isinstance(operation, (*MOVES, InterpolateByInputs))
        or node.type_name in REDUCTIONS
        or isinstance(product_of(operation), NORMALISATIONS)
    )
    made = [layouts.get(Source(node.id, number)) for number in range(len(node.outputs))]
    given = [layouts.get(source) for source in node.inputs]
    specs, parts = [model.spec(source) for source in node.inputs], [p.spec for p in node.outputs]
    if not wanted or None in made or not all(map(_is_plain, (specs[0], *parts))):
        return None
    known = tuple(layout for layout in made if layout is not None)
    if pool is not None:
        return _pooling(operation, pool, specs[0], parts[0], known)
    if isinstance(operation, InterpolateByInputs):
        return _resized(operation, specs, known) if resizes_pixels(model, node) else None
    if node.type_name in REDUCTIONS or isinstance(operation, MVN6):
        return _by_pixels(operation, specs, known)
    if cuts:
        return _cut(model, node, given[0], known) if given[0] else None
    if not all(spec.element_type is ElementType.f32 and has_extents(spec) for spec in specs):
        return None
    if isinstance(product_of(operation), NORMALISATIONS):
        return _normalisation(operation, specs, parts[0], known)
    if isinstance(operation, Concat1):
        return _concat(operation, specs, given, known)
    return _by_element(operation, specs, parts[0], known)


def _is_plain(spec: TensorSpec) -> bool:
    """Whether it is f32 of known or open sizes, with channels whose number is known."""
    return channels_of(spec) > 0 and not is_empty(extents(spec))


def _by_element(
    operation: Operation,
    specs: Sequence[TensorSpec],
    result: TensorSpec,
    made: tuple[ChannelLayout, ...],
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
    sizes = [extents(spec) for spec in specs]
    fits = all(
        same_extents(shape, own) and (inside or _is_one(own))
        for inside, shape, own in zip(lies, found.shapes, sizes, strict=True)
    )
    given = tuple(made[0] if inside else None for inside in lies)
    return (
        Between(given, made, operation)
        if fits and any(same_extents(own, whole) for own in sizes)
        else None
    )


def _is_one(sizes: Sequence[SizeLike]) -> bool:
    return all(certainly(size, 1) for size in sizes)


def _concat(
    operation: Concat1,
    specs: Sequence[TensorSpec],
    given: Sequence[ChannelLayout | None],
    made: tuple[ChannelLayout, ...],
) -> Between | None:
    """The way to do a Concat along the channels over blocks: those of an input follow those of
    another.
    """
    rank = len(extents(specs[0]))
    if normalised_axis(operation, operation.axis, rank) != 1:
        return None
    parts = tuple(layout for layout in given if layout is not None)
    if len(parts) < len(given) or not _follow(parts, made[0]):
        return None
    return Between(parts, made, Concat1(axis=1))


def _follow(parts: Sequence[ChannelLayout], whole: ChannelLayout) -> bool:
    """Whether the blocks of parts that follow each other are those of the whole."""
    runs = [run for part in parts for run in part.runs]
    alike = all(part.block == whole.block for part in parts)
    return alike and joined(runs, whole.block) == joined(whole.runs, whole.block)


def _cut(
    model: Model, node: Node, whole: ChannelLayout, parts: tuple[ChannelLayout, ...]
) -> Between | None:
    """The way to cut a tensor along the channels over blocks, of which each part has whole ones."""
    operation, specs = node.checked_operation, [model.spec(source) for source in node.inputs]
    counts = [part.blocks for part in parts]
    if isinstance(operation, Slice8):
        values = _bounds_in_blocks(first_of_slice(model, node), whole, parts[0])
    elif split_axis(model, node) != 1 or not _follow(parts, whole):
        values = None
    elif isinstance(operation, VariadicSplit1):
        values = [[1], counts]
    else:
        values = [[1]] if len(set(counts)) == 1 else None
    if values is None:
        return None
    constants = {
        position: np.array(value, specs[position].element_type.dtype).reshape(
            specs[position].shape.static
        )
        for position, value in enumerate(values, 1)
    }
    return Between((whole, *[None] * (len(specs) - 1)), parts, operation, constants)


def _bounds_in_blocks(
    first: int | None, whole: ChannelLayout, part: ChannelLayout
) -> list[list[int]] | None:
    """The start, stop, step and axis of a slice of channels from the `first` on in blocks; None
    where it is another slice, or does not begin and end with a block.
    """
    if first is None:
        return None
    own, before = whole.part(first, first + sum(part.runs)), whole.part(0, first)
    if own is None or before is None or not _follow([part], own):
        return None
    return [[before.blocks], [before.blocks + part.blocks], [1], [1]]


def _by_pixels(
    operation: Operation, specs: Sequence[TensorSpec], made: tuple[ChannelLayout, ...]
) -> Between | None:
    """The way to reduce or normalise all pixels of each channel over blocks."""
    axes, rank = specs[1].value, len(extents(specs[0]))
    keeps = isinstance(operation, MVN6) or getattr(operation, "keep_dims", False)
    if axes is None or not keeps:
        return None
    spatial = list(range(2, rank))
    if sorted(int(axis) % rank for axis in axes.reshape(-1)) != spatial:
        return None
    return Between((made[0], None), made, operation, {1: np.array(spatial, axes.dtype)})


def _normalisation(
    operation: Operation,
    specs: Sequence[TensorSpec],
    result: TensorSpec,
    made: tuple[ChannelLayout, ...],
) -> Between | None:
    """The way to normalise groups of channels over blocks without zeros."""
    try:
        epilogue, positions = epilogue_of(operation, specs, result, 1)
    except KernelDeclined:
        return None
    if not made[0].is_full or any(spec.rank != 1 for spec in specs[1:3]):
        return None
    whole = {0, *read_by_element(epilogue, positions)}
    given = tuple(made[0] if number in whole else None for number in range(len(specs)))
    lies = tuple(layout is not None for layout in given)
    return Between(given, made, BlockedNormalization(operation, lies, made[0].block))


def _pooling(
    operation: Operation,
    pool: Pooling,
    data: TensorSpec,
    result: TensorSpec,
    made: tuple[ChannelLayout, ...],
) -> Between | None:
    sizes, counts = extents(data), extents(result)
    if not pools_blocks(pool, sizes[2:], counts[2:]):
        return None
    saved = math.prod(map(pixels_of_picture, counts[1:])) * _POOLED
    pooling = BlockedPooling(operation, (True,), made[0].block)
    return Between((made[0],), made, pooling, saved=saved)


def _resized(
    operation: InterpolateByInputs, specs: Sequence[TensorSpec], made: tuple[ChannelLayout, ...]
) -> Between:
    """The way to resize the pixels of each channel over blocks: these are one more axis that keeps
    its size.
    """
    wanted, axes = operation.chosen(*specs[1:])
    constants: dict[int, Array] = {}
    if axes is None:
        assert wanted.value is not None
        images, channels, *others = wanted.value
        of_blocks = (made[0].blocks, made[0].block) if operation.by_sizes else (channels, channels)
        values = np.array([images, of_blocks[0], *others, of_blocks[1]], wanted.value.dtype)
        constants[next(n for n, spec in enumerate(specs) if spec is wanted)] = values
    return Between((made[0], *[None] * (len(specs) - 1)), made, operation, constants)
