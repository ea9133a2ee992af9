"""com.microsoft: attention with masks, groups of heads, keys of steps before, and turned places."""

from __future__ import annotations

import math

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.types import ElementType

T = ElementType


def split_heads(call: Call, data: Source, heads: int) -> Source:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    graph = call.graph
    parted = graph.make("Reshape", data, graph.i64([0, 0, heads, -1]), special_zero=True)
    return graph.transpose(parted, [0, 2, 1, 3])


def join_heads(call: Call, data: Source) -> Source:
    """The inverse of `split_heads`."""
    graph = call.graph
    moved = graph.transpose(data, [0, 2, 1, 3])
    return graph.make("Reshape", moved, graph.i64([0, 0, -1]), special_zero=True)


def attended(
    call: Call,
    query: Source,
    key: Source,
    value: Source,
    bias: Source | None,
    scale: float | None = None,
    cap: float = 0.0,
) -> Source:
    """softmax(q k / sqrt(size) + bias) v; with a cap the scores go no further than that."""
    graph = call.graph
    size = graph.sizes(query)[-1]
    if scale is None:
        if not size:
            raise call.refuse("an open size of heads", "export the model with its sizes")
        scale = 1 / math.sqrt(size)
    scores = graph.times(graph.matmul(query, key, tb=True), scale)
    if cap:
        scores = graph.times(graph.make("Tanh", graph.times(scores, 1 / cap)), cap)
    if bias is not None:
        scores = graph.plus(scores, bias)
    return graph.matmul(graph.make("SoftMax", scores, axis=-1), value)


def mask_bias(call: Call, mask: Source, keys: Source, low: float) -> Source:
    """What is added to scores of `keys` that a mask hides: [batch, 1, .., keys].

    A mask is of zeros where keys are hidden, or of how many keys each row has.
    """
    graph = call.graph
    rank = graph.rank(mask)
    if rank == 1:
        call.refuse_if(
            graph.sizes(mask)[0] not in (None, graph.sizes(keys)[0]),
            "a mask of starts and ends",
            "give it as [batch, keys], of zeros and ones",
        )
        columns = graph.convert(graph.range(graph.size_of(keys, 2)), graph.type(mask))
        hidden = graph.make("GreaterEqual", columns, graph.reshape(mask, [-1, 1, 1, 1]))
    else:
        if rank == 2:
            mask = graph.unsqueeze(mask, 1, 2)
        elif rank == 3:
            mask = graph.unsqueeze(mask, 1)
        hidden = graph.make("Equal", mask, graph.like(0, mask))
    return graph.select(hidden, graph.of_type(low, T.f32), graph.of_type(0.0, T.f32))


def causal_bias(call: Call, query: Source, key: Source, low: float) -> Source:
    """What is added to scores of keys that come after the query; the last of both are together."""
    graph = call.graph
    steps, all_steps = graph.size_of(query, 2), graph.size_of(key, 2)
    rows = graph.plus(graph.range(steps), graph.minus(all_steps, steps))
    columns = graph.range(all_steps)
    after = graph.make("Greater", graph.unsqueeze(columns, 0), graph.unsqueeze(rows, 1))
    return graph.select(after, graph.of_type(low, T.f32), graph.of_type(0.0, T.f32))


def _sum(call: Call, a: Source | None, b: Source | None) -> Source | None:
    if a is None or b is None:
        return b if a is None else a
    return call.graph.plus(a, b)


@lowering("Attention", domain=MICROSOFT)
def _attention(call: Call) -> tuple[Value, ...]:
    product = call.graph.matmul(call[0], call[1])
    if call.has(2):
        product = call.graph.plus(product, call[2])
    return projected(call, product, call.optional(3), call.optional(4), call.optional(5))


def projected(
    call: Call,
    product: Source,
    mask: Source | None,
    past: Source | None,
    bias: Source | None = None,
) -> tuple[Value, ...]:
    """Attention among queries, keys and values that one product gives side by side, and the keys
    and values with those of the past [2, batch, heads, steps, size].
    """
    graph, heads = call.graph, call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    sizes = call.integers("qkv_hidden_sizes")
    if sizes:
        parts = graph.split(product, sizes, 2)
    else:
        parts = graph.several("Split", product, graph.i64(2), num_splits=3)
    query, key, value = (split_heads(call, p, heads) for p in parts)
    present = None
    if past is not None:
        key = graph.concat([graph.gather(past, 0, 0), key], 2)
        value = graph.concat([graph.gather(past, 1, 0), value], 2)
    if call.wants(1):
        present = graph.concat([graph.unsqueeze(key, 0), graph.unsqueeze(value, 0)], 0)
    hidden = None if mask is None else mask_bias(call, mask, key, low)
    if call.integer("unidirectional"):
        hidden = _sum(call, hidden, causal_bias(call, query, key, low))
    bias = _sum(call, hidden, bias)
    scale = call.number("scale") or None
    return join_heads(call, attended(call, query, key, value, bias, scale)), present


@lowering("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(call: Call) -> tuple[Value, ...]:
    graph, heads = call.graph, call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    call.refuse_if(
        not call.has(1) or not call.has(2), "packed queries, keys and values", "give them apart"
    )
    tensors = [call[0], call[1], call[2]]
    if call.has(3):
        width = [graph.sizes(t)[-1] or 0 for t in tensors]
        biases = graph.split(call[3], [width[0], width[0], width[2]], 0)
        tensors = [
            graph.plus(t, b) if graph.rank(t) == 3 else t
            for t, b in zip(tensors, biases, strict=True)
        ]
    query, key, value = (split_heads(call, t, heads) if graph.rank(t) == 3 else t for t in tensors)
    if call.has(6):
        key = graph.concat([call[6], key], 2)
        value = graph.concat([call[7], value], 2)
    bias = mask_bias(call, call[4], key, low) if call.has(4) else None
    if call.integer("unidirectional"):
        bias = _sum(call, bias, causal_bias(call, query, key, low))
    bias = _sum(call, bias, call.optional(5))
    scale = call.number("scale") or None
    result = join_heads(call, attended(call, query, key, value, bias, scale))
    return result, key, value


@lowering("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(call: Call) -> tuple[Value, ...]:
    graph = call.graph
    heads, groups = call.integer("num_heads"), call.integer("kv_num_heads")
    ValidationError.when(
        heads < 1 or groups < 1 or heads % groups,
        f"{heads} heads cannot share {groups} heads of keys",
    )
    call.refuse_if(
        call.count > 10 and any(call.has(i) for i in range(10, call.count)),
        "an attention bias or a sink",
        "write attention by its nodes",
    )
    query, key, value = _queries_keys_values(call, heads, groups)
    # The last key of each row, and the place of its first new one: a prompt that is filled up on
    # the right begins at 0.
    last = graph.convert(graph.reshape(call[5], [-1]), T.i64)
    steps = graph.size_of(query, 2)
    starts = graph.plus(graph.minus(last, steps), 1)
    starts = graph.make("Maximum", starts, graph.i64(0))
    rows = graph.plus(graph.unsqueeze(starts, 1), graph.unsqueeze(graph.range(steps), 0))
    if call.integer("do_rotary"):
        places = call[9] if call.has(9) else rows
        query, key = (
            rotated(call, t, places, call[7], call[8], bool(call.integer("rotary_interleaved")))
            for t in (query, key)
        )
    if call.has(3):
        key, value = (_behind(call, call[p], t, starts) for p, t in ((3, key), (4, value)))
    repeat = heads // groups
    wide = [t if repeat == 1 else repeated(call, t, repeat) for t in (key, value)]
    columns = graph.range(graph.size_of(key, 2))
    rows = graph.unsqueeze(rows, 1, 3)
    hidden = graph.make("Greater", columns, rows)
    window = call.integer("local_window_size", -1)
    if window > 0:
        before = graph.make("LessEqual", columns, graph.minus(rows, window))
        hidden = graph.make("LogicalOr", hidden, before)
    kind = graph.type(query)
    low = -float(2**15) if kind is T.f16 else -float(2**127)
    bias = graph.select(hidden, graph.of_type(low, kind), graph.of_type(0.0, kind))
    scale, cap = call.number("scale") or None, call.number("softcap")
    result = attended(call, query, wide[0], wide[1], bias, scale, cap)
    return join_heads(call, result), key, value


def _queries_keys_values(call: Call, heads: int, groups: int) -> list[Source]:
    """The three of [batch, heads, steps, size], which may come as one tensor."""
    graph = call.graph
    tensors = [call[0]]
    if call.has(1):
        tensors += [call[1], call[2]]
    else:
        width = graph.sizes(call[0])[-1]
        if not width or width % (heads + 2 * groups):
            raise ValidationError(
                f"expected numbers of {heads} + 2 * {groups} heads, got {width or 'an open size'}"
            )
        size = width // (heads + 2 * groups)
        tensors = list(graph.split(call[0], [heads * size, groups * size, groups * size], 2))
    counts = (heads, groups, groups)
    return [split_heads(call, t, n) for t, n in zip(tensors, counts, strict=True)]


def _behind(call: Call, past: Source, new: Source, starts: Source) -> Source:
    """New keys behind those that each row has already, of which `past` may have room for more."""
    graph = call.graph
    room = graph.size_of(past, 2)
    total = graph.convert(graph.reshape(call[6], [1]), T.i64)
    columns = graph.unsqueeze(graph.range(graph.make("Maximum", room, total)), 0)
    offsets = graph.minus(columns, graph.unsqueeze(starts, 1))
    is_new = graph.make(
        "LogicalAnd",
        graph.make("GreaterEqual", offsets, graph.i64(0)),
        graph.make("Less", offsets, graph.size_of(new, 2)),
    )
    # What is behind both is read by nobody.
    kept = graph.make("Minimum", columns, graph.minus(room, 1))
    kept = graph.make("Maximum", kept, graph.i64(0))
    places = graph.select(is_new, graph.plus(offsets, room), kept)
    joined = graph.concat([past, new], 2)
    return graph.make("Gather", joined, places, graph.i64(2), batch_dims=1)


def repeated(call: Call, data: Source, count: int) -> Source:
    """Each head `count` times, one after the other."""
    graph = call.graph
    wide = graph.unsqueeze(data, 2)
    wide = graph.make("Tile", wide, graph.i64([1, 1, count, 1, 1]))
    heads = graph.sizes(data)[1]
    shape = graph.i64([0, (heads or 0) * count, -1, graph.sizes(data)[3] or 0])
    return graph.make("Reshape", wide, shape, special_zero=True)


def rotated(
    call: Call, data: Source, places: Source, cos: Source, sin: Source, interleaved: bool
) -> Source:
    """[batch, heads, steps, size] turned by the angles of their places."""
    graph = call.graph
    size = graph.sizes(data)[-1]
    half = graph.sizes(cos)[-1]
    if not size or not half:
        raise call.refuse("an open size of heads", "export the model with its sizes")
    cos, sin = (graph.unsqueeze(graph.gather(t, places, 0), 1) for t in (cos, sin))
    parts = [data] if size == 2 * half else list(graph.split(data, [2 * half, size - 2 * half], 3))
    turned = parts[0]
    if interleaved:
        first = graph.slice(turned, 0, 1 << 40, 3, 2)
        second = graph.slice(turned, 1, 1 << 40, 3, 2)
    else:
        first, second = graph.split(turned, [half, half], 3)
    real = graph.minus(graph.times(first, cos), graph.times(second, sin))
    imaginary = graph.plus(graph.times(first, sin), graph.times(second, cos))
    if interleaved:
        both = graph.concat([graph.unsqueeze(real, 4), graph.unsqueeze(imaginary, 4)], 4)
        turned = graph.make("Reshape", both, graph.i64([0, 0, 0, 2 * half]), special_zero=True)
    else:
        turned = graph.concat([real, imaginary], 3)
    return graph.concat([turned, *parts[1:]], 3)


@lowering("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(call: Call) -> Source:
    graph, data = call.graph, call[0]
    flat = graph.rank(data) == 3
    if flat:
        heads = call.integer("num_heads")
        half = graph.sizes(call[2])[-1] or 0
        width = graph.sizes(data)[-1] or 0
        data = split_heads(call, data, heads or width // max(1, 2 * half))
    places = call[1]
    if graph.rank(places) == 1:  # where the first step is
        places = graph.unsqueeze(graph.plus(places, graph.range(graph.size_of(data, 2))), 0)
    turned = rotated(call, data, places, call[2], call[3], bool(call.integer("interleaved")))
    return join_heads(call, turned) if flat else turned
