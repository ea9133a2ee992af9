"""The domain `uncork`: what `from_torch` has torch's exporter write where ONNX has no operator."""

from __future__ import annotations

import numpy as np

from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.attention import repeated
from uncork.onnx.registry import OWN, lowering
from uncork.types import ElementType

T = ElementType
_SUM, _MEAN, _MAX = 0, 1, 2
#: The reductions of scatter_reduce by torch's words.
_REDUCTIONS = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "max", "amin": "min"}


@lowering("EmbeddingBag", domain=OWN)
def _embedding_bag(call: Call) -> Source:
    """torch.nn.functional.embedding_bag: bags by where each one starts."""
    graph, table, ids, starts = call.graph, call[0], call[1], call[2]
    weights = call.optional(3)
    if graph.type(ids) is not graph.type(starts):
        ids, starts = graph.convert(ids, T.i64), graph.convert(starts, T.i64)
    # Where a bag ends is never read: a last offset that only says so is not needed.
    padding = call.integer("padding_idx", -1)
    if padding >= 0:
        ids, starts, weights = _without(graph, padding, ids, starts, weights)
    if call.integer("include_last_offset"):
        last = graph.slice(starts, -1, 1 << 40, 0)
        starts = graph.slice(starts, 0, -1, 0)
        ids = _until(graph, ids, last)
        weights = None if weights is None else _until(graph, weights, last)
    mode = call.integer("mode")
    if mode == _MAX:
        return _maximum(graph, table, ids, starts)
    inputs = [table, ids, starts]
    if weights is not None:
        inputs += [graph.like(-1, ids), weights]
    name = "mean" if mode == _MEAN else "sum"
    return graph.make("EmbeddingBagOffsets", *inputs, reduction=name)


def _until(graph: Graph, data: Source, stop: Source) -> Source:
    first, step = graph.like(0, stop), graph.like(1, stop)
    return graph.make(
        "Slice", data, graph.reshape(first, [1]), stop, graph.reshape(step, [1]), graph.i64([0])
    )


def _without(
    graph: Graph, padding: int, ids: Source, starts: Source, weights: Source | None
) -> tuple[Source, Source, Source | None]:
    """The bags without one id: where they start then is how many before them are kept."""
    kept = graph.make("NotEqual", ids, graph.like(padding, ids))
    places = graph.make("NonZero", kept, output_type=T.i64)
    places = graph.reshape(places, [-1])
    before = graph.make("SearchSorted", places, starts, output_type=graph.type(starts))
    chosen = None if weights is None else graph.gather(weights, places, 0)
    return graph.gather(ids, places, 0), before, chosen


def _maximum(graph: Graph, table: Source, ids: Source, starts: Source) -> Source:
    """The greatest of each bag, number by number; zeros where there is none."""
    places = graph.range(graph.size_of(ids, 0), graph.type(starts))
    bags = graph.make("SearchSorted", starts, places, right_mode=True)
    bags = graph.minus(bags, 1)
    count = graph.reshape(graph.size_of(starts, 0), [])
    rows = graph.gather(table, ids, 0)
    return graph.make("SegmentMax", rows, bags, count, fill_mode="zero", opset=16)


@lowering("ScatterReduce", domain=OWN)
def _scatter_reduce(call: Call) -> Source:
    """torch.scatter_reduce: elements of one place make one number, with what was there or without
    it.
    """
    graph = call.graph
    return graph.make(
        "ScatterElementsUpdate",
        *(call[n] for n in range(3)),
        graph.i64(call.integer("axis")),
        reduction=_REDUCTIONS[call.one_of("reduce", "sum", *_REDUCTIONS)],
        use_init_val=bool(call.integer("include_self")),
        opset=12,
    )


@lowering("ScaledDotProductAttention", domain=OWN)
def _scaled_dot_product_attention(call: Call) -> Source:
    """torch.nn.functional.scaled_dot_product_attention: of a row whose keys are all masked it is 0,
    where the operation of the IR has NaN.
    """
    graph, query, key, value = call.graph, call[0], call[1], call[2]
    if call.integer("enable_gqa"):
        heads, groups = graph.sizes(query)[-3], graph.sizes(key)[-3]
        if not heads or not groups:
            raise call.refuse("an open number of heads", "give dynamic= without that axis")
        key, value = (repeated(call, t, heads // groups) for t in (key, value))
    causal = bool(call.integer("is_causal"))
    inputs = [query, key, value]
    if call.integer("has_mask") and not causal:
        mask = call[3]
        inputs += [mask, _scale(call, query), _sink(graph, mask, query)]
    elif call.integer("has_scale"):
        # A mask of one number, for an input cannot be left out before another.
        inputs += [graph.of_type(0.0, graph.type(query)), _scale(call, query)]
    return graph.make("ScaledDotProductAttention", *inputs, causal=causal, opset=13)


def _scale(call: Call, query: Source) -> Source:
    graph = call.graph
    kind = graph.type(query)
    if call.integer("has_scale"):
        scale = call[call.count - 1]
        value = graph.known(scale)
        if value is not None:
            return graph.of_type(float(value.reshape(-1)[0]), kind)
        return graph.reshape(graph.convert(scale, kind), [])
    size = graph.sizes(query)[-1]
    if size:
        return graph.of_type(size**-0.5, kind)
    size_now = graph.reshape(graph.size_of(query, graph.rank(query) - 1), [])
    return graph.power(graph.convert(size_now, kind), -0.5)


def _sink(graph: Graph, mask: Source, query: Source) -> Source:
    """One more logit of each row, which takes all the weight where no key has any: [.., 1]."""
    kind = graph.type(query)
    if graph.type(mask) is T.boolean:
        some = graph.make(
            "ReduceLogicalOr", mask, graph.i64([graph.rank(mask) - 1]), keep_dims=True
        )
    else:
        most = graph.reduce("ReduceMax", mask, [graph.rank(mask) - 1])
        some = graph.make("NotEqual", most, graph.like(-np.inf, most))
    return graph.select(some, graph.of_type(-np.inf, kind), graph.of_type(0.0, kind))


@lowering("Unfold", domain=OWN)
def _unfold(call: Call) -> Source:
    """torch.Tensor.unfold: windows along an axis, of which each is a row of a new last axis."""
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    axis = call.place(call.integer("axis"), rank)
    size, step = call.integer("size"), call.integer("step")
    windows = graph.plus(graph.over(graph.minus(graph.dim(data, axis), size), step), 1)
    begins = graph.times(graph.range(windows), step)
    places = graph.plus(graph.unsqueeze(begins, 1), graph.range(graph.i64(size)))
    rows = graph.gather(data, places, axis)
    return graph.transpose(rows, [i for i in range(rank + 1) if i != axis + 1] + [axis + 1])


@lowering("Diff", domain=OWN)
def _diff(call: Call) -> Source:
    """torch.diff: each number less the one before it, several times; of truths, where they
    differ.
    """
    graph, data = call.graph, call[0]
    axis = call.place(call.integer("axis"), graph.rank(data))
    less = "NotEqual" if graph.type(data) is T.boolean else "Subtract"
    for _ in range(call.integer("n")):
        behind, before = graph.slice(data, 1, 1 << 40, axis), graph.slice(data, 0, -1, axis)
        data = graph.binary(less, behind, before)
    return data


@lowering("AdaptiveAvgPool", domain=OWN)
def _adaptive_avg_pool(call: Call) -> Source:
    """The means of as many parts as the result has cells; windows where these are all alike."""
    graph, data = call.graph, call[0]
    sizes, wanted = graph.sizes(data)[2:], graph.known(call[1])
    if wanted is not None and None not in sizes:
        pairs = [(int(n or 0), int(w)) for n, w in zip(sizes, wanted, strict=True)]
        if all(w and n and n % w == 0 for n, w in pairs):
            steps = [n // w for n, w in pairs]
            none = [0] * len(steps)
            return graph.make(
                "AvgPool",
                data,
                exclude_pad=True,
                kernel=steps,
                strides=steps,
                pads_begin=none,
                pads_end=none,
                opset=14,
            )
    return graph.make("AdaptiveAvgPool", data, call[1])


@lowering("AdaptiveMaxPool", domain=OWN)
def _adaptive_max_pool(call: Call) -> tuple[Source, ...]:
    graph = call.graph
    return graph.several("AdaptiveMaxPool", call[0], call[1], index_element_type=T.i64)


@lowering("SearchSorted", domain=OWN)
def _searchsorted(call: Call) -> Source:
    """torch.searchsorted."""
    graph, rows, values = call.graph, call[0], call[1]
    if graph.type(rows) is not graph.type(values):
        values = graph.convert(values, graph.type(rows))
    return graph.make(
        "SearchSorted",
        rows,
        values,
        right_mode=bool(call.integer("right")),
        output_type=T.i32 if call.integer("out_int32") else T.i64,
    )


@lowering("Antialiased", domain=OWN)
def _antialiased(call: Call) -> Source:
    """torch.nn.functional.interpolate of images with antialias, to a size."""
    graph = call.graph
    return graph.make(
        "Interpolate",
        call[0],
        call[1],
        graph.i64([2, 3]),
        mode=f"{call.text('mode')}_pillow",
        shape_calculation_mode="sizes",
        coordinate_transformation_mode="half_pixel",
        cube_coeff=-0.5,
        opset=11,
    )
