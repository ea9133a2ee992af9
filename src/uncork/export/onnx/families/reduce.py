"""Reductions along axes. No axes at all is the identity, for which ONNX has an attribute; results
of integers are exact where the IR's are.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.export.onnx.families.unary import sqrt
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.cumsum import CumSum
from uncork.ops.reduce import _Reduction
from uncork.types import ElementType

T = ElementType


@lowers("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1")
def reduce(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    """ONNX's node of the same name; no axes at all is the identity. Sums of integers are products
    with ones, which are exact.
    """
    if _no_axes(axes):
        return data
    where, known, own = _axes(g, data, axes), axes.known(), data.type
    if op.type_name in ("ReduceMax", "ReduceMin"):
        limited = _may_be_empty(data, known)
        return (
            _extreme(g, op, data, where) if limited else _reduced(g, op, op.type_name, data, where)
        )
    if own.is_integer and own.bits >= 32 and op.type_name == "ReduceSum" and known is not None:
        return _exact_sum(g, op, data, [a % g.rank(data) for a in known])
    wide = T.f32 if own in (T.f16, T.bf16) else T.i64 if own.is_integer else own
    return g.cast(_reduced(g, op, op.type_name, g.cast(data, wide), where), own)


@lowers("ReduceMean", "ReduceL2")
def reduce_to_real(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    """ONNX's node of the same name; for integers computed from their exact sum."""
    if _no_axes(axes):
        return data
    where, own = _axes(g, data, axes), data.type
    if not own.is_float:
        return _of_integers(g, op, data, where)
    if op.type_name == "ReduceMean" and _may_be_empty(data, axes.known()):
        return _mean(g, op, data, where)
    wide = T.f32 if own in (T.f16, T.bf16) else own
    return g.cast(_reduced(g, op, op.type_name, g.cast(data, wide), where), own)


def _no_axes(axes: Tensor) -> bool:
    return axes.known() == [] or axes.shape.size == 0


def _axes(g: Graph, data: Tensor, axes: Tensor) -> Tensor:
    """The axes in i64, counted from the front where they are known."""
    known = axes.known()
    return (
        g.vector(axes) if known is None else g.constant(np.array([a % g.rank(data) for a in known]))
    )


def _reduced(g: Graph, op: _Reduction, node: str, data: Tensor, axes: Tensor) -> Tensor:
    return g.op(
        node,
        data,
        axes,
        keepdims=int(op.keep_dims),
        noop_with_empty_axes=1,
        shape=g.outputs[0].shape,
    )


def _exact_sum(g: Graph, op: _Reduction, data: Tensor, axes: list[int]) -> Tensor:
    """A sum of integers as a product with ones: onnxruntime adds them in floating point."""
    rank = g.rank(data)
    kept = [i for i in range(rank) if i not in axes]
    last = g.transpose(g.cast(data, I64), [*kept, *axes])
    count = g.op("ReduceProd", g.concat([g.dim(data, a) for a in axes]), keepdims=1)
    lead = [g.dim(data, i) for i in kept]
    flat = g.op(
        "Reshape",
        last,
        g.concat([*lead, count]),
        allowzero=1,
        shape=[*(data.shape[i].static_size for i in kept), None],
    )
    ones = g.op("Expand", g.constant(1, I64), g.concat([count, np.ones(1, np.int64)]))
    total = g.op("MatMul", flat, ones)
    sizes: list[Tensor | list[int]] = (
        [[1] if i in axes else g.dim(data, i) for i in range(rank)] if op.keep_dims else [*lead]
    )
    shape = g.concat(sizes) if sizes else g.constant(np.zeros(0, np.int64))
    return g.cast(g.op("Reshape", total, shape, allowzero=1, shape=g.outputs[0].shape), data.type)


def _mean(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    """The sum over the number of elements, NaN where there is none; onnxruntime's own mean is 0
    there.
    """
    wide = g.cast(data, T.f32) if data.type in (T.f16, T.bf16) else data
    total = _reduced(g, op, "ReduceSum", wide, axes)
    count = g.op("ReduceProd", g.op("Gather", g.shape(data), axes, type=I64), keepdims=0)
    return g.cast(g.op("Div", total, g.cast(count, wide.type)), data.type)


def _may_be_empty(data: Tensor, axes: list[int] | None) -> bool:
    if data.rank is None or axes is None:
        return True
    return any(data.shape[a].low == 0 for a in axes)


def _extreme(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    """The largest or smallest element, and of none the lowest or highest value of the type: one
    such element more, along the first axis, does no harm.
    """
    known = axes.known()
    if known is None:
        return _reduced(g, op, op.type_name, data, axes)
    limit = _limit(data.type, op.type_name == "ReduceMax")
    axis = known[0] % g.rank(data)
    pads = np.zeros(2 * g.rank(data), np.int64)
    pads[g.rank(data) + axis] = 1
    return _reduced(g, op, op.type_name, g.op("Pad", data, pads, g.number(limit, data)), axes)


def _limit(element_type: ElementType, lowest: bool) -> float:
    if element_type.is_float:
        return -math.inf if lowest else math.inf
    limits = np.iinfo(element_type.dtype)
    return int(limits.min if lowest else limits.max)


def _of_integers(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    if data.type is T.u64:
        g.refuse(f"{op.type_name} of u64")
    if data.type is T.i64:
        g.approximate(f"{op.type_name} of i64 is of a sum that may wrap")
    wide = g.cast(data, I64)
    if op.type_name == "ReduceL2":
        total = _reduced(g, op, "ReduceSum", g.op("Mul", wide, wide), axes)
        return g.cast(sqrt(g, op, total), data.type)
    total = _reduced(g, op, "ReduceSum", wide, axes)
    sizes = g.op("Gather", g.shape(data), axes, type=I64)
    return g.cast(g.op("Div", total, g.op("ReduceProd", sizes, keepdims=0)), data.type)


@lowers("ReduceLogicalAnd", "ReduceLogicalOr")
def logical(g: Graph, op: _Reduction, data: Tensor, axes: Tensor) -> Tensor:
    """Whether all elements, or any, are true; of none at all true, or false."""
    if _no_axes(axes):
        return data
    numbers = g.cast(data, T.i32)
    every = op.type_name == "ReduceLogicalAnd"
    if every:
        numbers = g.op("Sub", g.constant(1, T.i32), numbers)
    total = _reduced(g, op, "ReduceSum", numbers, _axes(g, data, axes))
    found = g.op("Greater", total, g.constant(0, T.i32))
    return g.op("Not", found, type=BOOLEAN) if every else found


@lowers("CumSum")
def cumsum(g: Graph, op: CumSum, data: Tensor, axis: Tensor | None) -> Tensor:
    """ONNX's CumSum; small integers wrap."""
    along = g.constant(0, I64) if axis is None else g.scalar(g.cast(axis, I64))
    return g.op("CumSum", data, along, exclusive=int(op.exclusive), reverse=int(op.reverse))
