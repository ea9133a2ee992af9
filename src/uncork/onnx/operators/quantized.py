"""Ways in and out of codes: QuantizeLinear, DequantizeLinear and their kin."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.elementwise import saturated
from uncork.onnx.registry import MICROSOFT, lowering
from uncork.types import ElementType

T = ElementType
#: The numbers that a type of whole numbers has.
_SPECIAL = {T.i4: (-8, 7), T.u4: (0, 15), T.u2: (0, 3)}


def bounds(kind: ElementType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    info = np.iinfo(kind.dtype)
    return int(info.min), int(info.max)


def along(
    g: Graph, call: Call, parameter: Source, data: Source, axis: int, block: int = 0
) -> Source:
    """Scales or zero points as they spread over the data: one, one for each place of an axis, or
    one for each block along it.
    """
    rank = g.spec(parameter).rank
    size = g.spec(parameter).shape.size
    if rank == 0:
        return parameter
    if block:
        return _in_blocks(g, call, parameter, axis, block)
    if rank == 1 and size == 1:
        return g.reshape(parameter, [])
    if rank == 1:
        whole = g.rank(data)
        axis = call.place(axis, whole)
        return g.reshape(parameter, [-1 if i == axis else 1 for i in range(whole)])
    return parameter


def _in_blocks(g: Graph, call: Call, parameter: Source, axis: int, block: int) -> Source:
    """Each number `block` times along the axis."""
    rank = g.rank(parameter)
    axis = call.place(axis, rank)
    sizes = [n if n is not None else 0 for n in g.sizes(parameter)]
    call.refuse_if(0 in sizes, "scales of open size", "export the model with its sizes")
    wide = g.unsqueeze(parameter, axis + 1)
    wide = g.broadcast(wide, g.i64([*sizes[: axis + 1], block, *sizes[axis + 1 :]]))
    sizes[axis] *= block
    return g.reshape(wide, sizes)


@lowering("QuantizeLinear")
@lowering("QuantizeLinear", domain=MICROSOFT)
def _quantize_linear(
    g: Graph, call: Call, data: Source, y_scale: Source, y_zero_point: Source | None = None
) -> Source:
    block = call.integer("block_size")
    told = call.element_type("output_dtype", T.u8)
    kind = told if y_zero_point is None else g.type(y_zero_point)
    axis = call.integer("axis", 1)
    wide = call.element_type("precision", T.f64 if g.type(data) is T.f64 else T.f32)
    scale = along(g, call, g.convert(y_scale, wide), data, axis, block)
    zero = None
    if y_zero_point is not None and kind.is_integer:
        zero = along(g, call, g.convert(y_zero_point, wide), data, axis, block)
    scaled = g.over(g.convert(data, wide), scale)
    return rounded(g, scaled, zero, kind, bool(call.integer("saturate", 1)))


def rounded(
    g: Graph, scaled: Source, zero: Source | None, kind: ElementType, saturate: bool = True
) -> Source:
    """Scaled numbers as codes: rounded to whole ones, halves to even, and cut to the type."""
    if kind.is_float:
        cut = saturate or kind is T.f4e2m1
        return g.convert(saturated(g, scaled, kind) if cut else scaled, kind)
    codes = g.make("Round", scaled, mode="half_to_even")
    if zero is not None:
        codes = g.plus(codes, zero)
    low, high = bounds(kind)
    return g.convert(g.make("Clamp", codes, min=low, max=high), kind)


@lowering("DequantizeLinear")
@lowering("DequantizeLinear", domain=MICROSOFT)
def _dequantize_linear(
    g: Graph, call: Call, data: Source, x_scale: Source, zero: Source | None = None
) -> Source:
    kind = call.element_type("output_dtype", g.type(x_scale))
    axis, block = call.integer("axis", 1), call.integer("block_size")
    return dequantized(g, call, data, x_scale, zero, axis, block, kind)


def dequantized(
    g: Graph,
    call: Call,
    data: Source,
    scale: Source,
    zero: Source | None,
    axis: int = 1,
    block: int = 0,
    kind: ElementType | None = None,
) -> Source:
    """The numbers that codes stand for: (code - zero) * scale."""
    kind = kind or g.type(scale)
    wide = g.type(scale)
    if g.type(data) in (T.i32, T.u16, T.i16) and zero is None and wide is T.f16:
        wide = T.f32
    numbers = g.convert(data, wide)
    sizes = [n or 0 for n in g.sizes(data)] if block else []
    place = call.place(axis, len(sizes)) if block else axis
    apart = block > 0 and 0 not in sizes and sizes[place] % block == 0
    if apart:  # Each block along an axis of its own, as stored weights of the IR have it.
        split = [*sizes[:place], sizes[place] // block, block, *sizes[place + 1 :]]
        numbers = g.reshape(numbers, split)

    def spread(parameter: Source) -> Source:
        parameter = g.convert(parameter, wide)
        if apart:
            return g.unsqueeze(parameter, place + 1)
        return along(g, call, parameter, data, axis, block)

    if zero is not None and not _is_zero(g, zero):
        numbers = g.minus(numbers, spread(zero))
    found = g.convert(g.times(numbers, spread(scale)), kind)
    return g.reshape(found, sizes) if apart else found


def _is_zero(g: Graph, source: Source) -> bool:
    value = g.known(source)
    return value is not None and value.size == 1 and not value.reshape(-1)[0]


@lowering("DynamicQuantizeLinear")
def _dynamic_quantize_linear(g: Graph, call: Call, data: Source) -> tuple[Source, ...]:
    return dynamic(g, data)


def dynamic(g: Graph, data: Source) -> tuple[Source, Source, Source]:
    """Codes of u8, with the scale and zero point that the data ask for."""
    rank = g.rank(data)
    axes = list(range(rank))
    zero = g.of_type(0.0, T.f32)
    least = g.make("Minimum", g.reduce("ReduceMin", data, axes, keep=False), zero)
    most = g.make("Maximum", g.reduce("ReduceMax", data, axes, keep=False), zero)
    scale = g.over(g.minus(most, least), 255.0)
    offset = g.over(g.minus(0.0, least), scale)
    point = g.make("Round", g.make("Clamp", offset, min=0.0, max=255.0))
    # Of data that are all zero the scale is too, and any point will do.
    point = g.select(g.make("Equal", scale, zero), zero, point)
    codes = rounded(g, g.over(data, scale), point, T.u8)
    return codes, scale, g.convert(point, T.u8)


def codes_of(g: Graph, call: Call, data: Source, scale: Source, zero: Source | None) -> Source:
    """Numbers as codes by a scale and a zero point of one element each."""
    if zero is None:
        raise ValidationError("the zero point of the result is missing: it says the type")
    kind = g.type(zero)
    point = along(g, call, g.convert(zero, T.f32), data, 1)
    return rounded(g, g.over(data, along(g, call, scale, data, 1)), point, kind)
