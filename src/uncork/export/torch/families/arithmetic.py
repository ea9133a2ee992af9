"""Arithmetic, comparison, logic and bits of two tensors. Python's operators mean the same for
floats; integer division and powers are spelled out.
"""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Elements, Value, Writer, atom
from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._operation import Operation
from uncork.ops.arithmetic import Divide
from uncork.types import ElementType, PartialShape

T = ElementType
_SIGNS = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Equal": "==",
    "NotEqual": "!=",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
    "LogicalAnd": "&",
    "LogicalOr": "|",
    "LogicalXor": "^",
    "Xor": "^",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
}


def placed(w: Writer, op: Operation, first: Value, other: Value) -> Value:
    """An input other than the first as NumPy's broadcasting wants it: pdpd puts its dimensions at
    an axis of the first.
    """
    if (
        not isinstance(op, Broadcasting)
        or op.auto_broadcast != "pdpd"
        or op.auto_broadcast_axis == -1
    ):
        return other
    end = w.rank(first) - op.auto_broadcast_axis
    rank = w.rank(other)
    dims = list(other.shape)
    if rank > end:
        text = f"{atom(w(other))}.reshape({atom(w(other))}.shape[:{end}])"
        return Value(text, other.type, PartialShape(dims[:end]))
    ones = ", ".join(["..."] + ["None"] * (end - rank))
    text = w(other) if rank == end else f"{atom(w(other))}[{ones}]"
    return Value(text, other.type, PartialShape(dims + [1] * (end - rank)))


def computed(w: Writer, op: Operation, sign: str, a: Value, b: Value) -> Elements | None:
    """The operation on Python integers, where both sides are such and not both are constants."""
    left, right = (None if v.code else w.integers(v) for v in (a, b))
    if left is None or right is None or w.outputs[0].element_type not in (T.i64, T.i32):
        return None
    count = max(len(left), len(right))
    if min(len(left), len(right)) not in (1, count) or max(a.rank or 0, b.rank or 0) > 1:
        return None
    pairs = list(zip(left * (count // len(left)), right * (count // len(right)), strict=True))
    if sign in ("max", "min"):
        return Elements(tuple(f"{sign}({x}, {y})" for x, y in pairs))
    return Elements(tuple(f"{_inner(x)} {sign} {_inner(y)}" for x, y in pairs))


def _never_negative(value: Value) -> bool:
    """Whether the elements are Python's integers that come from sizes without a subtraction."""
    return value.elements is not None and not any("-" in e or "int(" in e for e in value.elements)


def _inner(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith(("max(", "min(")) else text


@lowers(*_SIGNS)
def by_sign(w: Writer, op: Operation, a: Value, b: Value) -> str | Elements:
    """Python's operator of the same meaning."""
    b = placed(w, op, a, b)
    sign = _SIGNS[op.type_name]
    if sign in "+-*" and (result := computed(w, op, sign, a, b)):
        return result
    if sign in ("<", "<=", ">", ">=") and a.type is T.u64:
        return f"({_ordered(w, a)}) {sign} ({_ordered(w, b)})"
    return f"{w.operand(a, b)} {sign} {w.operand(b, a)}"


def _ordered(w: Writer, value: Value) -> str:
    """u64 as the i64 in the same order."""
    return f"{atom(w(value))} ^ -(2**63)"


@lowers("SquaredDifference")
def squared_difference(w: Writer, op: Operation, a: Value, b: Value) -> str:
    """(a - b)^2"""
    return f"({w(a)} - {w.operand(placed(w, op, a, b), a)}).square()"


@lowers("Maximum", "Minimum")
def extreme(w: Writer, op: Operation, a: Value, b: Value) -> str | Elements:
    """torch.maximum or torch.minimum, in which NaN wins."""
    b = placed(w, op, a, b)
    name = op.type_name.lower()
    if result := computed(w, op, name[:3], a, b):
        return result
    if a.type is T.u64:
        return f"torch.{name}({_ordered(w, a)}, {_ordered(w, b)}) ^ -(2**63)"
    return f"torch.{name}({w(a)}, {w(b)})"


@lowers("Divide")
def divide(w: Writer, op: Divide, a: Value, b: Value) -> str | Elements:
    """The quotient of floats; of integers it is rounded down, or cut towards zero."""
    b = placed(w, op, a, b)
    if a.type.is_float:
        return f"{w.operand(a, b)} / {w.operand(b, a)}"
    if a.type is T.u64:
        w.approximate("division of u64 is that of i64")
    down = op.m_pythondiv or (_never_negative(a) and _never_negative(b))
    if down and (result := computed(w, op, "//", a, b)):
        return result
    mode = "floor" if op.m_pythondiv else "trunc"
    return w.helper("divided_integers", a, b, mode=mode)


@lowers("Mod", "FloorMod")
def rest(w: Writer, op: Operation, a: Value, b: Value) -> str | Elements:
    """The remainder of the division, with the sign of a, or of b."""
    b = placed(w, op, a, b)
    if a.type is T.u64:
        w.approximate("division of u64 is that of i64")
    if op.type_name == "FloorMod" and (result := computed(w, op, "%", a, b)):
        return result
    if a.type.is_float:
        name = "torch.fmod" if op.type_name == "Mod" else "torch.remainder"
        return f"{name}({w(a)}, {w.operand(b, a)})"
    return w.helper("rest_of_integers", a, b, floor=op.type_name == "FloorMod")


@lowers("Power")
def power(w: Writer, op: Operation, a: Value, b: Value) -> str:
    """torch.pow of floats; of integers with a negative exponent the exact power, truncated."""
    b = placed(w, op, a, b)
    if a.type.is_float:
        number = w.number(b)
        if number == "2.0":
            return f"{atom(w(a))}.square()"
        return f"torch.pow({w(a)}, {w.operand(b, a)})"
    return w.helper("integer_power", a, b)


@lowers("Atan2")
def atan2(w: Writer, op: Operation, a: Value, b: Value) -> str:
    """The angle of the point (b, a)."""
    return f"torch.atan2({w(a)}, {w(placed(w, op, a, b))})"


@lowers("BitwiseLeftShift", "BitwiseRightShift")
def shift(w: Writer, op: Operation, a: Value, b: Value) -> str:
    """Bits moved by any number of places, even by more than the type has."""
    b = placed(w, op, a, b)
    if a.type is T.u64 and op.type_name == "BitwiseRightShift":
        w.refuse("torch does not shift unsigned 64-bit integers")
    return w.helper("shifted", a, b, left=op.type_name == "BitwiseLeftShift", bits=a.type.bits)


@lowers("IsInf")
def is_infinite(w: Writer, op: Operation, data: Value) -> str:
    """Whether a value is infinite, of the signs asked for."""
    negative, positive = (getattr(op, f"detect_{s}") for s in ("negative", "positive"))
    if negative and positive:
        return f"torch.isinf({w(data)})"
    if not negative and not positive:
        return f"torch.zeros_like({w(data)}, dtype=torch.bool)"
    return f"torch.is{'neg' if negative else 'pos'}inf({w(data)})"


@lowers("Select")
def select(w: Writer, op: Operation, condition: Value, then: Value, otherwise: Value) -> str:
    """torch.where, in which a literal takes the type of the other value."""
    condition, otherwise = placed(w, op, then, condition), placed(w, op, then, otherwise)
    first = w.operand(then, otherwise)
    second = w.operand(otherwise, then) if first == w(then) else w(otherwise)
    return f"torch.where({w(condition)}, {first}, {second})"
