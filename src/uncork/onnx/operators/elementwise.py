"""Operators that compute element by element: arithmetic, activations, comparisons, conversions."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import Value, lowering
from uncork.onnx.types import element_type_of
from uncork.types import ElementType

T = ElementType
#: Operators that an operation of the IR is, under another name.
_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceiling",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "HardSwish": "HSwish",
    "IsNaN": "IsNaN",
    "Log": "Log",
    "Mish": "Mish",
    "Neg": "Negative",
    "Not": "LogicalNot",
    "Relu": "ReLU",
    "Round": "Round",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "SoftPlus",
    "Softsign": "SoftSign",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
    "Add": "Add",
    "Mul": "Multiply",
    "Sub": "Subtract",
    "And": "LogicalAnd",
    "Or": "LogicalOr",
    "Xor": "LogicalXor",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseNot": "BitwiseNot",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual",
    "Less": "Less",
    "LessOrEqual": "LessEqual",
}


@lowering(*_SAME)
def _same(call: Call) -> Source:
    return call.graph.make(_SAME[call.op_type], *_operands(call))


def _operands(call: Call) -> list[Source]:
    """The inputs. Before version 7 the second one may begin at an axis of the first."""
    tensors, graph = call.tensors, call.graph
    if call.version >= 7 or len(tensors) != 2 or "axis" not in call.attributes:
        return tensors
    rank, own = (graph.rank(t) for t in tensors)
    behind = rank - call.axis(rank) - own
    if behind > 0:
        tensors[1] = graph.unsqueeze(tensors[1], *range(own, own + behind))
    return tensors


@lowering("IsInf")
def _is_inf(call: Call) -> Source:
    return call.graph.make(
        "IsInf",
        call[0],
        detect_negative=bool(call.integer("detect_negative", 1)),
        detect_positive=bool(call.integer("detect_positive", 1)),
    )


@lowering("Div")
def _div(call: Call) -> Source:
    return call.graph.over(*_operands(call))


@lowering("Mod")
def _mod(call: Call) -> Source:
    # fmod has the sign of the dividend, the other one that of the divisor.
    if call.integer("fmod"):
        return call.graph.make("Mod", call[0], call[1])
    return call.graph.make("FloorMod", call[0], call[1])


@lowering("Pow")
def _pow(call: Call) -> Source:
    graph = call.graph
    base, exponent = _operands(call)
    kind, other = graph.type(base), graph.type(exponent)
    if kind is other or kind.is_float:
        return graph.power(base, graph.convert(exponent, kind))
    if other.is_float:
        power = graph.power(graph.convert(base, T.f64), graph.convert(exponent, T.f64))
        return graph.convert(power, kind)
    return graph.power(base, graph.convert(exponent, kind))


@lowering("Reciprocal")
def _reciprocal(call: Call) -> Source:
    return call.graph.over(1.0, call[0])


@lowering("BitShift")
def _bit_shift(call: Call) -> Source:
    direction = call.one_of("direction", "", "LEFT", "RIGHT")
    name = "BitwiseLeftShift" if direction == "LEFT" else "BitwiseRightShift"
    return call.graph.make(name, call[0], call[1])


@lowering("Max", "Min", "Sum", "Mean")
def _of_several(call: Call) -> Source:
    graph, tensors = call.graph, call.tensors
    ValidationError.when(not tensors, "has no inputs, expected at least one")
    name = {"Max": "Maximum", "Min": "Minimum"}.get(call.op_type, "Add")
    total = reduce(lambda a, b: graph.make(name, a, b), tensors)
    return graph.over(total, len(tensors)) if call.op_type == "Mean" else total


@lowering("Where")
def _where(call: Call) -> Source:
    return call.graph.select(call[0], call[1], call[2])


# ---- bounds


@lowering("Clip")
def _clip_to_attributes(call: Call) -> Source:
    low, high = call.number("min", -math.inf), call.number("max", math.inf)
    return _clamped(call, call[0], low, high)


@lowering("Clip", since=11)
def _clip(call: Call) -> Source:
    graph, data = call.graph, call[0]
    low, high = call.optional(1), call.optional(2)
    if graph.type(data) is T.f32:
        numbers = [
            default if bound is None else _number(call, bound)
            for bound, default in ((low, -math.inf), (high, math.inf))
        ]
        if numbers[0] is not None and numbers[1] is not None and numbers[0] <= numbers[1]:
            return _clamped(call, data, numbers[0], numbers[1])
    if low is not None:
        data = graph.make("Maximum", data, low)
    return data if high is None else graph.make("Minimum", data, high)


def _number(call: Call, source: Source) -> float | None:
    value = call.graph.known(source)
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def _clamped(call: Call, data: Source, low: float, high: float) -> Source:
    if (low, high) == (-math.inf, math.inf):
        return data
    if (low, high) == (0.0, math.inf):
        return call.graph.make("ReLU", data)
    return call.graph.make("Clamp", data, min=low, max=high)


# ---- activations


@lowering("Elu")
def _elu(call: Call) -> Source:
    return call.graph.make("Elu", call[0], alpha=call.number("alpha", 1.0))


@lowering("Celu")
def _celu(call: Call) -> Source:
    graph, alpha = call.graph, call.number("alpha", 1.0)
    return graph.times(graph.make("Elu", graph.over(call[0], alpha), alpha=1.0), alpha)


@lowering("Selu")
def _selu(call: Call) -> Source:
    data, graph = call[0], call.graph
    alpha, gamma = call.number("alpha", 1.67326), call.number("gamma", 1.0507)
    return graph.make("Selu", data, graph.like(alpha, data), graph.like(gamma, data))


@lowering("HardSigmoid")
def _hard_sigmoid(call: Call) -> Source:
    data, graph = call[0], call.graph
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return graph.make("HardSigmoid", data, graph.like(alpha, data), graph.like(beta, data))


@lowering("LeakyRelu")
def _leaky_relu(call: Call) -> Source:
    slope = call.graph.reshape(call.graph.like(call.number("alpha", 0.01), call[0]), [1])
    return call.graph.make("PReLU", call[0], slope)


@lowering("PRelu")
def _prelu(call: Call) -> Source:
    # PReLU of the IR takes a slope of one dimension for that of channels, ONNX for the last one.
    graph, data, slope = call.graph, call[0], call[1]
    if graph.spec(slope).shape.size == 1 and graph.type(data).is_float:
        return graph.make("PReLU", data, graph.reshape(slope, [1]))
    sizes = graph.spec(slope).shape
    rank = graph.spec(data).rank
    channels = (call.version < 7 and sizes.rank == 1) or (
        sizes.rank is not None
        and rank is not None
        and rank > 1
        and sizes.rank == rank - 1
        and all(d == 1 for d in list(sizes)[1:])
    )
    if channels and graph.type(data).is_float:
        return graph.make("PReLU", data, graph.reshape(slope, [-1]))
    negative = graph.make("Less", data, graph.like(0, data))
    return graph.select(negative, graph.times(data, slope), data)


@lowering("ThresholdedRelu")
def _thresholded_relu(call: Call) -> Source:
    graph, data = call.graph, call[0]
    above = graph.make("Greater", data, graph.like(call.number("alpha", 1.0), data))
    return graph.select(above, data, graph.like(0.0, data))


@lowering("Shrink")
def _shrink(call: Call) -> Source:
    graph, data = call.graph, call[0]
    bias, bound = call.number("bias"), call.number("lambd", 0.5)
    low = graph.make("Less", data, graph.like(-bound, data))
    high = graph.make("Greater", data, graph.like(bound, data))
    inner = graph.select(high, graph.minus(data, bias), graph.like(0, data))
    return graph.select(low, graph.plus(data, bias), inner)


@lowering("Gelu")
def _gelu(call: Call) -> Source:
    mode = {"none": "erf", "tanh": "tanh"}[call.one_of("approximate", "none", "none", "tanh")]
    return call.graph.make("Gelu", call[0], approximation_mode=mode)


@lowering("Swish")
def _swish(call: Call) -> Source:
    alpha = call.number("alpha", 1.0)
    if alpha == 1.0:
        return call.graph.make("Swish", call[0])
    return call.graph.make("Swish", call[0], call.graph.like(alpha, call[0]))


# ---- conversions


@lowering("Cast")
def _cast(call: Call) -> Source:
    return cast(call, element_type_of(call.integer("to")))


@lowering("CastLike")
def _cast_like(call: Call) -> Source:
    return cast(call, call.graph.type(call[1]))


def cast(call: Call, kind: ElementType) -> Source:
    """The first input in another type. Raises UnsupportedError for texts."""
    source = call.graph.type(call[0])
    call.refuse_if(
        T.string in (kind, source) and kind is not source,
        f"a cast from {source} to {kind}",
        "texts are made numbers before the model, or by a LabelEncoder in it",
    )
    small = (T.f8e4m3, T.f8e5m2)
    if kind in small and call.integer("saturate", 1):
        return _saturated(call, kind)
    return call.graph.convert(call[0], kind)


def _saturated(call: Call, kind: ElementType) -> Source:
    """Numbers beyond the greatest of a small float become that; NaN stays."""
    graph, data = call.graph, call[0]
    most = 448.0 if kind is T.f8e4m3 else 57344.0
    wide = graph.convert(data, T.f32)
    return graph.convert(graph.make("Clamp", wide, min=-most, max=most), kind)


@lowering("Identity")
def _identity(call: Call) -> Value:
    return call.values[0]


@lowering("Dropout")
def _dropout(call: Call) -> tuple[Value, ...]:
    graph, data = call.graph, call[0]
    ratio, training = call.optional(1), call.optional(2)
    if call.version >= 12 and training is not None:
        mode = graph.known(training)
        share = None if ratio is None else graph.known(ratio)
        off = mode is not None and not bool(mode.reshape(-1)[0])
        if not off and (share is None or float(share.reshape(-1)[0]) != 0):
            raise call.refuse(
                "training_mode that may be true", "export the model for inference (model.eval())"
            )
    if not call.wants(1):
        return (data,)
    mask = graph.broadcast(graph.constant(np.array(True), T.boolean), graph.shape_of(data))
    return data, mask
