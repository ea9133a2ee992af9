"""Reshape, Squeeze, Unsqueeze, Transpose, Concat, Split, ShapeOf, Identity, Broadcast, Tile: moves
of whole dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.broadcast import _Broadcast
from uncork.ops.concat import Concat1
from uncork.ops.reshape import Reshape1
from uncork.ops.split import Split1, VariadicSplit1


def numbers(g: Graph, tensor: Tensor | None, what: str) -> list[int]:
    """The elements of an input that must be known, as ONNX has an attribute for it or its lowering
    depends on it.
    """
    result = None if tensor is None else tensor.known()
    if result is None:
        g.refuse(
            f"input '{what}' is computed as the model runs, and ONNX needs it to be a constant"
        )
    return result


@lowers("Reshape")
def reshape(g: Graph, op: Reshape1, data: Tensor, shape: Tensor) -> Tensor:
    """ONNX's Reshape. A 0 copies a dimension or means 0; ONNX takes no 0 of its own value beside a
    -1, nor a -1 for an empty tensor.
    """
    target = shape.known()
    spec = g.outputs[0].shape
    if target is None:
        return g.op(
            "Reshape", data, g.cast(shape, I64), shape=spec, allowzero=int(not op.special_zero)
        )
    if spec.is_static:
        return g.reshape(data, np.array(spec.static, np.int64))
    open_sizes = [i for i, d in enumerate(spec) if not d.is_static]
    if (
        len(open_sizes) == 1
        and not any(d == 0 for d in spec)
        and not _may_be_empty(data, target, op)
    ):
        return g.reshape(
            data, [-1 if i in open_sizes else int(d) for i, d in enumerate(spec)], list(spec)
        )
    if not op.special_zero or 0 not in target:
        return g.op("Reshape", data, target, shape=spec, allowzero=1)
    if -1 not in target or not _may_be_empty(data, target, op):
        return g.op("Reshape", data, target, shape=spec)
    return g.op("Reshape", data, _sizes(g, data, target), shape=spec, allowzero=1)


def _may_be_empty(data: Tensor, target: Sequence[int], op: Reshape1) -> bool:
    """Whether a copied dimension may be 0, in which case ONNX finds no size for a -1."""
    copied = [i for i, n in enumerate(target) if n == 0 and op.special_zero]
    return data.rank is None or any(data.shape[i].contains(0) for i in copied)


def _sizes(g: Graph, data: Tensor, target: Sequence[int]) -> Tensor:
    """The target with every size computed: copied dimensions count on neither side of the -1."""
    rank = g.rank(data)
    rest = [g.dim(data, i) for i in range(rank) if not (i < len(target) and target[i] == 0)]
    given = int(np.prod([n for n in target if n > 0], dtype=np.int64))
    product = rest[0] if rest else g.constant(np.ones(1, np.int64))
    for size in rest[1:]:
        product = g.op("Mul", product, size)
    remaining = g.op("Div", product, g.constant(np.array([given], np.int64)))
    return g.concat(
        [g.dim(data, i) if n == 0 else remaining if n == -1 else [n] for i, n in enumerate(target)]
    )


@lowers("Squeeze")
def squeeze(g: Graph, op: Operation, data: Tensor, axes: Tensor | None) -> Tensor:
    """ONNX's Squeeze of the axes of size 1; the others, which ONNX refuses, stay."""
    rank = g.rank(data)
    if (
        axes is not None
        and axes.known() is None
        and axes.shape.size != 0
        and g.outputs[0].rank is not None
    ):
        return g.op("Squeeze", data, g.vector(axes), shape=g.outputs[0].shape)
    named = [] if axes is None else numbers(g, axes, "axes")
    chosen = sorted({a % rank for a in named}) if named else list(range(rank))
    if any(data.shape[a].contains(1) and not data.shape[a].is_static for a in chosen) and (
        not named or g.outputs[0].rank is None
    ):
        g.refuse("the rank of the output is known only as the model runs")
    if any(not data.shape[a].is_static for a in chosen):
        return g.op("Squeeze", data, chosen, shape=g.outputs[0].shape)
    return g.squeeze(data, [a for a in chosen if data.shape[a] == 1])


@lowers("Unsqueeze")
def unsqueeze(g: Graph, op: Operation, data: Tensor, axes: Tensor) -> Tensor:
    """Dimensions of 1 at places of the output."""
    if axes.known() is None:
        return g.op("Unsqueeze", data, g.vector(axes), shape=g.outputs[0].shape)
    places = numbers(g, axes, "axes")
    return g.unsqueeze(
        data, [a % (g.rank(data) + len(places)) if data.rank is not None else a for a in places]
    )


@lowers("Transpose")
def transpose(g: Graph, op: Operation, data: Tensor, order: Tensor) -> Tensor:
    """The dimensions in another order; an empty order reverses them."""
    axes = numbers(g, order, "input_order")
    return g.transpose(data, axes or list(range(g.rank(data)))[::-1])


@lowers("Concat")
def concat(g: Graph, op: Concat1, *tensors: Tensor) -> Tensor:
    """Tensors joined along an axis."""
    return (
        g.op("Concat", *tensors, axis=op.axis, shape=g.outputs[0].shape)
        if len(tensors) > 1
        else tensors[0]
    )


@lowers("Split")
def split(g: Graph, op: Split1, data: Tensor, axis: Tensor) -> list[Tensor]:
    """Parts of one size along an axis."""
    along = numbers(g, axis, "axis")[0]
    if op.num_splits == 1:
        return [data]
    size = data.shape[along % data.rank].static_size if data.rank is not None else None
    if size is not None and size < op.num_splits:
        lengths = np.zeros(op.num_splits, np.int64)
        return g.ops("Split", data, lengths, axis=along, types=[None] * op.num_splits)
    return g.ops("Split", data, axis=along, num_outputs=op.num_splits, types=[None] * op.num_splits)


@lowers("VariadicSplit")
def variadic_split(
    g: Graph, op: VariadicSplit1, data: Tensor, axis: Tensor, lengths: Tensor
) -> list[Tensor]:
    """Parts of given lengths; a -1 takes what the others leave, which ONNX wants computed."""
    along = numbers(g, axis, "axis")[0]
    count = len(g.outputs)
    known = lengths.known()
    if known is None:
        wide = g.vector(lengths)
        total = g.op("ReduceSum", wide, [0], keepdims=1)
        rest = g.op("Sub", g.dim(data, along), g.op("Add", total, g.constant(np.ones(1, np.int64))))
        sizes = g.op("Where", g.op("Equal", wide, g.constant(-1, I64)), rest, wide)
    elif -1 in known:
        rest = g.op("Sub", g.dim(data, along), g.constant(np.array([sum(known) + 1], np.int64)))
        whole = data.rank is not None and data.shape[along % data.rank].static_size
        if whole:
            rest = g.constant(np.array([whole - sum(known) - 1], np.int64))
        sizes = g.concat([rest if n == -1 else [n] for n in known])
    else:
        sizes = g.constant(np.array(known, np.int64))
    return g.ops("Split", data, sizes, axis=along, types=[None] * count)


@lowers("ShapeOf")
def shape_of(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """The shape in i64 or i32."""
    return g.cast(g.op("Shape", data, type=I64, shape=[data.rank]), g.outputs[0].element_type)


@lowers("Identity", "Result")
def identity(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """The input as it is."""
    return data


@lowers("Broadcast")
def broadcast(
    g: Graph, op: _Broadcast, data: Tensor, target: Tensor, axes: Tensor | None
) -> Tensor:
    """The data broadcast to a shape; in mode explicit its dimensions lie at given axes of the
    shape.
    """
    shape = g.vector(target)
    known = target.known()
    if op.mode in ("explicit", "none") and axes is not None:
        places = numbers(g, axes, "axes_mapping")
        rank = (
            known
            if known is not None
            else target.shape[0].static_size
            if target.rank == 1
            else None
        )
        if rank is None:
            g.refuse("the length of 'target_shape' is not known")
        total = len(rank) if isinstance(rank, list) else rank
        data = g.unsqueeze(data, [i for i in range(total) if i not in places])
    if known is not None and data.shape.is_static and list(data.shape.static) == known:
        return data
    # Expand stretches both ways, which mode bidirectional asks for; in the others the target has no
    # 1 that would be stretched.
    return g.op("Expand", data, shape, shape=g.outputs[0].shape)


@lowers("Tile")
def tile(g: Graph, op: Operation, data: Tensor, repeats: Tensor) -> Tensor:
    """ONNX's Tile; the shorter of shape and repeats gets leading ones."""
    count = repeats.shape[0].static_size if repeats.rank == 1 else None
    if count is None:
        g.refuse("the number of 'repeats' is not known")
    rank = g.rank(data)
    times = g.vector(repeats)
    if count < rank:
        times = g.concat([np.ones(rank - count, np.int64), times])
    if count > rank:
        data = g.unsqueeze(data, list(range(count - rank)))
    return g.op("Tile", data, times, shape=g.outputs[0].shape)
