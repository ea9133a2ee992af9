"""Comparisons and tests, logic on booleans and on bits."""

from __future__ import annotations

from uncork.export.onnx.families.arithmetic import placed
from uncork.export.onnx.families.convert import decoded
from uncork.export.onnx.graph import BOOLEAN, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.comparison import IsInf
from uncork.types import ElementType

_COMPARISONS = {
    "Equal": "Equal",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
}
_LOGIC = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "Xor": "Xor"}
_BITS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


@lowers(*_COMPARISONS, "NotEqual")
def compare(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Comparison of two tensors by value; false is less than true."""
    b = placed(g, op, a, b)
    a, b = (decoded(g, t) for t in (a, b))
    if a.type is ElementType.string and op.type_name not in ("Equal", "NotEqual"):
        g.refuse("ONNX does not order strings")
    if a.type is BOOLEAN and op.type_name not in ("Equal", "NotEqual"):
        a, b = (g.cast(t, ElementType.i32) for t in (a, b))
    if op.type_name == "NotEqual":
        return g.op("Not", g.op("Equal", a, b))
    return g.op(_COMPARISONS[op.type_name], a, b)


@lowers("IsNaN")
def is_nan(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """Whether a value is not a number."""
    return g.op("IsNaN", decoded(g, data))


@lowers("IsInf")
def is_inf(g: Graph, op: IsInf, data: Tensor) -> Tensor:
    """Whether a value is infinite, of the signs asked for."""
    return g.op(
        "IsInf",
        decoded(g, data),
        detect_negative=int(op.detect_negative),
        detect_positive=int(op.detect_positive),
    )


@lowers("IsFinite")
def is_finite(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """Whether a value is neither infinite nor NaN."""
    data = decoded(g, data)
    return g.op("Not", g.op("Or", g.op("IsNaN", data), g.op("IsInf", data)))


@lowers(*_LOGIC)
def logic(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Logical operation on booleans."""
    return g.op(_LOGIC[op.type_name], a, placed(g, op, a, b))


@lowers("LogicalNot")
def logical_not(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """Negation of booleans."""
    return g.op("Not", data)


@lowers(*_BITS)
def bits(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Bitwise operation on integers; on booleans the logical one."""
    b = placed(g, op, a, b)
    node = _BITS[op.type_name]
    return g.op(node if a.type is BOOLEAN else f"Bitwise{node}", a, b)


@lowers("BitwiseNot")
def bitwise_not(g: Graph, op: Operation, data: Tensor) -> Tensor:
    """Bitwise complement of integers; of booleans the negation."""
    return g.op("Not" if data.type is BOOLEAN else "BitwiseNot", data)


@lowers("BitwiseLeftShift", "BitwiseRightShift")
def shift(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Shift of bits, done on unsigned numbers and by less than their bits, as ONNX defines no
    other.
    """
    b = placed(g, op, a, b)
    left = op.type_name == "BitwiseLeftShift"
    unsigned = ElementType[f"u{max(32, a.type.bits)}"]
    limit = g.constant(a.type.bits - 1, unsigned)
    places = g.cast(b, unsigned)
    all_out = g.op("Greater", places, limit)
    places = g.op("Min", places, limit)
    negative = g.op("Less", a, g.number(0, a)) if a.type.kind == "signed" and not left else None
    magnitude = g.op("Where", negative, g.op("BitwiseNot", a), a) if negative else a
    moved = g.op(
        "BitShift", g.cast(magnitude, unsigned), places, direction="LEFT" if left else "RIGHT"
    )
    moved = g.op("Where", all_out, g.constant(0, unsigned), moved)
    result = g.cast(moved, a.type)
    return g.op("Where", negative, g.op("BitwiseNot", result), result) if negative else result
