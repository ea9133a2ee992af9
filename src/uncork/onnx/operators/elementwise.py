"""Operators that compute element by element: arithmetic, activations, comparisons, conversions."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import MICROSOFT, Value, lowering
from uncork.onnx.types import element_type_of
from uncork.types import ElementType

T = ElementType
#: The largest numbers of types of few bits; of the others, that of f8e5m2.
_LARGEST = {T.f8e4m3: 448.0, T.f4e2m1: 6.0}
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
    "Where": "Select",
    "Tile": "Tile",
    "MatMul": "MatMul",
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
def _same(g: Graph, call: Call) -> Source:
    return g.make(_SAME[call.op_type], *_operands(g, call))


def _operands(g: Graph, call: Call) -> list[Source]:
    """The inputs. Before version 7 the second one may begin at an axis of the first."""
    tensors = call.tensors
    if call.version >= 7 or len(tensors) != 2 or "axis" not in call.attributes:
        return tensors
    rank, own = (g.rank(t) for t in tensors)
    behind = rank - call.axis(rank) - own
    if behind > 0:
        tensors[1] = g.unsqueeze(tensors[1], *range(own, own + behind))
    return tensors


@lowering("IsInf")
def _is_inf(g: Graph, call: Call, data: Source) -> Source:
    return g.make(
        "IsInf",
        data,
        detect_negative=bool(call.integer("detect_negative", 1)),
        detect_positive=bool(call.integer("detect_positive", 1)),
    )


@lowering("Div")
def _div(g: Graph, call: Call) -> Source:
    return g.over(*_operands(g, call))


@lowering("Mod")
def _mod(g: Graph, call: Call, a: Source, b: Source) -> Source:
    # fmod has the sign of the dividend, the other one that of the divisor.
    if call.integer("fmod"):
        return g.make("Mod", a, b)
    return g.make("FloorMod", a, b)


@lowering("Pow")
def _pow(g: Graph, call: Call) -> Source:
    base, exponent = _operands(g, call)
    kind, other = g.type(base), g.type(exponent)
    if kind is other or kind.is_float:
        return g.power(base, g.convert(exponent, kind))
    if other.is_float:
        power = g.power(g.convert(base, T.f64), g.convert(exponent, T.f64))
        return g.convert(power, kind)
    return g.power(base, g.convert(exponent, kind))


@lowering("Reciprocal")
def _reciprocal(g: Graph, call: Call, data: Source) -> Source:
    return g.over(1.0, data)


@lowering("BitShift")
def _bit_shift(g: Graph, call: Call, data: Source, y: Source) -> Source:
    direction = call.one_of("direction", "", "LEFT", "RIGHT")
    name = "BitwiseLeftShift" if direction == "LEFT" else "BitwiseRightShift"
    return g.make(name, data, y)


@lowering("Max", "Min", "Sum", "Mean")
def _of_several(g: Graph, call: Call) -> Source:
    tensors = call.tensors
    ValidationError.when(not tensors, "has no inputs, expected at least one")
    name = {"Max": "Maximum", "Min": "Minimum"}.get(call.op_type, "Add")
    total = reduce(lambda a, b: g.make(name, a, b), tensors)
    return g.over(total, len(tensors)) if call.op_type == "Mean" else total


# ---- bounds


@lowering("Clip")
def _clip_to_attributes(g: Graph, call: Call, data: Source) -> Source:
    low, high = call.number("min", -math.inf), call.number("max", math.inf)
    return _clamped(g, data, low, high)


@lowering("Clip", since=11)
def _clip(
    g: Graph, call: Call, data: Source, low: Source | None = None, high: Source | None = None
) -> Source:
    if g.type(data) is T.f32:
        numbers = [
            default if bound is None else _number(g, bound)
            for bound, default in ((low, -math.inf), (high, math.inf))
        ]
        if numbers[0] is not None and numbers[1] is not None and numbers[0] <= numbers[1]:
            return _clamped(g, data, numbers[0], numbers[1])
    if low is not None:
        data = g.make("Maximum", data, low)
    return data if high is None else g.make("Minimum", data, high)


def _number(g: Graph, source: Source) -> float | None:
    value = g.known(source)
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def _clamped(g: Graph, data: Source, low: float, high: float) -> Source:
    if (low, high) == (-math.inf, math.inf):
        return data
    if (low, high) == (0.0, math.inf):
        return g.make("ReLU", data)
    return g.make("Clamp", data, min=low, max=high)


# ---- activations


@lowering("Elu")
def _elu(g: Graph, call: Call, data: Source) -> Source:
    return g.make("Elu", data, alpha=call.number("alpha", 1.0))


@lowering("Celu")
def _celu(g: Graph, call: Call, data: Source) -> Source:
    alpha = call.number("alpha", 1.0)
    return g.times(g.make("Elu", g.over(data, alpha), alpha=1.0), alpha)


@lowering("Selu")
def _selu(g: Graph, call: Call, data: Source) -> Source:
    alpha, gamma = call.number("alpha", 1.67326), call.number("gamma", 1.0507)
    return g.make("Selu", data, g.like(alpha, data), g.like(gamma, data))


@lowering("HardSigmoid")
def _hard_sigmoid(g: Graph, call: Call, data: Source) -> Source:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return g.make("HardSigmoid", data, g.like(alpha, data), g.like(beta, data))


@lowering("LeakyRelu")
def _leaky_relu(g: Graph, call: Call, data: Source) -> Source:
    return _sloped(g, data, g.like(call.number("alpha", 0.01), data))


def _sloped(g: Graph, data: Source, slope: Source) -> Source:
    """PReLU with one slope, whose shape is [1], or [] beside a scalar."""
    return g.make("PReLU", data, g.reshape(slope, [] if g.spec(data).rank == 0 else [1]))


@lowering("PRelu")
def _prelu(g: Graph, call: Call, data: Source, slope: Source) -> Source:
    # PReLU of the IR takes a slope of one dimension for that of channels, ONNX for the last one.
    if g.spec(slope).shape.size == 1 and g.type(data).is_float:
        return _sloped(g, data, slope)
    sizes = g.spec(slope).shape
    rank = g.spec(data).rank
    channels = (call.version < 7 and sizes.rank == 1) or (
        sizes.rank is not None
        and rank is not None
        and rank > 1
        and sizes.rank == rank - 1
        and all(d == 1 for d in list(sizes)[1:])
    )
    if channels and g.type(data).is_float:
        return g.make("PReLU", data, g.reshape(slope, [-1]))
    negative = g.make("Less", data, g.like(0, data))
    return g.select(negative, g.times(data, slope), data)


@lowering("ThresholdedRelu")
def _thresholded_relu(g: Graph, call: Call, data: Source) -> Source:
    above = g.make("Greater", data, g.like(call.number("alpha", 1.0), data))
    return g.select(above, data, g.like(0.0, data))


@lowering("Shrink")
def _shrink(g: Graph, call: Call, data: Source) -> Source:
    bias, bound = call.number("bias"), call.number("lambd", 0.5)
    low = g.make("Less", data, g.like(-bound, data))
    high = g.make("Greater", data, g.like(bound, data))
    inner = g.select(high, g.minus(data, bias), g.like(0, data))
    return g.select(low, g.plus(data, bias), inner)


@lowering("Gelu")
@lowering("Gelu", domain=MICROSOFT)
def _gelu(g: Graph, call: Call, data: Source) -> Source:
    mode = {"none": "erf", "tanh": "tanh"}[call.one_of("approximate", "none", "none", "tanh")]
    return g.make("Gelu", data, approximation_mode=mode)


@lowering("Swish")
def _swish(g: Graph, call: Call, data: Source) -> Source:
    alpha = call.number("alpha", 1.0)
    if alpha == 1.0:
        return g.make("Swish", data)
    return g.make("Swish", data, g.like(alpha, data))


# ---- conversions


@lowering("Cast")
def _cast(g: Graph, call: Call) -> Source:
    return cast(g, call, element_type_of(call.integer("to")))


@lowering("CastLike")
def _cast_like(g: Graph, call: Call) -> Source:
    return cast(g, call, g.type(call[1]))


def cast(g: Graph, call: Call, kind: ElementType) -> Source:
    """The first input in another type. Raises UnsupportedError for texts."""
    source = g.type(call[0])
    call.refuse_if(
        T.string in (kind, source) and kind is not source,
        f"a cast from {source} to {kind}",
        "texts are made numbers before the model, or by a LabelEncoder in it",
    )
    small = (T.f8e4m3, T.f8e5m2)
    if kind in small and call.integer("saturate", 1):
        return g.convert(saturated(g, g.convert(call[0], T.f32), kind), kind)
    return g.convert(call[0], kind)


def saturated(g: Graph, data: Source, kind: ElementType) -> Source:
    """Numbers cut to the largest ones of a small type of floats."""
    most = _LARGEST.get(kind, 57344.0)
    return g.make("Clamp", data, min=-most, max=most)


@lowering("Identity")
def _identity(g: Graph, call: Call) -> Value:
    return call.values[0]


@lowering("Dropout")
def _dropout(
    g: Graph, call: Call, data: Source, ratio: Source | None = None, training: Source | None = None
) -> tuple[Value, ...]:
    if call.version >= 12 and training is not None:
        mode = g.known(training)
        share = None if ratio is None else g.known(ratio)
        off = mode is not None and not bool(mode.reshape(-1)[0])
        if not off and (share is None or float(share.reshape(-1)[0]) != 0):
            raise call.refuse(
                "training_mode that may be true", "export the model for inference (model.eval())"
            )
    if not call.wants(1):
        return (data,)
    mask = g.broadcast(g.constant(np.array(True), T.boolean), g.shape_of(data))
    return data, mask
