"""Convert, ConvertLike, ConvertPromoteTypes: values in another element type.

ONNX leaves open what a float beyond an integer's range becomes, and processors differ; what the IR
has is spelled out. Types that
are codes (nf4, f4e2m1, f8e8m0) are looked up in the table of their values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uncork.export.onnx.graph import BOOLEAN, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.internal_ops.whole import Whole
from uncork.ops._operation import Operation
from uncork.ops.convert import Convert1, limits
from uncork.storage import code_book
from uncork.types import ElementType

T = ElementType
_CODES = frozenset({T.nf4, T.f4e2m1, T.f8e8m0})
_SMALL_FLOATS = frozenset({T.f8e4m3, T.f8e5m2, T.bf16})


@lowers("Convert")
def convert(g: Graph, op: Convert1, data: Tensor) -> Tensor:
    """The values in the type that the layer names. Where the IR refuses numbers that the type does
    not have, they become its nearest ones: an id from outside stays outside.
    """
    if isinstance(op, Whole):
        return g.cast(data, op.destination_type)
    result = converted(g, data, op.destination_type)
    if not op.strict or not (data.type.is_integer and result.type.is_integer):
        return result
    (low, high), (least, most) = limits(data.type), limits(result.type)
    for is_outside, bound, sign in ((low < least, least, "Less"), (high > most, most, "Greater")):
        if is_outside:
            beyond = g.op(sign, data, g.constant(np.array(bound), data.type))
            result = g.op("Where", beyond, g.constant(np.array(bound), result.type), result)
    return result


@lowers("ConvertLike")
def convert_like(g: Graph, op: Operation, data: Tensor, like: Tensor) -> Tensor:
    """The values in the type of another input."""
    return converted(g, data, like.type)


@lowers("ConvertPromoteTypes")
def convert_promote(g: Graph, op: Operation, a: Tensor, b: Tensor) -> list[Tensor]:
    """Both inputs in their common type."""
    return [converted(g, t, spec.element_type) for t, spec in zip((a, b), g.outputs, strict=True)]


def decoded(g: Graph, data: Tensor) -> Tensor:
    """Values in a type that ONNX's nodes compute with: codes and floats of less than 16 bits as
    f32, small integers as their carrier, others as they are.
    """
    if data.type in _CODES:
        book = g.constant(np.array(code_book(data.type)), hint=f"{data.type.name} values")
        return g.op(
            "Gather", book, g.cast(replace(data, type=T.u8), T.i32), type=T.f32, shape=data.shape
        )
    if data.type in _SMALL_FLOATS:
        return g.cast(data, T.f32)
    if data.type.is_packed:
        return replace(data, type=T.i8 if data.type is T.i4 else T.u8)
    return data


def converted(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """The values in another element type, converted as the IR converts them."""
    if data.type is to:
        return data
    plain = decoded(g, data)
    if to in _CODES:
        return _coded(g, plain, to)
    if to is BOOLEAN:
        return g.op("Not", g.op("Equal", plain, g.number(0, plain)))
    if plain.type.is_float and to.is_integer:
        return _truncated(g, plain, to)
    if to in (T.f8e4m3, T.f8e5m2):
        return _to_f8(g, plain, to)
    if to.is_float and plain.type.is_float:
        return g.cast(plain, to)
    if to.is_integer and to.is_packed:
        return _wrapped(g, plain, to)
    return g.cast(plain, to)


def _coded(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """The code of the nearest value, ties to the even code: the number of midpoints between values
    that lie below.
    """
    if to is not T.f4e2m1:
        g.refuse(f"ONNX cannot round values to {to}")
    exact = g.cast(data, T.f64)
    book = code_book(to)[:8].astype(np.float64)
    middle = (book[:-1] + book[1:]) / 2
    magnitude = g.op("Unsqueeze", g.op("Abs", exact), [-1])
    odd = g.constant(np.arange(7) % 2 == 1)  # a half above an odd code goes up, to the even one
    above = g.op("Greater", magnitude, g.constant(middle))
    on = g.op("And", g.op("Equal", magnitude, g.constant(middle)), odd)
    code = g.op("ReduceSum", g.cast(g.op("Or", above, on), T.i32), [g.rank(data)], keepdims=0)
    sign = g.op("Less", exact, g.constant(np.float64(0)))
    negative_zero = g.op("Less", g.op("Reciprocal", exact), g.constant(np.float64(0)))
    signed = g.op("Mul", g.cast(g.op("Or", sign, negative_zero), T.i32), g.constant(8, T.i32))
    return replace(g.cast(g.op("Add", code, signed), T.u8), type=to, shape=data.shape)


def _truncated(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """Floats as integers, the fraction cut off; a value beyond 32 bits (for i64 and u64: 64)
    becomes the number with only the highest bit set.
    """
    wide = T.i64 if to.bits == 64 else T.i32
    exact = g.cast(data, T.f64)
    whole = g.op("Mul", g.op("Sign", exact), g.op("Floor", g.op("Abs", exact)))
    half = 2.0 ** (wide.bits - 1)
    lowest, above = g.constant(-half, T.f64), g.constant(half, T.f64)
    fits = g.op("And", g.op("GreaterOrEqual", whole, lowest), g.op("Less", whole, above))
    low = g.cast(g.op("Where", fits, whole, g.constant(0.0, T.f64)), wide)
    least = g.constant(-(2 ** (wide.bits - 1)), wide)
    result = g.op("Where", fits, low, least)
    if to.kind == "unsigned" and to.bits >= 32:
        upper = g.op(
            "And",
            g.op("GreaterOrEqual", whole, above),
            g.op("Less", whole, g.constant(2 * half, T.f64)),
        )
        rest = g.op("Where", upper, g.op("Sub", whole, above), g.constant(0.0, T.f64))
        result = g.op("Where", upper, g.op("Add", g.cast(rest, wide), least), result)
    return _wrapped(g, result, to) if to.is_packed else g.cast(result, to)


def _wrapped(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """Integers modulo 2**bits of a type of less than eight bits."""
    wide = g.cast(data, T.i64)
    low = g.op("Mod", wide, g.constant(1 << to.bits, T.i64))
    if to.kind == "signed":
        half = 1 << (to.bits - 1)
        high = g.op("GreaterOrEqual", low, g.constant(half, T.i64))
        low = g.op("Where", high, g.op("Sub", low, g.constant(1 << to.bits, T.i64)), low)
    return replace(g.cast(low, T.i8 if to is T.i4 else T.u8), type=to)


def _to_f8(g: Graph, data: Tensor, to: ElementType) -> Tensor:
    """Values in an f8 type without ONNX's saturation: beyond the range NaN (f8e4m3) or infinity
    (f8e5m2).
    """
    name = g.cast(data, T.f32)
    return g.op(
        "Cast", name, to=17 if to is T.f8e4m3 else 19, saturate=0, type=to, shape=data.shape
    )
