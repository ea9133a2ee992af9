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
    g: Graph,
    call: Call,
    codes: Source,
    zero: Source | None,
    kind: ElementType,
    axis: int | None = None,
) -> Source:
    """Codes less their zero point, in a type that holds them."""
    numbers = g.convert(codes, kind)
    if zero is None:
        return numbers
    value = g.known(zero)
    if value is not None and not value.any():
        return numbers
    zero = g.convert(zero, kind)
    zero = _scalar(g, zero) if axis is None else along(g, call, zero, codes, axis)
    return g.minus(numbers, zero)


def whole_product(count: int | None) -> ElementType:
    """The type in which so many products of codes are added up exactly."""
    return T.f32 if count is not None and count <= _EXACT else T.i32


def _inner(g: Graph, call: Call, position: int, axis: int) -> int | None:
    sizes = g.sizes(call[position])
    return sizes[axis] if len(sizes) >= abs(axis) else sizes[0]


@lowering("MatMulInteger")
def _matmul_integer(
    g: Graph,
    call: Call,
    a: Source,
    b: Source,
    a_zero_point: Source | None = None,
    b_zero_point: Source | None = None,
) -> Source:
    kind = whole_product(_inner(g, call, 0, -1))
    a = centred(g, call, a, a_zero_point, kind, -2)
    b = centred(g, call, b, b_zero_point, kind, -1)
    return g.convert(g.matmul(a, b), T.i32)


@lowering("ConvInteger")
def _conv_integer(
    g: Graph,
    call: Call,
    data: Source,
    weights: Source,
    x_zero_point: Source | None = None,
    w_zero_point: Source | None = None,
) -> Source:
    sizes = g.sizes(weights)[1:]
    count: int | None = 1
    for size in sizes:
        count = None if count is None or size is None else count * size
    kind = whole_product(count)
    data = centred(g, call, data, x_zero_point, kind)
    weights = centred(g, call, weights, w_zero_point, kind, 0)
    return g.convert(convolution(g, call, data, weights), T.i32)


@lowering("QLinearMatMul")
def _qlinear_matmul(g: Graph, call: Call) -> Source:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (call[i] for i in range(8))
    product = g.matmul(
        centred(g, call, a, a_zero, T.f32, -2), centred(g, call, b, b_zero, T.f32, -1)
    )
    both = g.times(
        along(g, call, g.convert(a_scale, T.f32), a, -2),
        along(g, call, g.convert(b_scale, T.f32), b, -1),
    )
    ratio = g.over(both, g.convert(_scalar(g, scale), T.f32))
    return codes_of(g, call, g.times(product, ratio), g.of_type(1.0, T.f32), zero)


def _scalar(g: Graph, source: Source) -> Source:
    one = g.spec(source).rank == 1 and g.spec(source).shape.size == 1
    return g.reshape(source, []) if one else source


@lowering("QLinearConv")
def _qlinear_conv(g: Graph, call: Call) -> Source:
    data, x_scale, x_zero, weights, w_scale, w_zero, scale, zero = (call[i] for i in range(8))
    product = convolution(
        g, call, centred(g, call, data, x_zero, T.f32), centred(g, call, weights, w_zero, T.f32, 0)
    )
    if call.has(8):  # of the scale of the products
        product = with_bias(g, product, g.convert(call[8], T.f32))
    both = g.times(_scalar(g, x_scale), _scalar(g, w_scale))
    ratio = _scalar(g, g.over(both, _scalar(g, scale)))
    if g.spec(ratio).rank == 1:
        ratio = g.reshape(ratio, [1, -1] + [1] * (g.rank(product) - 2))
    return codes_of(g, call, g.times(product, ratio), g.of_type(1.0, T.f32), zero)


@lowering("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_binary(
    g: Graph, call: Call, a: Source, a_scale: Source, a_zero_point: Source | None = None
) -> Source:
    a = dequantized(g, call, a, a_scale, a_zero_point)
    b = dequantized(g, call, call[3], call[4], call.optional(5))
    result = g.plus(a, b) if call.op_type == "QLinearAdd" else g.times(a, b)
    return codes_of(g, call, result, call[6], _point(g, call, 7, 0))


@lowering("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(
    g: Graph,
    call: Call,
    condition: Source,
    data: Source,
    x_scale: Source,
    x_zero_point: Source | None = None,
) -> Source:
    a = dequantized(g, call, data, x_scale, x_zero_point)
    b = dequantized(g, call, call[4], call[5], call.optional(6))
    return codes_of(g, call, g.select(condition, a, b), call[7], _point(g, call, 8, 1))


def _point(g: Graph, call: Call, position: int, like: int) -> Source:
    """A zero point that may be missing: 0 in the type of an input then."""
    given = call.optional(position)
    return g.like(0, call[like]) if given is None else given


@lowering("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(g: Graph, call: Call, y_scale: Source, y_zero_point: Source) -> Source:
    parts = [
        dequantized(g, call, call[i], call[i + 1], call.optional(i + 2))
        for i in range(2, call.count, 3)
    ]
    joined = g.concat(parts, call.integer("axis"))
    return codes_of(g, call, joined, y_scale, y_zero_point)


def _global_average(g: Graph, call: Call, data: Source) -> Source:
    last = bool(call.integer("channels_last"))
    axes = list(range(1, g.rank(data) - 1)) if last else spatial(g, data)
    return g.reduce("ReduceMean", data, axes)


def _average(g: Graph, call: Call, data: Source) -> Source:
    call.refuse_if(
        call.integer("channels_last"), "channels_last", "export the model with channels first"
    )
    return average(g, call, data, bool(call.integer("count_include_pad")))


def _leaky_relu(g: Graph, call: Call, data: Source) -> Source:
    slope = g.reshape(g.of_type(call.number("alpha", 0.01), T.f32), [1])
    return g.make("PReLU", data, slope)


def _sigmoid(g: Graph, call: Call, data: Source) -> Source:
    return g.make("Sigmoid", data)


def _softmax(g: Graph, call: Call, data: Source) -> Source:
    return g.make("SoftMax", data, axis=call.integer("axis", -1))


#: Operators that read codes and give codes: what they compute of the numbers between.
_OF_NUMBERS = {
    "QLinearAveragePool": _average,
    "QLinearGlobalAveragePool": _global_average,
    "QLinearLeakyRelu": _leaky_relu,
    "QLinearSigmoid": _sigmoid,
    "QLinearSoftmax": _softmax,
}


@lowering(*_OF_NUMBERS, domain=MICROSOFT)
def _between_codes(
    g: Graph, call: Call, data: Source, x_scale: Source, x_zero_point: Source | None = None
) -> Source:
    numbers = dequantized(g, call, data, x_scale, x_zero_point)
    result = _OF_NUMBERS[call.op_type](g, call, numbers)
    return codes_of(g, call, result, call[3], _point(g, call, 4, 0))


@lowering("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(g: Graph, call: Call) -> Source:
    return _float_product(g, call, (2, 3), (4, 5), 6)


def _float_product(
    g: Graph, call: Call, scales: tuple[int, int], zeros: tuple[int, int], bias: int
) -> Source:
    """The product of the first two inputs, which are codes, as floats; where the others stand."""
    a = centred(g, call, call[0], call.optional(zeros[0]), T.f32)
    b = centred(g, call, call[1], call.optional(zeros[1]), T.f32, -1)
    column = along(g, call, call[scales[1]], call[1], -1)
    scale = g.times(_scalar(g, call[scales[0]]), column)
    result = g.times(g.matmul(a, b), scale)
    return g.added(result, call.optional(bias))


@lowering("QAttention", domain=MICROSOFT)
def _quantized_attention(g: Graph, call: Call) -> tuple[Value, ...]:
    call.refuse_if(
        call.integer("do_rotary"),
        "do_rotary of QAttention",
        "write RotaryEmbedding nodes before it",
    )
    product = _float_product(g, call, (3, 4), (6, 7), 2)
    return projected(g, call, product, call.optional(5), call.optional(8))


@lowering("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(g: Graph, call: Call) -> Source:
    codes, scale, zero = dynamic(g, call[0])
    a = centred(g, call, codes, zero, T.f32)
    b = centred(g, call, call[1], call.optional(3), T.f32, -1)
    both = g.times(scale, along(g, call, call[2], call[1], -1))
    result = g.times(g.matmul(a, b), both)
    return g.added(result, call.optional(4))


@lowering("QGemm", domain=MICROSOFT)
def _qgemm(
    g: Graph,
    call: Call,
    a: Source,
    a_scale: Source,
    a_zero_point: Source,
    b: Source,
    b_scale: Source,
    b_zero_point: Source,
) -> Source:
    ta, tb = bool(call.integer("transA")), bool(call.integer("transB"))
    a = centred(g, call, a, a_zero_point, T.f32)
    b = centred(g, call, b, b_zero_point, T.f32, 0 if tb else 1)
    product = g.matmul(a, b, ta=ta, tb=tb)
    if call.has(6):
        product = g.plus(product, g.convert(call[6], T.f32))
    both = g.times(_scalar(g, a_scale), _scalar(g, b_scale))
    result = g.times(product, g.times(both, call.number("alpha", 1.0)))
    return codes_of(g, call, result, call[7], call.optional(8)) if call.has(7) else result
