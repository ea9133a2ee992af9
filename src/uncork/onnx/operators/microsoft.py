"""com.microsoft: what onnxruntime's optimiser and exporters of transformers write."""

from __future__ import annotations

import math

import numpy as np

from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.operators.normalisation import layer_normalization, rms_normalization
from uncork.onnx.operators.products import scaled
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.types import ElementType

T = ElementType


@lowering("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(call: Call) -> Source:
    graph = call.graph
    if call.integer("transBatchA") or call.integer("transBatchB"):
        raise call.refuse("transBatchA and transBatchB", "write Transpose before the product")
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    return scaled(graph, graph.matmul(call[0], call[1], ta=ta, tb=tb), call.number("alpha", 1.0))


@lowering("FusedGemm", domain=MICROSOFT)
def _fused_gemm(call: Call) -> Source:
    graph = call.graph
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    product = scaled(graph, graph.matmul(call[0], call[1], ta=ta, tb=tb), call.number("alpha", 1.0))
    if call.has(2):
        product = graph.plus(product, scaled(graph, call[2], call.number("beta", 1.0)))
    return activated(call, product, call.text("activation"), [call.number("activation_alpha")])


@lowering("FusedConv", domain=MICROSOFT)
def _fused_conv(call: Call) -> Source:
    from uncork.onnx.operators.convolution import convolution, with_bias

    result = with_bias(call, convolution(call, call[0], call[1]), call.optional(2))
    if call.has(3):
        result = call.graph.plus(result, call[3])
    return activated(call, result, call.text("activation"), call.numbers("activation_params"))


def activated(call: Call, data: Source, name: str, parameters: list[float]) -> Source:
    """The data through the activation that a fused node names."""
    graph = call.graph
    simple = {"Relu": "ReLU", "Sigmoid": "Sigmoid", "Tanh": "Tanh"}
    if not name:
        return data
    if name in simple:
        return graph.make(simple[name], data)
    if name == "LeakyRelu":
        slope = parameters[0] if parameters else 0.01
        return graph.make("PReLU", data, graph.reshape(graph.like(slope, data), [1]))
    if name == "Clip" and len(parameters) == 2:
        return graph.make("Clamp", data, min=parameters[0], max=parameters[1])
    if name == "HardSigmoid" and len(parameters) == 2:
        a, b = (graph.like(p, data) for p in parameters)
        return graph.make("HardSigmoid", data, a, b)
    raise call.refuse(f"the activation '{name:.60}'", "write it as a node of its own")


# ---- activations


@lowering("Gelu", domain=MICROSOFT)
def _gelu(call: Call) -> Source:
    return call.graph.make("Gelu", call[0], approximation_mode="erf")


@lowering("BiasGelu", domain=MICROSOFT)
def _bias_gelu(call: Call) -> Source:
    graph = call.graph
    return graph.make("Gelu", graph.plus(call[0], call[1]), approximation_mode="erf")


@lowering("FastGelu", domain=MICROSOFT)
def _fast_gelu(call: Call) -> Source:
    data = call.graph.plus(call[0], call[1]) if call.has(1) else call[0]
    return call.graph.make("Gelu", data, approximation_mode="tanh")


@lowering("QuickGelu", domain=MICROSOFT)
def _quick_gelu(call: Call) -> Source:
    graph, data = call.graph, call[0]
    return graph.make("Swish", data, graph.like(call.number("alpha", 1.702), data))


# ---- normalisation


@lowering("LayerNormalization", domain=MICROSOFT)
def _layer_normalization(call: Call) -> tuple[Source, ...]:
    return layer_normalization(call, call[0], call[1], call.optional(2))


@lowering("SimplifiedLayerNormalization", domain=MICROSOFT)
@lowering("SimplifiedLayerNormalization")
def _simplified(call: Call) -> Source:
    return rms_normalization(call, call[0], call[1])


@lowering("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(call: Call) -> tuple[Value, ...]:
    graph = call.graph
    total = graph.plus(call[0], call[1])
    if call.has(4):
        total = graph.plus(total, call[4])
    normal = _normal(call, total, call[2], call.optional(3), 1e-12)
    return normal, None, None, total


def _normal(
    call: Call, data: Source, scale: Source, shift: Source | None, epsilon: float
) -> Source:
    from uncork.onnx.operators.normalisation import mvn

    graph = call.graph
    normal = mvn(call, data, [graph.rank(data) - 1], call.number("epsilon", epsilon))
    normal = graph.times(normal, scale)
    return normal if shift is None else graph.plus(normal, shift)


@lowering("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified(call: Call) -> tuple[Value, ...]:
    graph = call.graph
    total = graph.plus(call[0], call[1])
    if call.has(3):
        total = graph.plus(total, call[3])
    return rms_normalization(call, total, call[2]), None, None, total


@lowering("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(call: Call) -> tuple[Value, ...]:
    graph, ids = call.graph, call[0]
    words = graph.gather(call[2], ids, 0)
    if call.has(8):
        places = call[8]
    else:
        places = graph.range(graph.size_of(ids, 1))
    total = graph.plus(words, graph.gather(call[3], places, 0))
    if call.has(1) and call.has(4):
        total = graph.plus(total, graph.gather(call[4], call[1], 0))
    normal = _normal(call, total, call[5], call[6], 1e-12)
    lengths = None
    if call.wants(1):
        if call.has(7):
            lengths = graph.reduce("ReduceSum", graph.convert(call[7], T.i32), [1], keep=False)
        else:
            lengths = graph.broadcast(graph.constant(np.array(0, np.int32)), graph.size_of(ids, 0))
    return normal, lengths, total


# ---- attention


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
) -> Source:
    """softmax(q k / sqrt(size) + bias) v."""
    graph = call.graph
    size = graph.sizes(query)[-1]
    if scale is None:
        if not size:
            raise call.refuse("an open size of heads", "export the model with its sizes")
        scale = 1 / math.sqrt(size)
    scores = graph.times(graph.matmul(query, key, tb=True), scale)
    if bias is not None:
        scores = graph.plus(scores, bias)
    return graph.matmul(graph.make("SoftMax", scores, axis=-1), value)


def mask_bias(call: Call, mask: Source, low: float) -> Source:
    """What is added to scores where a mask of whole numbers is 0: [batch, 1, .., keys]."""
    graph = call.graph
    rank = graph.rank(mask)
    if rank == 2:
        mask = graph.unsqueeze(mask, 1, 2)
    elif rank == 3:
        mask = graph.unsqueeze(mask, 1)
    elif rank != 4:
        raise call.refuse("a mask of lengths", "give the mask as [batch, keys], of zeros and ones")
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
    graph, data = call.graph, call[0]
    heads = call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    product = graph.matmul(data, call[1])
    if call.has(2):
        product = graph.plus(product, call[2])
    sizes = call.integers("qkv_hidden_sizes")
    if sizes:
        parts = graph.split(product, sizes, 2)
    else:
        parts = graph.several("Split", product, graph.i64(2), num_splits=3)
    query, key, value = (split_heads(call, p, heads) for p in parts)
    present = None
    if call.has(4):  # [2, batch, heads, steps, size]
        past = [graph.gather(call[4], i, 0) for i in (0, 1)]
        key = graph.concat([past[0], key], 2)
        value = graph.concat([past[1], value], 2)
    if call.wants(1):
        present = graph.concat([graph.unsqueeze(key, 0), graph.unsqueeze(value, 0)], 0)
    bias = mask_bias(call, call[3], low) if call.has(3) else None
    if call.integer("unidirectional"):
        bias = _sum(call, bias, causal_bias(call, query, key, low))
    bias = _sum(call, bias, call.optional(5))
    scale = call.number("scale") or None
    return join_heads(call, attended(call, query, key, value, bias, scale)), present


@lowering("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(call: Call) -> tuple[Value, ...]:
    graph, heads = call.graph, call.integer("num_heads")
    low = call.number("mask_filter_value", -10000.0)
    if not call.has(1) or not call.has(2):
        raise call.refuse("packed queries, keys and values", "give them apart")
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
    bias = mask_bias(call, call[4], low) if call.has(4) else None
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
    if not call.has(1):
        raise call.refuse("packed queries, keys and values", "give them apart")
    if call.number("softcap") or call.integer("local_window_size", -1) > 0:
        raise call.refuse("softcap and local_window_size", "write attention by its nodes")
    query = split_heads(call, call[0], heads)
    key, value = (split_heads(call, call[i], groups) for i in (1, 2))
    past = call.optional(3)
    # seqlens_k is the index of the last key of each row.
    last = graph.convert(graph.reshape(call[5], [-1]), T.i64)
    steps = graph.size_of(query, 2)
    starts = graph.plus(graph.minus(last, steps), 1)
    if call.integer("do_rotary"):
        places = graph.plus(graph.unsqueeze(starts, 1), graph.unsqueeze(graph.range(steps), 0))
        query, key = (
            rotated(call, t, places, call[7], call[8], bool(call.integer("rotary_interleaved")))
            for t in (query, key)
        )
    if past is not None:
        key = graph.concat([past, key], 2)
        value = graph.concat([call[4], value], 2)
    repeat = heads // groups
    wide = [t if repeat == 1 else _repeated(call, t, repeat) for t in (key, value)]
    bias = causal_bias(call, query, key, -float(2**127))
    columns = graph.range(graph.size_of(key, 2))
    unused = graph.make("Greater", columns, graph.reshape(last, [-1, 1, 1, 1]))
    bias = graph.select(unused, graph.of_type(-float(2**127), T.f32), bias)
    scale = call.number("scale") or None
    result = attended(call, query, wide[0], wide[1], graph.convert(bias, graph.type(query)), scale)
    return join_heads(call, result), key, value


def _repeated(call: Call, data: Source, count: int) -> Source:
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


# ---- weights of few bits


@lowering("MatMulNBits", domain=MICROSOFT)
def _matmul_n_bits(call: Call) -> Source:
    graph, data = call.graph, call[0]
    columns, rows, bits = call.integer("N"), call.integer("K"), call.integer("bits", 4)
    block = call.integer("block_size")
    if bits not in (4, 8) or block < 16:
        raise call.refuse(f"{bits} bits in blocks of {block}", "4 and 8 bits are supported")
    if call.has(4) and not _in_order(call):
        raise call.refuse("g_idx that reorders rows", "export the model without act_order")
    codes = graph.known(call[1])
    if codes is None:
        raise call.refuse("weights that are computed", "export them as initializers")
    blocks = -(-rows // block)
    kind = graph.type(data)
    numbers = _unpacked(codes.reshape(columns, blocks, -1), bits)
    element_type = T.u4 if bits == 4 else T.u8
    weights = graph.convert(graph.constant(np.ascontiguousarray(numbers), element_type), kind)
    if call.has(3):
        zeros = call[3]
        if graph.type(zeros) is T.u8:
            stored = graph.known(zeros)
            if stored is None:
                raise call.refuse("zero points that are computed", "export them as initializers")
            points = _unpacked(stored.reshape(columns, -1), bits)[:, :blocks]
            zeros = graph.convert(graph.constant(np.ascontiguousarray(points), element_type), kind)
        zeros = graph.reshape(zeros, [columns, blocks, 1])
    else:
        middle = np.array(1 << (bits - 1), np.uint8)
        zeros = graph.convert(graph.constant(middle, element_type), kind)
    scales = graph.reshape(graph.convert(call[2], kind), [columns, blocks, 1])
    matrix = graph.times(graph.minus(weights, zeros), scales)
    matrix = graph.reshape(matrix, [columns, blocks * block])
    if blocks * block != rows:
        matrix = graph.slice(matrix, 0, rows, 1)
    result = graph.matmul(data, matrix, tb=True)
    return graph.plus(result, call[5]) if call.has(5) else result


def _in_order(call: Call) -> bool:
    places = call.graph.known(call[4])
    return places is not None and bool((np.diff(places.reshape(-1)) >= 0).all())


def _unpacked(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of 4 bits, two in a byte, as a byte each."""
    if bits == 8:
        return codes
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)


@lowering("Inverse", domain=MICROSOFT)
def _inverse(call: Call) -> Source:
    return call.graph.make("Inverse", call[0], adjoint=False)


@lowering("ExpandDims", domain=MICROSOFT)
def _expand_dims(call: Call) -> Source:
    return call.graph.make("Unsqueeze", call[0], call.graph.reshape(call[1], [1]))
