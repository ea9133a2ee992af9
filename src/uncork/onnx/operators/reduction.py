"""Reductions along axes, running sums, and what is normalised along an axis."""

from __future__ import annotations

import numpy as np

from uncork.ir.model import Source
from uncork.onnx.call import Call
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
def _reduced(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axes = _axes(call)
    if axes is None:
        return graph.make("Abs", data) if call.op_type in ("ReduceL1", "ReduceL2") else data
    keep = bool(call.integer("keepdims", 1))
    name = _PLAIN[call.op_type]
    if graph.type(data) is T.boolean:
        bytes_ = graph.convert(data, T.u8)
        return graph.convert(graph.make(name, bytes_, axes, keep_dims=keep), T.boolean)
    return graph.make(name, data, axes, keep_dims=keep)


def _axes(call: Call) -> Source | None:
    """The axes that are reduced; None where none are, because there are none given."""
    graph = call.graph
    given: Source | None
    if call.version >= _AXES_GIVEN.get(call.op_type, 18):
        given = call.optional(1)
        size = None if given is None else graph.spec(given).shape.size
        empty = given is None or size == 0
    else:
        numbers = call.integers("axes")
        given, empty = graph.i64(numbers), not numbers
    if not empty:
        return given
    if call.integer("noop_with_empty_axes"):
        return None
    return all_axes(call, call[0])


def all_axes(call: Call, data: Source) -> Source:
    """Every axis of a tensor, also where its rank is not known."""
    graph = call.graph
    rank = graph.spec(data).rank
    if rank is not None:
        return graph.i64(list(range(rank)))
    count = graph.shape_of(graph.shape_of(data))
    return graph.range(count)


@lowering("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _composed(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axes = _axes(call)
    keep = bool(call.integer("keepdims", 1))
    if call.op_type == "ReduceSumSquare":
        squares = graph.times(data, data)
        return squares if axes is None else graph.make("ReduceSum", squares, axes, keep_dims=keep)
    if call.op_type == "ReduceLogSum":
        if axes is None:
            return graph.make("Log", data)
        return graph.make("Log", graph.make("ReduceSum", data, axes, keep_dims=keep))
    if axes is None:
        return data
    # exp of large numbers is infinite: the greatest one is taken out before
    most = graph.make("ReduceMax", data, axes, keep_dims=True)
    finite = graph.make("Less", graph.make("Abs", most), graph.like(np.inf, data))
    most = graph.select(finite, most, graph.like(0.0, data))
    total = graph.make(
        "ReduceSum", graph.make("Exp", graph.minus(data, most)), axes, keep_dims=True
    )
    result = graph.plus(graph.make("Log", total), most)
    return result if keep else graph.make("Squeeze", result, axes)


@lowering("CumSum")
def _cumsum(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axis = graph.reshape(call[1], [])
    if graph.type(data) is T.boolean:  # torch writes it of truths, which it counts
        data = graph.convert(data, T.i64)
    return graph.make(
        "CumSum",
        data,
        axis,
        exclusive=bool(call.integer("exclusive")),
        reverse=bool(call.integer("reverse")),
    )


@lowering("Softmax", "LogSoftmax")
def _softmax_of_rows(call: Call) -> Source:
    # Before version 13 all that is behind the axis is one row.
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    axis = call.axis(rank, default=1) if rank > 1 else 0
    if axis == rank - 1:
        return graph.make(_ALONG[call.op_type], data, axis=axis)
    rows = graph.make(_ALONG[call.op_type], graph.flatten(data, axis), axis=1)
    return graph.reshape(rows, graph.shape_of(data))


_ALONG = {"Softmax": "SoftMax", "LogSoftmax": "LogSoftmax"}


@lowering("Softmax", "LogSoftmax", since=13)
def _softmax(call: Call) -> Source:
    return call.graph.make(_ALONG[call.op_type], call[0], axis=call.integer("axis", -1))


@lowering("LpNormalization")
def _lp_normalization(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axis = call.axis(graph.rank(data), default=-1)
    p = call.integer("p", 2)
    name = call.wanted({1: "ReduceL1", 2: "ReduceL2"}.get(p), f"p = {p}", "it is 1 or 2")
    norm = graph.reduce(name, data, [axis])
    zero = graph.make("Equal", norm, graph.like(0.0, data))
    return graph.over(data, graph.select(zero, graph.like(1.0, data), norm))
