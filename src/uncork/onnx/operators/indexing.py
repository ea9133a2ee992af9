"""Operators that look up, scatter and find places: Gather and Scatter, TopK, NonZero, OneHot."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType


@lowering("Gather")
def _gather(g: Graph, call: Call, data: Source, indices: Source) -> Source:
    return g.gather(data, indices, call.integer("axis"))


@lowering("GatherElements")
def _gather_elements(g: Graph, call: Call, data: Source, indices: Source) -> Source:
    """ONNX, as torch, takes fewer indices than there are data along the other axes, and reads the
    first data there; the IR takes as many.
    """
    axis = call.axis(g.rank(data))
    indices = from_the_front(g, indices, data, axis)
    if g.rank(indices) == g.rank(data):
        for other, (size, wanted) in enumerate(zip(g.sizes(data), g.sizes(indices), strict=True)):
            if other != axis and size is not None and wanted is not None and wanted < size:
                data = g.slice(data, 0, wanted, other)
    return g.make("GatherElements", data, indices, axis=axis)


def from_the_front(g: Graph, indices: Source, data: Source, axis: int) -> Source:
    """Indices of which negative ones are counted from the first place, too."""
    value = g.known(indices)
    if value is not None and (value >= 0).all():
        return indices
    size = g.convert(g.size_of(data, axis), g.type(indices))
    negative = g.make("Less", indices, g.like(0, indices))
    return g.select(negative, g.plus(indices, size), indices)


@lowering("GatherND")
def _gather_nd(g: Graph, call: Call, data: Source, indices: Source) -> Source:
    batch = call.integer("batch_dims")
    value = g.known(indices)
    if value is None or (value < 0).any():
        width = call.wanted(
            g.sizes(indices)[-1],
            "a number of index columns that is open",
            "export it with its size",
        )
        sizes = g.slice(g.shape_of(data), batch, batch + width, 0)
        sizes = g.convert(sizes, g.type(indices))
        negative = g.make("Less", indices, g.like(0, indices))
        indices = g.select(negative, g.plus(indices, sizes), indices)
    return g.make("GatherND", data, indices, batch_dims=batch)


_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "min": "min", "max": "max"}


@lowering("ScatterElements", "Scatter")
def _scatter_elements(
    g: Graph, call: Call, data: Source, indices: Source, updates: Source
) -> Source:
    reduction = _REDUCTIONS[call.one_of("reduction", "none", *_REDUCTIONS)]
    return g.scatter(data, indices, updates, call.axis(g.rank(data)), reduction)


@lowering("ScatterND")
def _scatter_nd(g: Graph, call: Call, data: Source, indices: Source, updates: Source) -> Source:
    reduction = _REDUCTIONS[call.one_of("reduction", "none", *_REDUCTIONS)]
    return g.make("ScatterNDUpdate", data, indices, updates, reduction=reduction)


@lowering("TensorScatter")
def _tensor_scatter(
    g: Graph, call: Call, cache: Source, update: Source, write_indices: Source | None = None
) -> Source:
    """Writes a run of rows into a cache, for each row of the batch from its own place on."""
    rank = g.rank(cache)
    axis = call.axis(rank, default=-2)
    ValidationError.when(
        axis == 0, "attribute 'axis': expected another axis than that of the batch"
    )
    length = g.size_of(update, axis)
    places = g.range(length)
    shape = [1] * rank
    shape[axis] = -1
    places = g.reshape(places, shape)
    if write_indices is not None:
        starts = g.convert(write_indices, T.i64)
        places = g.plus(places, g.reshape(starts, [-1] + [1] * (rank - 1)))
    if call.text("mode", "linear") == "circular":
        places = g.make("FloorMod", places, g.size_of(cache, axis))
    places = g.broadcast(places, g.shape_of(update))
    return g.scatter(cache, places, update, axis)


@lowering("Compress")
def _compress(g: Graph, call: Call, data: Source, condition: Source) -> Source:
    axis = call.get("axis")
    if axis is None:
        data, axis = g.reshape(data, [-1]), 0
    places = g.reshape(g.make("NonZero", condition, output_type=T.i64), [-1])
    return g.gather(data, places, int(axis))


@lowering("NonZero")
def _non_zero(g: Graph, call: Call, data: Source) -> Source:
    return g.make("NonZero", data, output_type=T.i64)


@lowering("OneHot")
def _one_hot(g: Graph, call: Call, indices: Source, depth: Source) -> Source:
    indices = g.convert(indices, T.i64)
    depth = g.convert(g.reshape(depth, []), T.i64)
    off, on = (g.gather(call[2], i, 0) for i in (0, 1))
    negative = g.make("Less", indices, g.i64(0))
    indices = g.select(negative, g.plus(indices, depth), indices)
    return g.make("OneHot", indices, depth, on, off, axis=call.integer("axis", -1))


@lowering("TopK")
def _top_k_by_attribute(g: Graph, call: Call) -> tuple[Source, ...]:
    k = g.i64(call.integer("k"))
    return _best(g, call, k)


@lowering("TopK", since=10)
def _top_k(g: Graph, call: Call) -> tuple[Source, ...]:
    k = call[1]
    return _best(g, call, k if g.spec(k).rank == 0 else g.reshape(k, []))


def _best(g: Graph, call: Call, k: Source) -> tuple[Source, ...]:
    return g.best(
        call[0],
        call.integer("axis", -1),
        k,
        mode="max" if call.integer("largest", 1) else "min",
        stable=True,
    )


@lowering("ArgMax", "ArgMin")
def _arg_best(g: Graph, call: Call, data: Source) -> Source:
    axis = call.axis(g.rank(data))
    last = bool(call.integer("select_last_index"))
    if last:
        data = g.slice(data, -1, -(1 << 40), axis, -1)
    _, places = g.best(data, axis, mode="max" if call.op_type == "ArgMax" else "min", stable=True)
    if last:
        places = g.minus(g.minus(g.size_of(data, axis), 1), places)
    return places if call.integer("keepdims", 1) else g.squeeze(places, axis)


@lowering("Unique")
def _unique(g: Graph, call: Call, data: Source) -> tuple[Source, ...]:
    axis = () if call.get("axis") is None else (g.i64(call.integer("axis")),)
    return g.several(
        "Unique",
        data,
        *axis,
        sorted=bool(call.integer("sorted", 1)),
        index_element_type=T.i64,
        count_element_type=T.i64,
    )


@lowering("NonMaxSuppression")
def _non_max_suppression(
    g: Graph,
    call: Call,
    boxes: Source,
    scores: Source,
    most: Source | None = None,
    iou_threshold: Source | None = None,
    score_threshold: Source | None = None,
) -> Source:
    # Without a number no box is wanted.
    most = g.i64(0) if most is None else g.reshape(most, [])
    limits = [
        g.reshape(limit, []) if limit is not None else g.of_type(default, T.f32)
        for limit, default in ((iou_threshold, 0.0), (score_threshold, -float(2**127)))
    ]
    encoding = "center" if call.integer("center_point_box") else "corner"
    return g.make(
        "NonMaxSuppression",
        boxes,
        scores,
        most,
        *limits,
        g.of_type(0.0, T.f32),
        box_encoding=encoding,
        sort_result_descending=False,
        output_type=T.i64,
    )


@lowering("Hardmax")
def _hardmax(g: Graph, call: Call, data: Source) -> Source:
    rank = g.rank(data)
    axis = call.axis(rank, default=1 if call.version < 13 else -1)
    shape = None
    if call.version < 13 and axis != rank - 1:
        shape, data = g.shape_of(data), g.flatten(data, axis)
        axis, rank = 1, 2
    _, best = g.best(data, axis, stable=True)
    places = g.range(g.size_of(data, axis))
    places = g.reshape(places, [-1 if i == axis else 1 for i in range(rank)])
    same = g.convert(g.make("Equal", places, best), g.type(data))
    return same if shape is None else g.reshape(same, shape)


@lowering("MaxUnpool")
def _max_unpool(g: Graph, call: Call, data: Source, indices: Source) -> Source:
    rank = g.rank(data)
    kernel = call.integers("kernel_shape")
    strides = call.integers("strides", [1] * len(kernel))
    pads = call.integers("pads", [0] * 2 * len(kernel))
    sizes = g.sizes(data)
    call.refuse_if(None in sizes, "data of open size", "export the model with its sizes")
    known = [int(n or 0) for n in sizes]
    shape = known[:2] + [
        (known[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank - 2] + kernel[i]
        for i in range(rank - 2)
    ]
    wanted = call.known(2, "input 2 (output_shape)") if call.has(2) else shape
    zeros = np.zeros(int(np.prod(wanted)), g.type(data).dtype)
    flat = g.constant(zeros, g.type(data))
    places = g.reshape(indices, [-1])
    if wanted != shape and len(wanted) == rank:
        places = _in_larger(g, places, shape, wanted)
    spread = g.scatter(flat, places, g.reshape(data, [-1]), 0)
    return g.reshape(spread, wanted)


def _in_larger(g: Graph, places: Source, shape: list[int], wanted: list[int]) -> Source:
    """Places in the flattened tensor of one shape as those in a tensor of a larger one."""
    total, rest = None, places
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    outer = [int(np.prod(wanted[i + 1 :])) for i in range(len(wanted))]
    for step, other in zip(steps, outer, strict=True):
        at = g.over(rest, step)
        rest = g.minus(rest, g.times(at, step))
        part = g.times(at, other)
        total = part if total is None else g.plus(total, part)
    assert total is not None
    return total
