"""The parts of a normalisation of each pixel over its channels as one layer.

    MVN of axis 1 -> Multiply -> Add                                            LayerNorm2d
    Multiply(x, 1 / Sqrt(ReduceMean(x * x, axis 1) + epsilon)) -> Multiply      RMSNorm2d
    Transpose to [N, .., C] -> any of both over the last axis -> Transpose back

One layer reads and writes each element once where it lies, ends with what follows, and stays over
blocks of channels between convolutions.

Recognised: layers of f32 of which nothing else is read, with Reshapes of the pixels between them,
factors and summands that are constants of channels; any of these may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from uncork.internal_ops.channel_norm import ChannelNormalization
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import extents, same, same_extents
from uncork.ops.mvn import MVN1, MVN6
from uncork.passes.match_moves import transpose_order
from uncork.passes.match_norms import (
    RESHAPES,
    Norm,
    ReadBy,
    is_readable,
    numbers_behind,
    standardised_axes,
    with_norms,
)
from uncork.passes.match_scores import constant_scalar
from uncork.passes.rewrite import only_reader, readers
from uncork.types import Array


class _Heart(Struct, frozen=True):
    """What normalises along one axis: the tensor, the layer whose result is normal, and all of its
    layers.
    """

    data: Source
    last: Node
    layers: frozenset[int]
    axis: int
    epsilon: float
    centred: bool


def channel_norms(model: Model) -> Model:
    """The model with one layer in place of the parts of each normalisation over channels."""
    read_by = readers(model)
    hearts = [
        _standardising(model, node) or _by_squares(model, read_by, node) for node in model.nodes
    ]
    return with_norms(
        model, [_found(model, read_by, heart) for heart in hearts if heart is not None]
    )


# ---- hearts


def _standardising(model: Model, node: Node) -> _Heart | None:
    """An MVN of one axis as a heart."""
    axes, operation = standardised_axes(model, node), node.operation
    if not axes or len(axes) != 1 or not isinstance(operation, (MVN1, MVN6)):
        return None
    return _Heart(node.inputs[0], node, frozenset({node.id}), axes[0], operation.eps, True)


def _by_squares(model: Model, read_by: ReadBy, mean: Node) -> _Heart | None:
    """A tensor divided by the root of the mean of its squares, whose mean this is, as a heart."""
    if mean.type_name != "ReduceMean" or not getattr(mean.operation, "keep_dims", False):
        return None
    axes, square = model.spec(mean.inputs[1]).value, model.by_id[mean.inputs[0].node]
    data = _squared(model, square)
    rank = None if data is None else model.spec(data).rank
    if data is None or axes is None or axes.size != 1 or rank is None:
        return None
    chain = [square, mean]
    if only_reader(read_by, square) is not mean:
        return None
    added = only_reader(read_by, mean)
    epsilon = (
        None if added is None or added.type_name != "Add" else _other_number(model, added, mean)
    )
    if added is None or epsilon is None or not epsilon > 0:
        return None
    root = only_reader(read_by, added)
    if root is None:
        return None
    chain += [added, root]
    if root.type_name == "Sqrt":
        last = only_reader(read_by, root)
        if last is not None and constant_scalar(model, last, 0) == 1 and last.type_name == "Divide":
            chain, root = [*chain, last], last
            last, over = only_reader(read_by, root), False
        else:
            over = True
    elif root.type_name == "Power" and constant_scalar(model, root, 1) == -0.5:
        last, over = only_reader(read_by, root), False
    else:
        return None
    if last is None or last.type_name != ("Divide" if over else "Multiply"):
        return None
    wanted = [data, Source(root.id, 0)]
    if list(last.inputs) != wanted and (over or list(last.inputs) != wanted[::-1]):
        return None
    axis = int(axes.reshape(-1)[0]) % rank
    layers = frozenset(node.id for node in (*chain, last))
    return _Heart(data, last, layers, axis, epsilon, False)


def _squared(model: Model, node: Node) -> Source | None:
    """The tensor of which a layer makes the squares."""
    if node.type_name == "Multiply" and node.inputs[0] == node.inputs[1]:
        return node.inputs[0]
    if node.type_name == "Power" and constant_scalar(model, node, 1) == 2:
        return node.inputs[0]
    return None


def _other_number(model: Model, node: Node, made: Node) -> float | None:
    """The number that a layer takes beside what another one makes."""
    others = [at for at, source in enumerate(node.inputs) if source.node != made.id]
    return constant_scalar(model, node, others[0]) if len(others) == 1 else None


# ---- around them


def _found(model: Model, read_by: ReadBy, heart: _Heart) -> Norm | None:
    """The normalisation over channels around a heart; None where it is along another axis."""
    rank = model.spec(heart.data).rank
    specs = [port.spec for port in heart.last.outputs]
    if rank is None or rank < 3 or not is_readable(model.spec(heart.data)):
        return None
    size = extents(model.spec(heart.data))[heart.axis]
    if not isinstance(size, int) or not size or heart.axis not in (1, rank - 1):
        return None
    if len(specs) != 1 or specs[0].rank != rank:
        return None
    ends = list(_behind(model, read_by, heart, size))
    # The longest way: all that moves the tensor there is left out with what moves it back.
    for data in reversed(list(_before(model, read_by, heart))):
        for last, factors, summands in reversed(ends):
            if same_extents(extents(last.outputs[0].spec), extents(model.spec(data))):
                operation = ChannelNormalization(epsilon=heart.epsilon, centred=heart.centred)
                return Norm(last, data, operation, factors, summands)
    return None


def _before(model: Model, read_by: ReadBy, heart: _Heart) -> Iterator[Source]:
    """The tensors with channels behind the images of which layers that only move axes make what a
    heart reads; the nearest first.
    """
    source, axis = heart.data, heart.axis
    inside = heart.layers
    while True:
        if axis == 1:
            yield source
        node = model.by_id[source.node]
        if not all(reader.id in inside for reader in read_by[source]) or not node.inputs:
            return
        before = node.inputs[0]
        if not is_readable(model.spec(before)):
            return
        ways = [a for a in {1, len(model.spec(before).shape) - 1} if _moved(model, node, a) == axis]
        if len(ways) != 1:
            return
        source, axis, inside = before, ways[0], frozenset({node.id})


def _behind(
    model: Model, read_by: ReadBy, heart: _Heart, channels: int
) -> Iterator[tuple[Node, Array, Array]]:
    """The layers behind a heart whose results have channels behind the images, and what all so far
    multiply by and add.
    """
    node, axis = heart.last, heart.axis
    factors, summands = np.ones(channels), np.zeros(channels)
    while True:
        if axis == 1:
            yield node, factors, summands
        reader = only_reader(read_by, node)
        if (
            reader is None
            or len(reader.outputs) != 1
            or not is_readable(model.spec(Source(reader.id, 0)))
        ):
            return
        if reader.type_name in ("Add", "Multiply"):
            numbers = numbers_behind(model, reader, node, axis, factors, summands)
            if numbers is None:
                return
            factors, summands = numbers
        else:
            moved = _moved(model, reader, axis)
            if moved is None or reader.inputs[0] != Source(node.id, 0):
                return
            axis = moved
        node = reader


def _moved(model: Model, node: Node, axis: int) -> int | None:
    """Where the channels, which are along an `axis`, lie behind a layer that leaves images and
    pixels in their order; None behind any other layer.
    """
    made = node.outputs[0].spec if len(node.outputs) == 1 else None
    if made is None or not node.inputs or not is_readable(model.spec(Source(node.id, 0))):
        return None
    before, after = extents(model.spec(node.inputs[0])), extents(made)
    if node.type_name in RESHAPES:
        there = 1 if axis == 1 else len(after) - 1
        kept = same(before[0], after[0]) and same(before[axis], after[there])
        return there if kept and (axis in (1, len(before) - 1)) else None
    order = transpose_order(model, node)
    if order is None:
        return None
    place = order.index(axis)
    rest = [a for a in order if a != axis]
    return place if place in (1, len(order) - 1) and rest == sorted(rest) else None
