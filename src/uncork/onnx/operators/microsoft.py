"""com.microsoft: what onnxruntime's optimiser and exporters of transformers write."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.normalisation import rms_normalization
from uncork.onnx.operators.products import scaled
from uncork.onnx.registry import MICROSOFT, OWN, Value, lowering
from uncork.types import ElementType

T = ElementType


@lowering("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(g: Graph, call: Call) -> Source:
    a, b = (
        _batch_first(g, call[i]) if call.integer(name) else call[i]
        for i, name in enumerate(("transBatchA", "transBatchB"))
    )
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    return scaled(g, g.matmul(a, b, ta=ta, tb=tb), call.number("alpha", 1.0))


def _batch_first(g: Graph, data: Source) -> Source:
    """[rows, batch.., columns] as [batch.., rows, columns]."""
    rank = g.rank(data)
    if rank < 3:
        return data
    return g.transpose(data, [*range(1, rank - 1), 0, rank - 1])


@lowering("FusedGemm", domain=MICROSOFT)
def _fused_gemm(g: Graph, call: Call, a: Source, b: Source, c: Source | None = None) -> Source:
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    product = scaled(g, g.matmul(a, b, ta=ta, tb=tb), call.number("alpha", 1.0))
    if c is not None:
        product = g.plus(product, scaled(g, c, call.number("beta", 1.0)))
    return activated(g, call, product, call.text("activation"), [call.number("activation_alpha")])


@lowering("FusedConv", domain=MICROSOFT)
def _fused_conv(
    g: Graph,
    call: Call,
    data: Source,
    weights: Source,
    bias: Source | None = None,
    more: Source | None = None,
) -> Source:
    from uncork.onnx.operators.convolution import convolution, with_bias

    result = g.added(with_bias(g, convolution(g, call, data, weights), bias), more)
    return activated(g, call, result, call.text("activation"), call.numbers("activation_params"))


def activated(g: Graph, call: Call, data: Source, name: str, parameters: list[float]) -> Source:
    """The data through the activation that a fused node names."""
    simple = {"Relu": "ReLU", "Sigmoid": "Sigmoid", "Tanh": "Tanh"}
    if not name:
        return data
    if name in simple:
        return g.make(simple[name], data)
    if name == "LeakyRelu":
        slope = parameters[0] if parameters else 0.01
        return g.make("PReLU", data, g.reshape(g.like(slope, data), [1]))
    if name == "Clip" and len(parameters) == 2:
        return g.make("Clamp", data, min=parameters[0], max=parameters[1])
    if name == "HardSigmoid" and len(parameters) == 2:
        a, b = (g.like(p, data) for p in parameters)
        return g.make("HardSigmoid", data, a, b)
    raise call.refuse(f"the activation '{name:.60}'", "write it as a node of its own")


# ---- activations


@lowering("BiasGelu", domain=MICROSOFT)
def _bias_gelu(g: Graph, call: Call, a: Source, b: Source) -> Source:
    return g.make("Gelu", g.plus(a, b), approximation_mode="erf")


@lowering("FastGelu", domain=MICROSOFT)
def _fast_gelu(g: Graph, call: Call) -> Source:
    data = g.added(call[0], call.optional(1))
    return g.make("Gelu", data, approximation_mode="tanh")


@lowering("QuickGelu", domain=MICROSOFT)
def _quick_gelu(g: Graph, call: Call, data: Source) -> Source:
    return g.make("Swish", data, g.like(call.number("alpha", 1.702), data))


# ---- normalisation


@lowering("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(
    g: Graph,
    call: Call,
    data: Source,
    skip: Source,
    gamma: Source,
    beta: Source | None = None,
    bias: Source | None = None,
) -> tuple[Value, ...]:
    total = g.added(data, skip, bias)
    normal = _normal(g, call, total, gamma, beta, 1e-12)
    return normal, None, None, total


def _normal(
    g: Graph, call: Call, data: Source, scale: Source, shift: Source | None, epsilon: float
) -> Source:
    from uncork.onnx.operators.normalisation import mvn

    normal = mvn(g, data, [g.rank(data) - 1], call.number("epsilon", epsilon))
    return g.added(g.times(normal, scale), shift)


@lowering("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified(
    g: Graph, call: Call, data: Source, skip: Source, gamma: Source, bias: Source | None = None
) -> tuple[Value, ...]:
    total = g.added(data, skip, bias)
    return rms_normalization(g, call, total, gamma), None, None, total


@lowering("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(
    g: Graph, call: Call, ids: Source, segment_ids: Source | None = None
) -> tuple[Value, ...]:
    words = g.gather(call[2], ids, 0)
    if call.has(8):
        places = call[8]
    else:
        places = g.range(g.size_of(ids, 1))
    total = g.plus(words, g.gather(call[3], places, 0))
    if segment_ids is not None and call.has(4):
        total = g.plus(total, g.gather(call[4], segment_ids, 0))
    normal = _normal(g, call, total, call[5], call[6], 1e-12)
    lengths = None
    if call.wants(1):
        if call.has(7):
            lengths = g.reduce("ReduceSum", g.convert(call[7], T.i32), [1], keep=False)
        else:
            lengths = g.broadcast(g.constant(np.array(0, np.int32)), g.size_of(ids, 0))
    return normal, lengths, total


# ---- weights of few bits


@lowering("MatMulNBits", domain=MICROSOFT)
def _matmul_n_bits(g: Graph, call: Call, data: Source, b: Source, scale: Source) -> Source:
    columns, rows, bits = call.integer("N"), call.integer("K"), call.integer("bits", 4)
    block = call.integer("block_size")
    call.refuse_if(
        bits not in (4, 8) or block < 16,
        f"{bits} bits in blocks of {block}",
        "4 and 8 bits are supported",
    )
    call.refuse_if(
        call.has(4) and not _in_order(g, call),
        "g_idx that reorders rows",
        "export the model without act_order",
    )
    codes = call.wanted(g.known(b), "weights that are computed", "export them as initializers")
    blocks = -(-rows // block)
    kind = g.type(data)
    element_type = T.u4 if bits == 4 else T.u8
    size = columns * blocks * block * bits // 8
    ValidationError.when(
        codes.dtype != np.uint8 or codes.size != size,
        f"input 1: expected {size:,} bytes for N {columns} and K {rows}, got {codes.size:,} of "
        f"{g.type(b)}",
    )
    # Two in a byte, the first in the low bits, as constants of 4 bits lie here, too.
    weights = g.convert(g.stored(codes, element_type, [columns, blocks, block]), kind)
    if call.has(3):
        zeros = call[3]
        if g.type(zeros) is T.u8:
            stored = call.wanted(
                g.known(zeros), "zero points that are computed", "export them as initializers"
            )
            points = _unpacked(stored.reshape(columns, -1), bits)[:, :blocks]
            zeros = g.convert(g.constant(np.ascontiguousarray(points), element_type), kind)
        zeros = g.reshape(zeros, [columns, blocks, 1])
    else:
        middle = np.array(1 << (bits - 1), np.uint8)
        zeros = g.convert(g.constant(middle, element_type), kind)
    scales = g.reshape(g.convert(scale, kind), [columns, blocks, 1])
    matrix = g.times(g.minus(weights, zeros), scales)
    matrix = g.reshape(matrix, [columns, blocks * block])
    if blocks * block != rows:
        matrix = g.slice(matrix, 0, rows, 1)
    result = g.matmul(data, matrix, tb=True)
    return g.added(result, call.optional(5))


def _in_order(g: Graph, call: Call) -> bool:
    places = g.known(call[4])
    return places is not None and bool((np.diff(places.reshape(-1)) >= 0).all())


def _unpacked(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of 4 bits, two in a byte, as a byte each."""
    if bits == 8:
        return codes
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)


@lowering("Inverse", domain=MICROSOFT)
@lowering("Inverse", domain=OWN)
def _inverse(g: Graph, call: Call, data: Source) -> Source:
    return g.make("Inverse", data, adjoint=False)


@lowering("ExpandDims", domain=MICROSOFT)
def _expand_dims(g: Graph, call: Call, data: Source, axis: Source) -> Source:
    return g.make("Unsqueeze", data, g.reshape(axis, [1]))
