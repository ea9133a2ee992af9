"""com.microsoft: what onnxruntime's optimiser and exporters of transformers write."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.normalisation import layer_normalization, rms_normalization
from uncork.onnx.operators.products import scaled
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.types import ElementType

T = ElementType


@lowering("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(call: Call) -> Source:
    graph = call.graph
    a, b = (
        _batch_first(graph, call[i]) if call.integer(name) else call[i]
        for i, name in enumerate(("transBatchA", "transBatchB"))
    )
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    return scaled(graph, graph.matmul(a, b, ta=ta, tb=tb), call.number("alpha", 1.0))


def _batch_first(graph: Graph, data: Source) -> Source:
    """[rows, batch.., columns] as [batch.., rows, columns]."""
    rank = graph.rank(data)
    if rank < 3:
        return data
    return graph.transpose(data, [*range(1, rank - 1), 0, rank - 1])


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


# ---- weights of few bits


@lowering("MatMulNBits", domain=MICROSOFT)
def _matmul_n_bits(call: Call) -> Source:
    graph, data = call.graph, call[0]
    columns, rows, bits = call.integer("N"), call.integer("K"), call.integer("bits", 4)
    block = call.integer("block_size")
    call.refuse_if(
        bits not in (4, 8) or block < 16,
        f"{bits} bits in blocks of {block}",
        "4 and 8 bits are supported",
    )
    call.refuse_if(
        call.has(4) and not _in_order(call),
        "g_idx that reorders rows",
        "export the model without act_order",
    )
    codes = call.wanted(
        graph.known(call[1]), "weights that are computed", "export them as initializers"
    )
    blocks = -(-rows // block)
    kind = graph.type(data)
    element_type = T.u4 if bits == 4 else T.u8
    size = columns * blocks * block * bits // 8
    ValidationError.when(
        codes.dtype != np.uint8 or codes.size != size,
        f"input 1: expected {size:,} bytes for N {columns} and K {rows}, got {codes.size:,} of "
        f"{graph.type(call[1])}",
    )
    # Two in a byte, the first in the low bits, as constants of 4 bits lie here, too.
    weights = graph.convert(graph.stored(codes, element_type, [columns, blocks, block]), kind)
    if call.has(3):
        zeros = call[3]
        if graph.type(zeros) is T.u8:
            stored = call.wanted(
                graph.known(zeros), "zero points that are computed", "export them as initializers"
            )
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
