"""The matcher of layers that only move a tensor: axes in another order, repeated or left out."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.attention import Move, Repeated, Taken, Transposed
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import (
    certainly,
    extents,
    has_extents,
    same,
    same_extents,
)
from uncork.kernels.select import is_view
from uncork.ops.transpose import order_of
from uncork.passes.match_parts import gathered_axis
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

_REPEATING = frozenset({"Broadcast", "Tile"})


def moves_to(model: Model, source: Source) -> tuple[Source, tuple[Move, ...]]:
    """Where a tensor comes from, and the moves that make it of that."""
    moves: tuple[Move, ...] = ()
    while (step := _move(model, source)) is not None:
        source, before = step
        moves = (*before, *moves)
    return source, moves


def _move(model: Model, source: Source) -> tuple[Source, tuple[Move, ...]] | None:
    """The tensor that a layer moves, and its moves; None where it does anything else."""
    node = model.by_id[source.node]
    if (order := transpose_order(model, node)) is not None:
        return node.inputs[0], (Transposed(order),)
    if node.type_name == "Gather":
        return _taken(model, node)
    return _repeated(model, node) if is_view(node.operation) else None


def transpose_order(model: Model, node: Node) -> tuple[int, ...] | None:
    """The order of a Transpose; None where the call tells it, and of any other layer."""
    if node.type_name != "Transpose":
        return None
    order, rank = model.spec(node.inputs[1]).value, model.spec(node.inputs[0]).rank
    return None if order is None or rank is None else order_of(order, rank)


def _taken(model: Model, node: Node) -> tuple[Source, tuple[Move, ...]] | None:
    """Gather of one element of an axis, which is known to be there."""
    place, index = gathered_axis(model, node), model.spec(node.inputs[1]).value
    sizes = sizes_of(model, node.inputs[0])
    if place is None or index is None or index.ndim or sizes is None:
        return None
    size, number = sizes[place], int(index.item())
    if not isinstance(size, int) or not -size <= number < size:
        return None
    return node.inputs[0], (Taken(place, number % size),)


def _repeated(model: Model, node: Node) -> tuple[Source, tuple[Move, ...]] | None:
    """The tensor and the move of a repetition: an axis of size 1 was broadcast and then merged with
    the axis before it.
    """
    stretching = model.by_id[node.inputs[0].node]
    if stretching.type_name not in _REPEATING or not _by_numpy(stretching):
        return None
    sizes = [
        sizes_of(model, source)
        for source in (stretching.inputs[0], node.inputs[0], Source(node.id, 0))
    ]
    data, wide, made = sizes
    if data is None or wide is None or made is None or not len(data) == len(wide) == len(made) + 1:
        return None
    axes = [
        axis for axis, (one, many) in enumerate(zip(data, wide, strict=True)) if not same(one, many)
    ]
    if len(axes) != 1 or axes[0] == 0 or not certainly(data[axes[0]], 1):
        return None
    (axis,) = axes
    count, before = wide[axis], wide[axis - 1]
    if not isinstance(count, int) or not same_extents(
        [*wide[: axis - 1], before * count, *wide[axis + 1 :]], made
    ):
        return None
    source = _without_axis(model, stretching.inputs[0], axis, data)
    dropped = (Taken(axis, 0),) if source == stretching.inputs[0] else ()
    return source, (*dropped, Repeated(axis - 1, count))


def _by_numpy(node: Node) -> bool:
    return node.type_name == "Tile" or getattr(node.operation, "mode", "") in (
        "numpy",
        "bidirectional",
    )


def _without_axis(model: Model, source: Source, axis: int, sizes: Sequence[SizeLike]) -> Source:
    """The tensor from before its layer inserted an axis of size 1; the tensor itself where the
    layer does not.
    """
    node = model.by_id[source.node]
    if is_view(node.operation):
        before = sizes_of(model, node.inputs[0])
        if before is not None and same_extents(before, [*sizes[:axis], *sizes[axis + 1 :]]):
            return node.inputs[0]
    return source


def sizes_of(model: Model, source: Source) -> tuple[SizeLike, ...] | None:
    """The sizes of a tensor; None where one has no expression."""
    spec = model.spec(source)
    return extents(spec) if has_extents(spec) else None


def same_shape(a: TensorSpec, b: TensorSpec) -> bool:
    return has_extents(a) and has_extents(b) and same_extents(extents(a), extents(b))


def unstretched(model: Model, source: Source) -> Source | None:
    """The tensor that this one was broadcast from; None where it was not."""
    spec, stretched = model.spec(source), source
    while is_view(model.by_id[stretched.node].operation):
        stretched = model.by_id[stretched.node].inputs[0]
    node = model.by_id[stretched.node]
    if node.type_name not in _REPEATING or not _by_numpy(node) or not has_extents(spec):
        return None
    whole, small = model.spec(stretched), model.spec(node.inputs[0])
    if not has_extents(small):
        return None
    sizes = extents(small)
    is_one = _aligned(sizes, (1,) * len(extents(spec)))
    fits = same_shape(whole, spec) and _aligned(sizes, extents(whole))
    return node.inputs[0] if is_one or fits else None


def _aligned(small: tuple[SizeLike, ...], whole: tuple[SizeLike, ...]) -> bool:
    """Whether sizes aligned at the right are equal or 1."""
    return len(small) <= len(whole) and all(
        certainly(size, 1) or same(size, to)
        for size, to in zip(small[::-1], whole[::-1], strict=False)
    )
