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
def _embedding_bag(
    g: Graph, call: Call, table: Source, ids: Source, starts: Source, weights: Source | None = None
) -> Source:
    """torch.nn.functional.embedding_bag: bags by where each one starts."""
    if g.type(ids) is not g.type(starts):
        ids, starts = g.convert(ids, T.i64), g.convert(starts, T.i64)
    # Where a bag ends is never read: a last offset that only says so is not needed.
    padding = call.integer("padding_idx", -1)
    if padding >= 0:
        ids, starts, weights = _without(g, padding, ids, starts, weights)
    if call.integer("include_last_offset"):
        last = g.slice(starts, -1, 1 << 40, 0)
        starts = g.slice(starts, 0, -1, 0)
        ids = _until(g, ids, last)
        weights = None if weights is None else _until(g, weights, last)
    mode = call.integer("mode")
    if mode == _MAX:
        return _maximum(g, table, ids, starts)
    inputs = [table, ids, starts]
    if weights is not None:
        inputs += [g.like(-1, ids), weights]
    name = "mean" if mode == _MEAN else "sum"
    return g.make("EmbeddingBagOffsets", *inputs, reduction=name)


def _until(g: Graph, data: Source, stop: Source) -> Source:
    first, step = g.like(0, stop), g.like(1, stop)
    return g.make("Slice", data, g.reshape(first, [1]), stop, g.reshape(step, [1]), g.i64([0]))


def _without(
    g: Graph, padding: int, ids: Source, starts: Source, weights: Source | None
) -> tuple[Source, Source, Source | None]:
    """The bags without one id: where they start then is how many before them are kept."""
    kept = g.make("NotEqual", ids, g.like(padding, ids))
    places = g.make("NonZero", kept, output_type=T.i64)
    places = g.reshape(places, [-1])
    before = g.make("SearchSorted", places, starts, output_type=g.type(starts))
    chosen = None if weights is None else g.gather(weights, places, 0)
    return g.gather(ids, places, 0), before, chosen


def _maximum(g: Graph, table: Source, ids: Source, starts: Source) -> Source:
    """The greatest of each bag, number by number; zeros where there is none."""
    places = g.range(g.size_of(ids, 0), g.type(starts))
    bags = g.make("SearchSorted", starts, places, right_mode=True)
    bags = g.minus(bags, 1)
    count = g.reshape(g.size_of(starts, 0), [])
    rows = g.gather(table, ids, 0)
    return g.make("SegmentMax", rows, bags, count, fill_mode="zero", opset=16)


@lowering("ScatterReduce", domain=OWN)
def _scatter_reduce(g: Graph, call: Call) -> Source:
    """torch.scatter_reduce: elements of one place make one number, with what was there or without
    it.
    """
    return g.make(
        "ScatterElementsUpdate",
        *(call[n] for n in range(3)),
        g.i64(call.integer("axis")),
        reduction=_REDUCTIONS[call.one_of("reduce", "sum", *_REDUCTIONS)],
        use_init_val=bool(call.integer("include_self")),
        opset=12,
    )


@lowering("ScaledDotProductAttention", domain=OWN)
def _scaled_dot_product_attention(
    g: Graph, call: Call, query: Source, key: Source, value: Source
) -> Source:
    if call.integer("enable_gqa"):
        heads, groups = g.sizes(query)[-3], g.sizes(key)[-3]
        if not heads or not groups:
            raise call.refuse("an open number of heads", "give dynamic= without that axis")
        key, value = (repeated(g, t, heads // groups) for t in (key, value))
    causal = bool(call.integer("is_causal"))
    mask = call[3] if call.integer("has_mask") and not causal else None
    is_scaled = mask is not None or call.integer("has_scale")
    scale = _scale(g, call, query) if is_scaled else None
    return attention(g, query, key, value, mask, scale, causal)


def attention(
    g: Graph,
    query: Source,
    key: Source,
    value: Source,
    mask: Source | None,
    scale: Source | None,
    causal: bool,
) -> Source:
    """torch.nn.functional.scaled_dot_product_attention: of a row whose keys are all masked it is 0,
    where the operation of the IR has NaN.
    """
    inputs = [query, key, value]
    if scale is not None:
        # A mask of one number, for an input cannot be left out before another.
        inputs += [g.of_type(0.0, g.type(query)) if mask is None else mask, scale]
    if mask is not None:
        inputs.append(_sink(g, mask, query))
    return g.make("ScaledDotProductAttention", *inputs, causal=causal, opset=13)


def _scale(g: Graph, call: Call, query: Source) -> Source:
    kind = g.type(query)
    if call.integer("has_scale"):
        scale = call[call.count - 1]
        value = g.known(scale)
        if value is not None:
            return g.of_type(float(value.reshape(-1)[0]), kind)
        return g.reshape(g.convert(scale, kind), [])
    size = g.sizes(query)[-1]
    if size:
        return g.of_type(size**-0.5, kind)
    size_now = g.reshape(g.size_of(query, g.rank(query) - 1), [])
    return g.power(g.convert(size_now, kind), -0.5)


def _sink(g: Graph, mask: Source, query: Source) -> Source:
    """One more logit of each row, which takes all the weight where no key has any: [.., 1]."""
    kind = g.type(query)
    if g.type(mask) is T.boolean:
        some = g.make("ReduceLogicalOr", mask, g.i64([g.rank(mask) - 1]), keep_dims=True)
    else:
        most = g.reduce("ReduceMax", mask, [g.rank(mask) - 1])
        some = g.make("NotEqual", most, g.like(-np.inf, most))
    return g.select(some, g.of_type(-np.inf, kind), g.of_type(0.0, kind))


@lowering("Unfold", domain=OWN)
def _unfold(g: Graph, call: Call, data: Source) -> Source:
    """torch.Tensor.unfold: windows along an axis, of which each is a row of a new last axis."""
    rank = g.rank(data)
    axis = call.place(call.integer("axis"), rank)
    size, step = call.integer("size"), call.integer("step")
    windows = g.plus(g.over(g.minus(g.dim(data, axis), size), step), 1)
    begins = g.times(g.range(windows), step)
    places = g.plus(g.unsqueeze(begins, 1), g.range(g.i64(size)))
    rows = g.gather(data, places, axis)
    return g.transpose(rows, [i for i in range(rank + 1) if i != axis + 1] + [axis + 1])


@lowering("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", domain=OWN)
def _bitwise(g: Graph, call: Call) -> Source:
    """Of whole numbers: the result has the type of the first."""
    first, *others = call.tensors
    return g.make(call.op_type, first, *(g.convert(each, g.type(first)) for each in others))


@lowering("ErfInv", domain=OWN)
def _error_inverse(g: Graph, call: Call, data: Source) -> Source:
    return g.make("ErfInv", data, opset=17)


@lowering("Diff", domain=OWN)
def _diff(g: Graph, call: Call, data: Source) -> Source:
    """torch.diff: each number less the one before it, several times; of truths, where they
    differ.
    """
    axis = call.place(call.integer("axis"), g.rank(data))
    less = "NotEqual" if g.type(data) is T.boolean else "Subtract"
    for _ in range(call.integer("n")):
        behind, before = g.slice(data, 1, 1 << 40, axis), g.slice(data, 0, -1, axis)
        data = g.binary(less, behind, before)
    return data


@lowering("AdaptiveAvgPool", domain=OWN)
def _adaptive_avg_pool(g: Graph, call: Call, data: Source) -> Source:
    """The means of as many parts as the result has cells; windows where these are all alike."""
    sizes, wanted = g.sizes(data)[2:], g.known(call[1])
    if wanted is not None and None not in sizes:
        pairs = [(int(n or 0), int(w)) for n, w in zip(sizes, wanted, strict=True)]
        if all(w and n and n % w == 0 for n, w in pairs):
            steps = [n // w for n, w in pairs]
            none = [0] * len(steps)
            return g.make(
                "AvgPool",
                data,
                exclude_pad=True,
                kernel=steps,
                strides=steps,
                pads_begin=none,
                pads_end=none,
                opset=14,
            )
    return g.make("AdaptiveAvgPool", data, call[1])


@lowering("AdaptiveMaxPool", domain=OWN)
def _adaptive_max_pool(g: Graph, call: Call, data: Source, sizes: Source) -> tuple[Source, ...]:
    return g.several("AdaptiveMaxPool", data, sizes, index_element_type=T.i64)


@lowering("SearchSorted", domain=OWN)
def _searchsorted(g: Graph, call: Call, rows: Source, values: Source) -> Source:
    """torch.searchsorted."""
    if g.type(rows) is not g.type(values):
        values = g.convert(values, g.type(rows))
    return g.make(
        "SearchSorted",
        rows,
        values,
        right_mode=bool(call.integer("right")),
        output_type=T.i32 if call.integer("out_int32") else T.i64,
    )


@lowering("Antialiased", domain=OWN)
def _antialiased(g: Graph, call: Call, data: Source, sizes: Source) -> Source:
    """torch.nn.functional.interpolate of images with antialias, to a size."""
    return g.make(
        "Interpolate",
        data,
        sizes,
        g.i64([2, 3]),
        mode=f"{call.text('mode')}_pillow",
        shape_calculation_mode="sizes",
        coordinate_transformation_mode="half_pixel",
        cube_coeff=-0.5,
        opset=11,
    )
