"""Functions of one number. For integers, torch's functions are computed in f64 and rounded, as in
the IR.
"""

from __future__ import annotations

import numpy as np

from uncork.export.torch.registry import lowers
from uncork.export.torch.types import CODES, WIDE, float8
from uncork.export.torch.writer import Code, Elements, Value, Writer, atom
from uncork.internal_ops.whole import Whole
from uncork.ops._operation import Operation
from uncork.ops.activation import Clamp, Elu
from uncork.ops.convert import keeps_integers, limits
from uncork.storage import decode
from uncork.types import ElementType

T = ElementType
_REAL = {
    "Log": "log",
    "Sqrt": "sqrt",
    "Erf": "erf",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
}
#: Those that are the same for every type.
_FUNCTIONS = {
    "Exp": "torch.exp",
    "ErfInv": "torch.erfinv",
    "Sigmoid": "torch.sigmoid",
    "IsNaN": "torch.isnan",
    "IsFinite": "torch.isfinite",
    "ReLU": "F.relu",
    "HSigmoid": "F.hardsigmoid",
    "SoftSign": "F.softsign",
}
_SIGNS = {"Negative": "-", "LogicalNot": "~", "BitwiseNot": "~"}


@lowers(*_REAL)
def real(w: Writer, op: Operation, data: Value) -> str:
    """The torch function of the same meaning; of integers in f64, rounded to the nearest."""
    name = f"torch.{_REAL[op.type_name]}"
    if op.type_name == "Sinh" and data.type in (T.f32, T.f16, T.bf16):
        # Torch halves e^x, which overflows before its half does.
        return f"{name}({atom(w(data))}.double()).to({w.dtype(data.type)})"
    if data.type.is_float:
        return f"{name}({w(data)})"
    if data.type is T.u64:
        w.refuse("torch does not compute with unsigned 64-bit integers")
    if op.type_name == "Sqrt" and data.type is T.i64:
        return w.helper("integer_root", data)
    text = f"torch.floor({name}({atom(w(data))}.double()) + 0.5)"
    return f"{text}.to({w.dtype(data.type)})"


@lowers(*_FUNCTIONS)
def function(w: Writer, op: Operation, data: Value) -> str:
    """The torch function of the same meaning."""
    return f"{_FUNCTIONS[op.type_name]}({w(data)})"


@lowers(*_SIGNS)
def by_sign(w: Writer, op: Operation, data: Value) -> str:
    """Python's operator of the same meaning."""
    return f"{_SIGNS[op.type_name]}{atom(w(data))}"


@lowers("Abs", "Sign")
def magnitude(w: Writer, op: Operation, data: Value) -> str | Value:
    """torch.abs or torch.sign. The lowest integer is its own magnitude; NaN has no sign."""
    if data.type in (T.u8, T.u16, T.u32, T.u64):
        return data if op.type_name == "Abs" else f"({w(data)} != 0).to({w.dtype(data.type)})"
    if op.type_name == "Abs":
        return f"torch.abs({w(data)})"
    if data.type.is_float:
        return f"torch.where(torch.isnan({w(data)}), {w(data)}, torch.sign({w(data)}))"
    return f"torch.sign({w(data)})"


@lowers("Floor", "Ceiling", "Round")
def rounded(w: Writer, op: Operation, data: Value) -> str | Value:
    """torch.floor, torch.ceil or torch.round. Integers stay as they are; halves go to the even
    number, or away from zero.
    """
    if not data.type.is_float:
        return data
    if op.type_name == "Round":
        if getattr(op, "mode", "") == "half_to_even":
            return f"torch.round({w(data)})"
        return w.helper("round_half_away", data)
    return f"torch.{'floor' if op.type_name == 'Floor' else 'ceil'}({w(data)})"


@lowers("Elu")
def elu(w: Writer, op: Elu, data: Value) -> str:
    """F.elu, for any alpha."""
    if op.alpha == 1:
        return f"F.elu({w(data)})"
    return f"torch.where({w(data)} > 0, {w(data)}, {op.alpha!r} * torch.expm1({w(data)}))"


@lowers("Selu")
def selu(w: Writer, op: Operation, data: Value, alpha: Value, scale: Value) -> str:
    """scale * x where x is above 0, else scale * alpha * (e^x - 1)."""
    slope, factor = (_single(w, v) for v in (alpha, scale))
    inner = f"torch.where({w(data)} > 0, {w(data)}, {slope} * torch.expm1({w(data)}))"
    return f"{factor} * {inner}"


def _single(w: Writer, value: Value) -> str:
    """A parameter of one element, as a literal or without dimensions."""
    return w.number(value) or f"{atom(w(value))}.reshape(())"


@lowers("HardSigmoid")
def hard_sigmoid(w: Writer, op: Operation, data: Value, alpha: Value, beta: Value) -> str:
    """max(0, min(1, alpha * x + beta))"""
    return f"torch.clamp({_single(w, alpha)} * {w(data)} + {_single(w, beta)}, 0, 1)"


@lowers("HSwish")
def h_swish(w: Writer, op: Operation, data: Value) -> str:
    """x * min(max(x + 3, 0), 6) / 6, which is NaN at minus infinity, as F.hardswish is not."""
    return f"{w(data)} * torch.clamp({w(data)} + 3, 0, 6) / 6"


@lowers("Swish")
def swish(w: Writer, op: Operation, data: Value, beta: Value | None) -> str:
    """F.silu, or x * sigmoid(beta * x)."""
    if beta is None or w.number(beta) == "1.0":
        return f"F.silu({w(data)})"
    return f"{w(data)} * torch.sigmoid({w(data)} * {_single(w, beta)})"


@lowers("SoftPlus")
def softplus(w: Writer, op: Operation, data: Value) -> str:
    """ln(1 + e^x) without torch's threshold."""
    return f"torch.logaddexp({w(data)}, torch.zeros_like({w(data)}))"


@lowers("Mish")
def mish(w: Writer, op: Operation, data: Value) -> str:
    """x * tanh(SoftPlus(x))"""
    return f"{w(data)} * torch.tanh(torch.logaddexp({w(data)}, torch.zeros_like({w(data)})))"


@lowers("Gelu")
def gelu(w: Writer, op: Operation, data: Value) -> str:
    """F.gelu, which by erf makes NaN of inf."""
    tanh = getattr(op, "approximation_mode", "erf") == "tanh"
    return f'F.gelu({w(data)}, approximate="tanh")' if tanh else f"F.gelu({w(data)})"


@lowers("PReLU")
def prelu(w: Writer, op: Operation, data: Value, slope: Value) -> str:
    """x, or slope * x below 0; the slope is by channel, or broadcast as NumPy does."""
    if None in (slope.rank, data.rank):
        return w.helper("prelu", data, slope)
    if slope.rank == 1 and data.rank is not None and data.rank > 1:
        both_known = slope.shape[0].is_static and data.shape[1].is_static
        if not both_known:
            return w.helper("prelu", data, slope)
        if slope.shape[0] == data.shape[1]:
            ones = ", ".join(["1"] * (data.rank - 2))
            text = w(slope) if not ones else f"{atom(w(slope))}.reshape(-1, {ones})"
            return f"torch.where({w(data)} < 0, {text} * {w(data)}, {w(data)})"
    return f"torch.where({w(data)} < 0, {w(slope)} * {w(data)}, {w(data)})"


@lowers("Clamp")
def clamp(w: Writer, op: Clamp, data: Value) -> str:
    """torch.clamp; for integers the bounds are rounded inwards."""
    if data.type.is_float:
        return f"torch.clamp({w(data)}, {_bound(op.min)}, {_bound(op.max)})"
    bits, signed = data.type.bits, data.type.kind == "signed"
    if data.type is T.u64:
        w.refuse("torch does not order unsigned 64-bit integers")
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    low, high = op.bound(op.min, least, most, True), op.bound(op.max, least, most, False)
    return f"torch.clamp({w(data)}, {low}, {high})"


def _bound(value: float) -> str:
    return repr(value) if abs(value) != float("inf") else f'float("{value}")'


@lowers("Identity")
def identity(w: Writer, op: Operation, data: Value) -> Value:
    """The same values."""
    return data


@lowers("FakeConvert", "Convert", "ConvertLike", "ConvertPromoteTypes")
def convert(
    w: Writer, op: Operation, data: Value, *others: Value | None
) -> str | Value | Elements | list[object]:
    """The values in another element type, wrapped and cut as the IR does; see `converted`."""
    if op.type_name == "ConvertPromoteTypes":
        return [
            converted(w, v, s.element_type)
            for v, s in zip((data, *others), w.outputs, strict=True)
            if v
        ]
    if op.type_name == "FakeConvert":
        return _fake_convert(w, op, data, *others)
    if isinstance(op, Whole):
        return f"{atom(w(data))}.to({w.dtype(op.destination_type)})"
    if op.strict and not data.elements:
        return _held(w, data, w.outputs[0].element_type)
    return converted(w, data, w.outputs[0].element_type)


def _held(w: Writer, data: Value, to: ElementType) -> str | Value | Elements:
    """The values converted where the IR refuses integers that the type does not have: they become
    its nearest ones, so that an id from outside stays outside.
    """
    result = converted(w, data, to)
    if not (data.type.is_integer and to.is_integer) or keeps_integers(data.type, to):
        return result
    low, high = limits(to)
    if data.type is T.u64:  # held as i64
        text = result if isinstance(result, str) else w(data)
        beyond = f"({w(data)} < 0) | ({w(data)} > {high})"
        return f"torch.where({beyond}, {high}, {text})"
    held = f"{atom(w(data))}.to(torch.int64).clamp({max(low, -(2**63))}, {min(high, 2**63 - 1)})"
    return converted(w, Value(held, T.i64, data.shape), to)


def _fake_convert(
    w: Writer, op: Operation, data: Value, scale: Value | None, shift: Value | None = None
) -> str:
    """Values moved into the range of the f8 type, rounded there and moved back."""
    assert scale is not None
    target = "torch.float8_e4m3fn" if op.destination_type == "f8e4m3" else "torch.float8_e5m2"  # type: ignore[attr-defined]
    limit = 448.0 if op.destination_type == "f8e4m3" else 57344.0  # type: ignore[attr-defined]
    return w.helper("fake_convert", data, scale, shift, target, limit)


def converted(w: Writer, data: Value, to: ElementType) -> str | Value | Elements:
    """The values in another element type."""
    own = data.type
    if own is to:
        return data
    if data.elements is not None and not data.code and to in (T.i32, T.i64):
        return Elements(data.elements)
    text, code = w(data), w.dtype(to)
    if own in CODES and own.is_float:
        if float8(own):
            return f"{atom(text)}.view({float8(own)}).to({code})"
        return w.helper("decoded", text, table=_table(own), dtype=Code(code))
    if to is T.boolean:
        return f"{text} != 0"
    if to in CODES and to.is_float:
        if not float8(to) or own not in (T.f32, T.f16, T.bf16):
            w.refuse(f"torch does not round values to {to} as the IR does")
        return w.helper("to_float8", text, Code(str(float8(to))))
    if own.is_float and not to.is_float:
        return w.helper(
            "truncated", text, bits=to.bits, signed=to.kind == "signed", dtype=Code(code)
        )
    if own is T.u64 and to.is_float:
        return w.helper("unsigned_to_float", text, Code(code))
    if to.is_float:
        return f"{atom(text)}.to({code})"
    if to.bits < 8:
        return (
            f"{atom(text)}.to(torch.int64).bitwise_and({2**to.bits - 1}).to({code})"
            if (to.kind != "signed")
            else w.helper("wrapped_i4", text)
        )
    if to in (T.u16, T.u32):
        return f"{atom(text)}.to(torch.int64) & {hex(2**to.bits - 1)}"
    if to in WIDE and own in WIDE:
        return data if own is not T.u64 else f"{atom(text)}.to(torch.int64)"
    return f"{atom(text)}.to({code})"


def _table(element_type: ElementType) -> list[float]:
    """The number that each code stands for."""
    codes = np.arange(2**element_type.bits).astype(element_type.dtype)
    return [float(n) for n in decode(codes, element_type)]
