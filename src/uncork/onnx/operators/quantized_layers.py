"""Layers on codes: QLinearMatMul, QLinearConv, MatMulInteger, ConvInteger and those of
com.microsoft.

Products of codes of one byte are whole numbers: in f32 their sums are exact up to 2**24, beyond
that they round as any sum of f32 does. Where an operator gives the sum itself, it is computed in
i32.
"""

from __future__ import annotations

from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.attention import projected
from uncork.onnx.operators.convolution import convolution, with_bias
from uncork.onnx.operators.pooling import average, spatial
from uncork.onnx.operators.quantized import along, codes_of, dequantized, dynamic
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.types import ElementType

T = ElementType
#: Products of two codes whose sums f32 holds exactly.
_EXACT = (1 << 24) // (255 * 255)


def centred(
    call: Call, codes: Source, zero: Source | None, kind: ElementType, axis: int | None = None
) -> Source:
    """Codes less their zero point, in a type that holds them."""
    graph = call.graph
    numbers = graph.convert(codes, kind)
    if zero is None:
        return numbers
    value = graph.known(zero)
    if value is not None and not value.any():
        return numbers
    zero = graph.convert(zero, kind)
    zero = _scalar(graph, zero) if axis is None else along(call, zero, codes, axis)
    return graph.minus(numbers, zero)


def whole_product(call: Call, count: int | None) -> ElementType:
    """The type in which so many products of codes are added up exactly."""
    return T.f32 if count is not None and count <= _EXACT else T.i32


def _inner(call: Call, position: int, axis: int) -> int | None:
    sizes = call.graph.sizes(call[position])
    return sizes[axis] if len(sizes) >= abs(axis) else sizes[0]


@lowering("MatMulInteger")
def _matmul_integer(call: Call) -> Source:
    graph = call.graph
    kind = whole_product(call, _inner(call, 0, -1))
    a = centred(call, call[0], call.optional(2), kind, -2)
    b = centred(call, call[1], call.optional(3), kind, -1)
    return graph.convert(graph.matmul(a, b), T.i32)


@lowering("ConvInteger")
def _conv_integer(call: Call) -> Source:
    graph = call.graph
    sizes = graph.sizes(call[1])[1:]
    count: int | None = 1
    for size in sizes:
        count = None if count is None or size is None else count * size
    kind = whole_product(call, count)
    data = centred(call, call[0], call.optional(2), kind)
    weights = centred(call, call[1], call.optional(3), kind, 0)
    return graph.convert(convolution(call, data, weights), T.i32)


@lowering("QLinearMatMul")
def _qlinear_matmul(call: Call) -> Source:
    graph = call.graph
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (call[i] for i in range(8))
    product = graph.matmul(centred(call, a, a_zero, T.f32, -2), centred(call, b, b_zero, T.f32, -1))
    both = graph.times(
        along(call, graph.convert(a_scale, T.f32), a, -2),
        along(call, graph.convert(b_scale, T.f32), b, -1),
    )
    ratio = graph.over(both, graph.convert(_scalar(graph, scale), T.f32))
    return codes_of(call, graph.times(product, ratio), graph.of_type(1.0, T.f32), zero)


def _scalar(graph: Graph, source: Source) -> Source:
    one = graph.spec(source).rank == 1 and graph.spec(source).shape.size == 1
    return graph.reshape(source, []) if one else source


@lowering("QLinearConv")
def _qlinear_conv(call: Call) -> Source:
    graph = call.graph
    data, x_scale, x_zero, weights, w_scale, w_zero, scale, zero = (call[i] for i in range(8))
    product = convolution(
        call, centred(call, data, x_zero, T.f32), centred(call, weights, w_zero, T.f32, 0)
    )
    if call.has(8):  # of the scale of the products
        product = with_bias(call, product, graph.convert(call[8], T.f32))
    both = graph.times(_scalar(graph, x_scale), _scalar(graph, w_scale))
    ratio = _scalar(graph, graph.over(both, _scalar(graph, scale)))
    if graph.spec(ratio).rank == 1:
        ratio = graph.reshape(ratio, [1, -1] + [1] * (graph.rank(product) - 2))
    return codes_of(call, graph.times(product, ratio), graph.of_type(1.0, T.f32), zero)


@lowering("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_binary(call: Call) -> Source:
    a = dequantized(call, call[0], call[1], call.optional(2))
    b = dequantized(call, call[3], call[4], call.optional(5))
    graph = call.graph
    result = graph.plus(a, b) if call.op_type == "QLinearAdd" else graph.times(a, b)
    return codes_of(call, result, call[6], _point(call, 7, 0))


@lowering("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(call: Call) -> Source:
    a = dequantized(call, call[1], call[2], call.optional(3))
    b = dequantized(call, call[4], call[5], call.optional(6))
    return codes_of(call, call.graph.select(call[0], a, b), call[7], _point(call, 8, 1))


def _point(call: Call, position: int, like: int) -> Source:
    """A zero point that may be missing: 0 in the type of an input then."""
    given = call.optional(position)
    return call.graph.like(0, call[like]) if given is None else given


@lowering("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MICROSOFT)
def _qlinear_activation(call: Call) -> Source:
    graph = call.graph
    data = dequantized(call, call[0], call[1], call.optional(2))
    if call.op_type == "QLinearSigmoid":
        result = graph.make("Sigmoid", data)
    elif call.op_type == "QLinearSoftmax":
        result = graph.make("SoftMax", data, axis=call.integer("axis", -1))
    else:
        slope = graph.reshape(graph.of_type(call.number("alpha", 0.01), T.f32), [1])
        result = graph.make("PReLU", data, slope)
    return codes_of(call, result, call[3], _point(call, 4, 0))


@lowering("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(call: Call) -> Source:
    parts = [
        dequantized(call, call[i], call[i + 1], call.optional(i + 2))
        for i in range(2, call.count, 3)
    ]
    joined = call.graph.concat(parts, call.integer("axis"))
    return codes_of(call, joined, call[0], call[1])


@lowering("QLinearGlobalAveragePool", domain=MICROSOFT)
def _qlinear_global_average(call: Call) -> Source:
    data = dequantized(call, call[0], call[1], call.optional(2))
    last = bool(call.integer("channels_last"))
    axes = list(range(1, call.graph.rank(data) - 1)) if last else spatial(call, data)
    mean = call.graph.reduce("ReduceMean", data, axes)
    return codes_of(call, mean, call[3], _point(call, 4, 0))


@lowering("QLinearAveragePool", domain=MICROSOFT)
def _qlinear_average(call: Call) -> Source:
    call.refuse_if(
        call.integer("channels_last"), "channels_last", "export the model with channels first"
    )
    data = dequantized(call, call[0], call[1], call.optional(2))
    mean = average(call, data, bool(call.integer("count_include_pad")))
    return codes_of(call, mean, call[3], _point(call, 4, 0))


@lowering("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(call: Call) -> Source:
    return _float_product(call, (2, 3), (4, 5), 6)


def _float_product(
    call: Call, scales: tuple[int, int], zeros: tuple[int, int], bias: int
) -> Source:
    """The product of the first two inputs, which are codes, as floats; where the others stand."""
    graph = call.graph
    a = centred(call, call[0], call.optional(zeros[0]), T.f32)
    b = centred(call, call[1], call.optional(zeros[1]), T.f32, -1)
    column = along(call, call[scales[1]], call[1], -1)
    scale = graph.times(_scalar(graph, call[scales[0]]), column)
    result = graph.times(graph.matmul(a, b), scale)
    return graph.plus(result, call[bias]) if call.has(bias) else result


@lowering("QAttention", domain=MICROSOFT)
def _quantized_attention(call: Call) -> tuple[Value, ...]:
    call.refuse_if(
        call.integer("do_rotary"),
        "do_rotary of QAttention",
        "write RotaryEmbedding nodes before it",
    )
    product = _float_product(call, (3, 4), (6, 7), 2)
    return projected(call, product, call.optional(5), call.optional(8))


@lowering("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(call: Call) -> Source:
    graph = call.graph
    codes, scale, zero = dynamic(call, call[0])
    a = centred(call, codes, zero, T.f32)
    b = centred(call, call[1], call.optional(3), T.f32, -1)
    both = graph.times(scale, along(call, call[2], call[1], -1))
    result = graph.times(graph.matmul(a, b), both)
    return graph.plus(result, call[4]) if call.has(4) else result


@lowering("QGemm", domain=MICROSOFT)
def _qgemm(call: Call) -> Source:
    graph = call.graph
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    a = centred(call, call[0], call[2], T.f32)
    b = centred(call, call[3], call[5], T.f32, 0 if tb else 1)
    product = graph.matmul(a, b, ta=ta, tb=tb)
    if call.has(6):
        product = graph.plus(product, graph.convert(call[6], T.f32))
    both = graph.times(_scalar(graph, call[1]), _scalar(graph, call[4]))
    result = graph.times(product, graph.times(both, call.number("alpha", 1.0)))
    return codes_of(call, result, call[7], call.optional(8)) if call.has(7) else result
