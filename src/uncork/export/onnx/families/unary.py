"""Functions of one number. For integers, functions of real numbers are computed in f64 and rounded,
halves upwards.
"""

from __future__ import annotations

from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.unary import Round
from uncork.types import ElementType

SAME = {
    "Abs": "Abs",
    "Negative": "Neg",
    "Sign": "Sign",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Erf": "Erf",
    "Sin": "Sin",
    "Cos": "Cos",
    "Tan": "Tan",
    "Asin": "Asin",
    "Acos": "Acos",
    "Atan": "Atan",
    "Sinh": "Sinh",
    "Cosh": "Cosh",
    "Tanh": "Tanh",
    "Asinh": "Asinh",
    "Acosh": "Acosh",
    "Atanh": "Atanh",
}


@lowers("Abs", "Exp")
def same(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """ONNX's node of the same meaning."""
    return g.op(SAME[op.type_name], data)


@lowers("Negative")
def negative(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """ONNX's Neg; for unsigned integers the difference from 0, which wraps."""
    return (
        g.op("Sub", g.number(0, data), data) if data.type.kind == "unsigned" else g.op("Neg", data)
    )


@lowers("Sign")
def sign(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """ONNX's Sign, with NaN for NaN, which ONNX leaves open."""
    if data.type.bits == 64 and data.type.is_integer:
        zero = g.number(0, data)
        positive = g.cast(g.op("Greater", data, zero), data.type)
        return g.op("Sub", positive, g.cast(g.op("Less", data, zero), data.type))
    if not data.type.is_float:
        return g.op("Sign", data)
    return g.op("Where", g.op("IsNaN", data), data, g.op("Sign", data))


@lowers("Floor", "Ceiling")
def rounded(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """ONNX's Floor or Ceil; integers stay as they are."""
    if not data.type.is_float:
        return data
    return g.op("Floor" if op.type_name == "Floor" else "Ceil", data)


@lowers("Round")
def round_(g: Graph, op: Round, data: Tensor) -> Tensor:
    """ONNX's Round, with halves to even; away from zero by the rest, since adding 0.5 would round
    0.49999997 up.
    """
    if not data.type.is_float:
        return data
    if op.mode == "half_to_even":
        return g.op("Round", data)
    magnitude = g.op("Abs", data)
    whole = g.op("Floor", magnitude)
    up = g.op("GreaterOrEqual", g.op("Sub", magnitude, whole), g.number(0.5, data))
    return g.op(
        "Mul", g.op("Sign", data), g.op("Where", up, g.op("Add", whole, g.number(1, data)), whole)
    )


@lowers("Log", "Sin", "Cos", "Tanh")
def real(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """A function of real numbers; of integers computed in f64 and rounded."""
    node = SAME[op.type_name]
    if data.type.is_float:
        return g.op(node, data)
    return nearest(g, g.op(node, g.cast(data, ElementType.f64)), data.type)


@lowers(
    *sorted(set(SAME) - {"Abs", "Exp", "Negative", "Sign", "Sqrt", "Log", "Sin", "Cos", "Tanh"})
)
def real_single(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """A function of real numbers that onnxruntime has in f32 only: f64 is not quite the same."""
    node = SAME[op.type_name]
    if data.type.is_float:
        return g.op(node, data)
    g.approximate(f"{op.type_name} of integers is computed in f32")
    return nearest(g, g.op(node, g.cast(data, ElementType.f32)), data.type)


def nearest(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """The nearest integer, halves upwards."""
    return g.cast(g.op("Floor", g.op("Add", data, g.number(0.5, data))), to)


@lowers("Sqrt")
def sqrt(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """The square root; of integers the nearest one. For 64 bits f64 is off by one at most, which is
    put right.
    """
    if data.type.is_float:
        return g.op("Sqrt", data)
    root = g.op("Sqrt", g.cast(data, ElementType.f64))
    if data.type.bits < 64:
        return nearest(g, root, data.type)
    # No root is larger than this, and its square does not wrap.
    largest = g.number(2**32 - 1 if data.type.kind == "unsigned" else 3037000499, data)
    low, one = g.op("Min", g.cast(g.op("Floor", root), data.type), largest), g.number(1, data)
    square = g.op("Mul", low, low)
    low = g.op("Where", g.op("Greater", square, data), g.op("Sub", low, one), low)
    rest = g.op("Sub", data, g.op("Mul", low, low))
    low, rest = _raised(g, low, rest)
    return g.op("Where", g.op("Greater", rest, low), g.op("Add", low, one), low)


def _raised(g: Graph, low: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The root, one higher where the rest reaches the next square, and the rest then left."""
    one, two = g.number(1, low), g.number(2, low)
    step = g.op("Add", g.op("Mul", low, two), one)
    reaches = g.op("GreaterOrEqual", rest, step)
    return g.op("Where", reaches, g.op("Add", low, one), low), g.op(
        "Where", reaches, g.op("Sub", rest, step), rest
    )
