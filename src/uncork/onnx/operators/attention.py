"""com.microsoft: attention with masks, groups of heads, keys of steps before, and turned places."""

from __future__ import annotations

import math

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.types import ElementType

T = ElementType


def split_heads(g: Graph, data: Source, heads: int) -> Source:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    parted = g.make("Reshape", data, g.i64([0, 0, heads, -1]), special_zero=True)
    return g.transpose(parted, [0, 2, 1, 3])


def join_heads(g: Graph, data: Source) -> Source:
    """The inverse of `split_heads`."""
    moved = g.transpose(data, [0, 2, 1, 3])
    return g.make("Reshape", moved, g.i64([0, 0, -1]), special_zero=True)


def attended(
    g: Graph,
    call: Call,
    query: Source,
    key: Source,
    value: Source,
    bias: Source | None,
    scale: float | None,
    cap: float = 0.0,
) -> Source:
    """softmax(q k / sqrt(size) + bias) v; with a cap the scores go no further than that."""
    size = g.sizes(query)[-1]
    if scale is None:
        if not size:
            raise call.refuse("an open size of heads", "export the model with its sizes")
        scale = 1 / math.sqrt(size)
    scores = g.times(g.matmul(query, key, tb=True), scale)
    if cap:
        scores = g.times(g.make("Tanh", g.times(scores, 1 / cap)), cap)
    return g.matmul(g.make("SoftMax", g.added(scores, bias), axis=-1), value)


def mask_bias(g: Graph, call: Call, mask: Source, keys: Source, low: float) -> Source:
    """What is added to scores of `keys` that a mask hides: [batch, 1, .., keys].

    A mask is of zeros where keys are hidden, or of how many keys each row has.
    """
    rank = g.rank(mask)
    if rank == 1:
        call.refuse_if(
            g.sizes(mask)[0] not in (None, g.sizes(keys)[0]),
            "a mask of starts and ends",
            "give it as [batch, keys], of zeros and ones",
        )
        columns = g.convert(g.range(g.size_of(keys, 2)), g.type(mask))
        hidden = g.make("GreaterEqual", columns, g.reshape(mask, [-1, 1, 1, 1]))
    else:
        if rank == 2:
            mask = g.unsqueeze(mask, 1, 2)
        elif rank == 3:
            mask = g.unsqueeze(mask, 1)
        hidden = g.make("Equal", mask, g.like(0, mask))
    return g.select(hidden, g.of_type(low, T.f32), g.of_type(0.0, T.f32))


def causal_bias(g: Graph, query: Source, key: Source, low: float) -> Source:
    """What is added to scores of keys that come after the query; the last of both are together."""
    steps, all_steps = g.size_of(query, 2), g.size_of(key, 2)
    rows = g.plus(g.range(steps), g.minus(all_steps, steps))
    columns = g.range(all_steps)
    after = g.make("Greater", g.unsqueeze(columns, 0), g.unsqueeze(rows, 1))
    return g.select(after, g.of_type(low, T.f32), g.of_type(0.0, T.f32))


def _sum(g: Graph, a: Source | None, b: Source | None) -> Source | None:
    if a is None or b is None:
        return b if a is None else a
    return g.plus(a, b)


@lowering("Attention", domain=MICROSOFT)
def _attention(
    g: Graph,
    call: Call,
    data: Source,
    weights: Source,
    bias: Source | None = None,
    mask_index: Source | None = None,
    past: Source | None = None,
    attention_bias: Source | None = None,
) -> tuple[Value, ...]:
    product = g.added(g.matmul(data, weights), bias)
    return projected(g, call, product, mask_index, past, attention_bias)


def projected(
    g: Graph,
    call: Call,
    product: Source,
    mask: Source | None,
    past: Source | None,
    bias: Source | None = None,
) -> tuple[Value, ...]:
    """Attention among queries, keys and values that one product gives side by side, and the keys
    and values with those of the past [2, batch, heads, steps, size].
    """
    heads = call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    sizes = call.integers("qkv_hidden_sizes")
    if sizes:
        parts = g.split(product, sizes, 2)
    else:
        parts = g.several("Split", product, g.i64(2), num_splits=3)
    query, key, value = (split_heads(g, p, heads) for p in parts)
    present = None
    if past is not None:
        key = g.concat([g.gather(past, 0, 0), key], 2)
        value = g.concat([g.gather(past, 1, 0), value], 2)
    if call.wants(1):
        present = g.concat([g.unsqueeze(key, 0), g.unsqueeze(value, 0)], 0)
    hidden = None if mask is None else mask_bias(g, call, mask, key, low)
    if call.integer("unidirectional"):
        hidden = _sum(g, hidden, causal_bias(g, query, key, low))
    bias = _sum(g, hidden, bias)
    scale = call.number("scale") or None
    return join_heads(g, attended(g, call, query, key, value, bias, scale)), present


@lowering("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(g: Graph, call: Call) -> tuple[Value, ...]:
    heads = call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    call.refuse_if(
        not call.has(1) or not call.has(2), "packed queries, keys and values", "give them apart"
    )
    tensors = [call[0], call[1], call[2]]
    if call.has(3):
        width = [g.sizes(t)[-1] or 0 for t in tensors]
        biases = g.split(call[3], [width[0], width[0], width[2]], 0)
        tensors = [
            g.plus(t, b) if g.rank(t) == 3 else t for t, b in zip(tensors, biases, strict=True)
        ]
    query, key, value = (split_heads(g, t, heads) if g.rank(t) == 3 else t for t in tensors)
    if call.has(6):
        key = g.concat([call[6], key], 2)
        value = g.concat([call[7], value], 2)
    bias = mask_bias(g, call, call[4], key, low) if call.has(4) else None
    if call.integer("unidirectional"):
        bias = _sum(g, bias, causal_bias(g, query, key, low))
    bias = _sum(g, bias, call.optional(5))
    scale = call.number("scale") or None
    result = join_heads(g, attended(g, call, query, key, value, bias, scale))
    return result, key, value


@lowering("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(g: Graph, call: Call) -> tuple[Value, ...]:
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
    query, key, value = _queries_keys_values(g, call, heads, groups)
    # The last key of each row, and the place of its first new one: a prompt that is filled up on
    # the right begins at 0.
    last = g.convert(g.reshape(call[5], [-1]), T.i64)
    steps = g.size_of(query, 2)
    starts = g.plus(g.minus(last, steps), 1)
    starts = g.make("Maximum", starts, g.i64(0))
    rows = g.plus(g.unsqueeze(starts, 1), g.unsqueeze(g.range(steps), 0))
    if call.integer("do_rotary"):
        places = call[9] if call.has(9) else rows
        query, key = (
            rotated(g, call, t, places, call[7], call[8], bool(call.integer("rotary_interleaved")))
            for t in (query, key)
        )
    if call.has(3):
        key, value = (_behind(g, call, call[p], t, starts) for p, t in ((3, key), (4, value)))
    repeat = heads // groups
    wide = [t if repeat == 1 else repeated(g, t, repeat) for t in (key, value)]
    columns = g.range(g.size_of(key, 2))
    rows = g.unsqueeze(rows, 1, 3)
    hidden = g.make("Greater", columns, rows)
    window = call.integer("local_window_size", -1)
    if window > 0:
        before = g.make("LessEqual", columns, g.minus(rows, window))
        hidden = g.make("LogicalOr", hidden, before)
    kind = g.type(query)
    low = -float(2**15) if kind is T.f16 else -float(2**127)
    bias = g.select(hidden, g.of_type(low, kind), g.of_type(0.0, kind))
    scale, cap = call.number("scale") or None, call.number("softcap")
    result = attended(g, call, query, wide[0], wide[1], bias, scale, cap)
    return join_heads(g, result), key, value


def _queries_keys_values(g: Graph, call: Call, heads: int, groups: int) -> list[Source]:
    """The three of [batch, heads, steps, size], which may come as one tensor."""
    tensors = [call[0]]
    if call.has(1):
        tensors += [call[1], call[2]]
    else:
        width = g.sizes(call[0])[-1]
        if not width or width % (heads + 2 * groups):
            raise ValidationError(
                f"expected numbers of {heads} + 2 * {groups} heads, got {width or 'an open size'}"
            )
        size = width // (heads + 2 * groups)
        tensors = list(g.split(call[0], [heads * size, groups * size, groups * size], 2))
    counts = (heads, groups, groups)
    return [split_heads(g, t, n) for t, n in zip(tensors, counts, strict=True)]


def _behind(g: Graph, call: Call, past: Source, new: Source, starts: Source) -> Source:
    """New keys behind those that each row has already, of which `past` may have room for more."""
    room = g.size_of(past, 2)
    total = g.convert(g.reshape(call[6], [1]), T.i64)
    columns = g.unsqueeze(g.range(g.make("Maximum", room, total)), 0)
    offsets = g.minus(columns, g.unsqueeze(starts, 1))
    is_new = g.make(
        "LogicalAnd",
        g.make("GreaterEqual", offsets, g.i64(0)),
        g.make("Less", offsets, g.size_of(new, 2)),
    )
    # What is behind both is read by nobody.
    kept = g.make("Minimum", columns, g.minus(room, 1))
    kept = g.make("Maximum", kept, g.i64(0))
    places = g.select(is_new, g.plus(offsets, room), kept)
    joined = g.concat([past, new], 2)
    return g.make("Gather", joined, places, g.i64(2), batch_dims=1)


def repeated(g: Graph, data: Source, count: int) -> Source:
    """Each head `count` times, one after the other."""
    wide = g.unsqueeze(data, 2)
    wide = g.make("Tile", wide, g.i64([1, 1, count, 1, 1]))
    heads = g.sizes(data)[1]
    shape = g.i64([0, (heads or 0) * count, -1, g.sizes(data)[3] or 0])
    return g.make("Reshape", wide, shape, special_zero=True)


def rotated(
    g: Graph, call: Call, data: Source, places: Source, cos: Source, sin: Source, interleaved: bool
) -> Source:
    """[batch, heads, steps, size] turned by the angles of their places."""
    size = g.sizes(data)[-1]
    half = g.sizes(cos)[-1]
    if not size or not half:
        raise call.refuse("an open size of heads", "export the model with its sizes")
    cos, sin = (g.unsqueeze(g.gather(t, places, 0), 1) for t in (cos, sin))
    parts = [data] if size == 2 * half else list(g.split(data, [2 * half, size - 2 * half], 3))
    turned = parts[0]
    if interleaved:
        first = g.slice(turned, 0, 1 << 40, 3, 2)
        second = g.slice(turned, 1, 1 << 40, 3, 2)
    else:
        first, second = g.split(turned, [half, half], 3)
    real = g.minus(g.times(first, cos), g.times(second, sin))
    imaginary = g.plus(g.times(first, sin), g.times(second, cos))
    if interleaved:
        both = g.concat([g.unsqueeze(real, 4), g.unsqueeze(imaginary, 4)], 4)
        turned = g.make("Reshape", both, g.i64([0, 0, 0, 2 * half]), special_zero=True)
    else:
        turned = g.concat([real, imaginary], 3)
    return g.concat([turned, *parts[1:]], 3)


@lowering("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(
    g: Graph, call: Call, data: Source, places: Source, cos_cache: Source, sin_cache: Source
) -> Source:
    flat = g.rank(data) == 3
    if flat:
        heads = call.integer("num_heads")
        half = g.sizes(cos_cache)[-1] or 0
        width = g.sizes(data)[-1] or 0
        data = split_heads(g, data, heads or width // max(1, 2 * half))
    if g.rank(places) == 1:  # where the first step is
        places = g.unsqueeze(g.plus(places, g.range(g.size_of(data, 2))), 0)
    turned = rotated(g, call, data, places, cos_cache, sin_cache, bool(call.integer("interleaved")))
    return join_heads(g, turned) if flat else turned
