"""Operators that look up, scatter and find places: Gather and Scatter, TopK, NonZero, OneHot."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


@lowering("Gather")
def _gather(call: Call) -> Source:
    return call.graph.gather(call[0], call[1], call.integer("axis"))


@lowering("GatherElements")
def _gather_elements(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axis = call.axis(graph.rank(data))
    indices = from_the_front(call, call[1], data, axis)
    return graph.make("GatherElements", data, indices, axis=axis)


def from_the_front(call: Call, indices: Source, data: Source, axis: int) -> Source:
    """Indices of which negative ones are counted from the first place, too."""
    graph = call.graph
    value = graph.known(indices)
    if value is not None and (value >= 0).all():
        return indices
    size = graph.convert(graph.size_of(data, axis), graph.type(indices))
    negative = graph.make("Less", indices, graph.like(0, indices))
    return graph.select(negative, graph.plus(indices, size), indices)


@lowering("GatherND")
def _gather_nd(call: Call) -> Source:
    graph, data, indices = call.graph, call[0], call[1]
    batch = call.integer("batch_dims")
    value = graph.known(indices)
    if value is None or (value < 0).any():
        width = call.wanted(
            graph.sizes(indices)[-1],
            "a number of index columns that is open",
            "export it with its size",
        )
        sizes = graph.slice(graph.shape_of(data), batch, batch + width, 0)
        sizes = graph.convert(sizes, graph.type(indices))
        negative = graph.make("Less", indices, graph.like(0, indices))
        indices = graph.select(negative, graph.plus(indices, sizes), indices)
    return graph.make("GatherND", data, indices, batch_dims=batch)


_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "min": "min", "max": "max"}


@lowering("ScatterElements", "Scatter")
def _scatter_elements(call: Call) -> Source:
    graph, data = call.graph, call[0]
    reduction = _REDUCTIONS[call.one_of("reduction", "none", *_REDUCTIONS)]
    return graph.make(
        "ScatterElementsUpdate",
        data,
        call[1],
        call[2],
        graph.i64(call.axis(graph.rank(data))),
        reduction=reduction,
        use_init_val=True,
    )


@lowering("ScatterND")
def _scatter_nd(call: Call) -> Source:
    reduction = _REDUCTIONS[call.one_of("reduction", "none", *_REDUCTIONS)]
    return call.graph.make("ScatterNDUpdate", call[0], call[1], call[2], reduction=reduction)


@lowering("TensorScatter")
def _tensor_scatter(call: Call) -> Source:
    """Writes a run of rows into a cache, for each row of the batch from its own place on."""
    graph, cache, update = call.graph, call[0], call[1]
    rank = graph.rank(cache)
    axis = call.axis(rank, default=-2)
    ValidationError.when(
        axis == 0, "attribute 'axis': expected another axis than that of the batch"
    )
    length = graph.size_of(update, axis)
    places = graph.range(length)
    shape = [1] * rank
    shape[axis] = -1
    places = graph.reshape(places, shape)
    if call.has(2):
        starts = graph.convert(call[2], T.i64)
        places = graph.plus(places, graph.reshape(starts, [-1] + [1] * (rank - 1)))
    if call.text("mode", "linear") == "circular":
        places = graph.make("FloorMod", places, graph.size_of(cache, axis))
    places = graph.broadcast(places, graph.shape_of(update))
    return graph.make(
        "ScatterElementsUpdate",
        cache,
        places,
        update,
        graph.i64(axis),
        reduction="none",
        use_init_val=True,
    )


@lowering("Compress")
def _compress(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axis = call.get("axis")
    if axis is None:
        data, axis = graph.reshape(data, [-1]), 0
    places = graph.reshape(graph.make("NonZero", call[1], output_type=T.i64), [-1])
    return graph.gather(data, places, int(axis))


@lowering("NonZero")
def _non_zero(call: Call) -> Source:
    return call.graph.make("NonZero", call[0], output_type=T.i64)


@lowering("OneHot")
def _one_hot(call: Call) -> Source:
    graph = call.graph
    indices = graph.convert(call[0], T.i64)
    depth = graph.convert(graph.reshape(call[1], []), T.i64)
    off, on = (graph.gather(call[2], i, 0) for i in (0, 1))
    negative = graph.make("Less", indices, graph.i64(0))
    indices = graph.select(negative, graph.plus(indices, depth), indices)
    return graph.make("OneHot", indices, depth, on, off, axis=call.integer("axis", -1))


@lowering("TopK")
def _top_k_by_attribute(call: Call) -> tuple[Source, ...]:
    k = call.graph.i64(call.integer("k"))
    return _best(call, k)


@lowering("TopK", since=10)
def _top_k(call: Call) -> tuple[Source, ...]:
    k = call[1]
    return _best(call, k if call.graph.spec(k).rank == 0 else call.graph.reshape(k, []))


def _best(call: Call, k: Source) -> tuple[Source, ...]:
    return call.graph.several(
        "TopK",
        call[0],
        k,
        axis=call.integer("axis", -1),
        mode="max" if call.integer("largest", 1) else "min",
        sort="value",
        index_element_type=T.i64,
        stable=True,
        opset=11,
    )


@lowering("ArgMax", "ArgMin")
def _arg_best(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axis = call.axis(graph.rank(data))
    last = bool(call.integer("select_last_index"))
    if last:
        data = graph.slice(data, -1, -(1 << 40), axis, -1)
    _, places = graph.several(
        "TopK",
        data,
        graph.i64(1),
        axis=axis,
        mode="max" if call.op_type == "ArgMax" else "min",
        sort="value",
        index_element_type=T.i64,
        stable=True,
        opset=11,
    )
    if last:
        places = graph.minus(graph.minus(graph.size_of(data, axis), 1), places)
    return places if call.integer("keepdims", 1) else graph.squeeze(places, axis)


@lowering("Unique")
def _unique(call: Call) -> tuple[Source, ...]:
    graph = call.graph
    axis = () if call.get("axis") is None else (graph.i64(call.integer("axis")),)
    return graph.several(
        "Unique",
        call[0],
        *axis,
        sorted=bool(call.integer("sorted", 1)),
        index_element_type=T.i64,
        count_element_type=T.i64,
    )


@lowering("NonMaxSuppression")
def _non_max_suppression(call: Call) -> Source:
    graph = call.graph
    most = call.optional(2)
    # Without a number no box is wanted.
    most = graph.i64(0) if most is None else graph.reshape(most, [])
    limits = [
        graph.reshape(limit, []) if limit is not None else graph.of_type(default, T.f32)
        for limit, default in ((call.optional(3), 0.0), (call.optional(4), -float(2**127)))
    ]
    encoding = "center" if call.integer("center_point_box") else "corner"
    return graph.make(
        "NonMaxSuppression",
        call[0],
        call[1],
        most,
        *limits,
        graph.of_type(0.0, T.f32),
        box_encoding=encoding,
        sort_result_descending=False,
        output_type=T.i64,
    )


@lowering("Hardmax")
def _hardmax(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    axis = call.axis(rank, default=1 if call.version < 13 else -1)
    shape = None
    if call.version < 13 and axis != rank - 1:
        shape, data = graph.shape_of(data), graph.flatten(data, axis)
        axis, rank = 1, 2
    _, best = graph.several(
        "TopK",
        data,
        graph.i64(1),
        axis=axis,
        mode="max",
        sort="value",
        index_element_type=T.i64,
        stable=True,
        opset=11,
    )
    places = graph.range(graph.size_of(data, axis))
    places = graph.reshape(places, [-1 if i == axis else 1 for i in range(rank)])
    same = graph.convert(graph.make("Equal", places, best), graph.type(data))
    return same if shape is None else graph.reshape(same, shape)


@lowering("MaxUnpool")
def _max_unpool(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    kernel = call.integers("kernel_shape")
    strides = call.integers("strides", [1] * len(kernel))
    pads = call.integers("pads", [0] * 2 * len(kernel))
    sizes = graph.sizes(data)
    call.refuse_if(None in sizes, "data of open size", "export the model with its sizes")
    known = [int(n or 0) for n in sizes]
    shape = known[:2] + [
        (known[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank - 2] + kernel[i]
        for i in range(rank - 2)
    ]
    wanted = call.known(2, "input 2 (output_shape)") if call.has(2) else shape
    zeros = np.zeros(int(np.prod(wanted)), graph.type(data).dtype)
    flat = graph.constant(zeros, graph.type(data))
    places = graph.reshape(call[1], [-1])
    if wanted != shape and len(wanted) == rank:
        places = _in_larger(call, places, shape, wanted)
    spread = graph.make(
        "ScatterElementsUpdate",
        flat,
        places,
        graph.reshape(data, [-1]),
        graph.i64(0),
        reduction="none",
        use_init_val=True,
    )
    return graph.reshape(spread, wanted)


def _in_larger(call: Call, places: Source, shape: list[int], wanted: list[int]) -> Source:
    """Places in the flattened tensor of one shape as those in a tensor of a larger one."""
    graph = call.graph
    total, rest = None, places
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    outer = [int(np.prod(wanted[i + 1 :])) for i in range(len(wanted))]
    for step, other in zip(steps, outer, strict=True):
        at = graph.over(rest, step)
        rest = graph.minus(rest, graph.times(at, step))
        part = graph.times(at, other)
        total = part if total is None else graph.plus(total, part)
    assert total is not None
    return total
