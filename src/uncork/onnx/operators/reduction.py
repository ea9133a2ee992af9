"""Reductions along axes, running sums, and what is normalised along an axis."""

from __future__ import annotations

import numpy as np

from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType
_PLAIN = {
    "ReduceL1": "ReduceL1",
    "ReduceL2": "ReduceL2",
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
}
#: From which version on axes are an input.
_AXES_GIVEN = {"ReduceSum": 13}


@lowering(*_PLAIN)
def _reduced(g: Graph, call: Call, data: Source) -> Source:
    axes = _axes(g, call)
    if axes is None:
        return g.make("Abs", data) if call.op_type in ("ReduceL1", "ReduceL2") else data
    keep = bool(call.integer("keepdims", 1))
    name = _PLAIN[call.op_type]
    if g.type(data) is T.boolean:
        bytes_ = g.convert(data, T.u8)
        return g.convert(g.make(name, bytes_, axes, keep_dims=keep), T.boolean)
    if name == "ReduceL2" and not g.type(data).is_float:
        squares = g.make("ReduceSum", g.times(data, data), axes, keep_dims=keep)
        return g.convert(g.make("Sqrt", _as_float(g, squares)), g.type(data))
    return g.make(name, data, axes, keep_dims=keep)


def _axes(g: Graph, call: Call) -> Source | None:
    """The axes that are reduced; None where none are, because there are none given."""
    given: Source | None
    if call.version >= _AXES_GIVEN.get(call.op_type, 18):
        given = call.optional(1)
        size = None if given is None else g.spec(given).shape.size
        empty = given is None or size == 0
    else:
        numbers = call.integers("axes")
        given, empty = g.i64(numbers), not numbers
    if not empty:
        return given
    if call.integer("noop_with_empty_axes"):
        return None
    return all_axes(g, call[0])


def all_axes(g: Graph, data: Source) -> Source:
    """Every axis of a tensor, also where its rank is not known."""
    rank = g.spec(data).rank
    if rank is not None:
        return g.i64(list(range(rank)))
    count = g.shape_of(g.shape_of(data))
    return g.range(count)


@lowering("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _composed(g: Graph, call: Call, data: Source) -> Source:
    axes = _axes(g, call)
    keep = bool(call.integer("keepdims", 1))
    if call.op_type == "ReduceSumSquare":
        squares = g.times(data, data)
        return squares if axes is None else g.make("ReduceSum", squares, axes, keep_dims=keep)
    kind = g.type(data)
    if call.op_type == "ReduceLogSum":
        total = data if axes is None else g.make("ReduceSum", data, axes, keep_dims=keep)
        return g.convert(g.make("Log", _as_float(g, total)), kind)
    if axes is None:
        return data
    data = _as_float(g, data)
    # exp of large numbers is infinite: the greatest one is taken out before
    most = g.make("ReduceMax", data, axes, keep_dims=True)
    finite = g.make("Less", g.make("Abs", most), g.like(np.inf, data))
    most = g.select(finite, most, g.like(0.0, data))
    total = g.make("ReduceSum", g.make("Exp", g.minus(data, most)), axes, keep_dims=True)
    result = g.convert(g.plus(g.make("Log", total), most), kind)
    return result if keep else g.make("Squeeze", result, axes)


def _as_float(g: Graph, data: Source) -> Source:
    """Whole numbers as f64, in which the operators' functions compute: what is made of them is cut
    when it goes back, not rounded.
    """
    return data if g.type(data).is_float else g.convert(data, T.f64)


@lowering("CumSum")
def _cumsum(g: Graph, call: Call, data: Source, axis: Source) -> Source:
    axis = g.reshape(axis, [])
    if g.type(data) is T.boolean:  # torch writes it of truths, which it counts
        data = g.convert(data, T.i64)
    return g.make(
        "CumSum",
        data,
        axis,
        exclusive=bool(call.integer("exclusive")),
        reverse=bool(call.integer("reverse")),
    )


@lowering("Softmax", "LogSoftmax")
def _softmax_of_rows(g: Graph, call: Call, data: Source) -> Source:
    # Before version 13 all that is behind the axis is one row.
    rank = g.rank(data)
    axis = call.axis(rank, default=1) if rank > 1 else 0
    if axis == rank - 1:
        return g.make(_ALONG[call.op_type], data, axis=axis)
    rows = g.make(_ALONG[call.op_type], g.flatten(data, axis), axis=1)
    return g.reshape(rows, g.shape_of(data))


_ALONG = {"Softmax": "SoftMax", "LogSoftmax": "LogSoftmax"}


@lowering("Softmax", "LogSoftmax", since=13)
def _softmax(g: Graph, call: Call, data: Source) -> Source:
    return g.make(_ALONG[call.op_type], data, axis=call.integer("axis", -1))


@lowering("LpNormalization")
def _lp_normalization(g: Graph, call: Call, data: Source) -> Source:
    axis = call.axis(g.rank(data), default=-1)
    p = call.integer("p", 2)
    name = call.wanted({1: "ReduceL1", 2: "ReduceL2"}.get(p), f"p = {p}", "it is 1 or 2")
    norm = g.reduce(name, data, [axis])
    zero = g.make("Equal", norm, g.like(0.0, data))
    return g.over(data, g.select(zero, g.like(1.0, data), norm))
