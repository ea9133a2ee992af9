"""Arithmetic of two tensors. Integer division rounds down in the IR and cuts towards zero in ONNX;
the rest is spelled out.
"""

from __future__ import annotations

import math

from uncork.export.onnx.graph import BOOLEAN, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._operation import Operation
from uncork.ops.arithmetic import Divide

SAME = {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min"}


def placed(g: Graph, op: Operation, first: Tensor, other: Tensor) -> Tensor:
    """An input other than the first, reshaped for NumPy's broadcasting: with pdpd its dimensions
    lie at an axis of the first.
    """
    if (
        not isinstance(op, Broadcasting)
        or op.auto_broadcast != "pdpd"
        or op.auto_broadcast_axis == -1
    ):
        return other
    end = g.rank(first) - op.auto_broadcast_axis
    rank = g.rank(other)
    if rank > end:
        return g.squeeze(other, list(range(end, rank)))
    return g.unsqueeze(other, list(range(rank, end)))


@lowers(*SAME)
def same(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """ONNX's node of the same meaning."""
    return g.op(SAME[op.type_name], a, placed(g, op, a, b))


@lowers("SquaredDifference")
def squared_difference(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """(a - b)^2"""
    difference = g.op("Sub", a, placed(g, op, a, b))
    return g.op("Mul", difference, difference)


@lowers("Divide")
def divide(g: Graph, op: Divide, a: Tensor, b: Tensor) -> Tensor:
    """ONNX's Div of floats; the quotient of integers rounded down, or cut towards zero."""
    b = placed(g, op, a, b)
    if a.type.is_float:
        return g.op("Div", a, b)
    return floor_division(g, a, b) if op.m_pythondiv else truncated_division(g, a, b)


def truncated_division(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """The quotient of integers cut towards zero; the lowest number over -1, which stops processors,
    is itself.
    """
    numbers = b.known()
    if a.type.kind != "signed" or (numbers is not None and -1 not in numbers):
        return g.op("Div", a, b)
    reverses = g.op("Equal", b, g.number(-1, b))
    quotient = g.op("Div", a, g.op("Where", reverses, g.number(1, b), b))
    return g.op("Where", reverses, g.op("Neg", a), quotient)


def floor_division(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """The quotient of integers rounded down: the truncated quotient, less one where a remainder is
    left and the signs differ.
    """
    quotient = truncated_division(g, a, b)
    if a.type.kind != "signed":
        return quotient
    zero = g.number(0, a)
    rest = g.op("Sub", a, g.op("Mul", quotient, b))
    differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", b, zero))
    lower = g.op("And", g.op("Not", g.op("Equal", rest, zero)), differ)
    return g.op("Sub", quotient, g.cast(lower, a.type))


@lowers("Mod", "FloorMod")
def modulo(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """The remainder of the division, for Mod with the sign of a, for FloorMod with that of b."""
    b = placed(g, op, a, b)
    if not a.type.is_float:
        return g.op("Mod", a, b, fmod=int(op.type_name == "Mod"))
    rest = g.op("Mod", a, b, fmod=1)
    if op.type_name == "Mod":
        return rest
    zero = g.number(0, a)
    differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", b, zero))
    other = g.op("And", g.op("Not", g.op("Equal", rest, zero)), differ)
    return g.op("Where", other, g.op("Add", rest, b), rest)


@lowers("Power")
def power(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """ONNX's Pow of floats; powers of integers by squaring, which wraps as products do."""
    b = placed(g, op, a, b)
    if a.type.is_float:
        return g.op("Pow", a, b)
    exponents = b.known()
    if exponents is not None and len(exponents) == 1 and 0 <= exponents[0] < 64:
        return _constant_power(g, a, b, exponents[0])
    bits = (
        a.type.bits - (a.type.kind == "signed")
        if exponents is None
        else max(1, *(abs(n).bit_length() for n in (*exponents, 0)))
    )
    return _integer_power(g, a, b, bits)


def _constant_power(g: Graph, a: Tensor, b: Tensor, exponent: int) -> Tensor:
    one = g.op("Expand", g.number(1, a), g.op("Shape", g.op("Add", a, b)))
    result, base = one, a
    while exponent:
        if exponent & 1:
            result = g.op("Mul", result, base)
        exponent >>= 1
        base = g.op("Mul", base, base) if exponent else base
    return result


def _integer_power(g: Graph, a: Tensor, b: Tensor, bits: int) -> Tensor:
    """Powers of integers by squaring. A negative exponent gives the exact power cut towards zero: 0
    unless the base is 1 or -1.
    """
    zero, one, two = (g.number(n, a) for n in (0, 1, 2))
    signed = a.type.kind == "signed"
    negative = g.op("Less", b, zero) if signed else None
    rest = g.op("Where", negative, zero, b) if negative else b
    result, base = one, a
    for bit in range(bits):
        odd = g.op("Equal", g.op("Mod", rest, two), one)
        result = g.op("Mul", result, g.op("Where", odd, base, one))
        if bit + 1 < bits:
            base, rest = g.op("Mul", base, base), g.op("Div", rest, two)
    if negative is None:
        return result
    is_odd = g.op("Not", g.op("Equal", g.op("Mod", b, two), zero))
    minus = g.number(-1, a)
    unit = g.op("Where", g.op("Equal", a, one), one, g.op("Where", is_odd, minus, one))
    inverse = g.op("Where", g.op("Equal", g.op("Abs", a), one), unit, zero)
    return g.op("Where", negative, inverse, result)


@lowers("Atan2")
def atan2(g: Graph, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """The angle of the point (b, a): the arctangent of a / b, moved into its quadrant; the sign of
    a zero is read from its reciprocal.
    """
    b = placed(g, op, a, b)
    zero, half, whole = g.number(0, a), g.number(math.pi / 2, a), g.number(math.pi, a)
    angle = g.op("Atan", g.op("Div", a, b))
    left = g.op(
        "Where", _negative(g, b), g.op("Where", _negative(g, a), g.op("Neg", whole), whole), zero
    )
    upright = g.op("Where", _negative(g, a), g.op("Neg", half), half)
    on_axis = g.op("Where", g.op("Equal", a, zero), _signed_zero(g, a, b, whole), upright)
    ends = g.op("And", g.op("IsInf", a), g.op("IsInf", b))
    unit = g.op("Div", g.op("Sign", a), g.op("Sign", b))
    angle = g.op("Where", ends, g.op("Atan", unit), angle)
    return g.op("Where", g.op("Equal", b, zero), on_axis, g.op("Add", angle, left))


def _negative(g: Graph, x: Tensor) -> Tensor:
    """Whether the sign bit is set, also that of a zero."""
    zero = g.number(0, x)
    return g.op(
        "Or", g.op("Less", x, zero), g.op("Less", g.op("Reciprocal", x), zero), type=BOOLEAN
    )


def _signed_zero(g: Graph, a: Tensor, b: Tensor, whole: Tensor) -> Tensor:
    return g.op(
        "Where", _negative(g, b), g.op("Where", _negative(g, a), g.op("Neg", whole), whole), a
    )
