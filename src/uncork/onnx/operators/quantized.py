"""Ways in and out of codes: QuantizeLinear, DequantizeLinear and their kin."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import MICROSOFT, lowering
from uncork.onnx.types import element_type_of
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


def along(call: Call, parameter: Source, data: Source, axis: int, block: int = 0) -> Source:
    """Scales or zero points as they spread over the data: one, one for each place of an axis, or
    one for each block along it.
    """
    graph = call.graph
    rank = graph.spec(parameter).rank
    size = graph.spec(parameter).shape.size
    if rank == 0:
        return parameter
    if block:
        return _in_blocks(call, parameter, axis, block)
    if rank == 1 and size == 1:
        return graph.reshape(parameter, [])
    if rank == 1:
        whole = graph.rank(data)
        axis = call.place(axis, whole)
        return graph.reshape(parameter, [-1 if i == axis else 1 for i in range(whole)])
    return parameter


def _in_blocks(call: Call, parameter: Source, axis: int, block: int) -> Source:
    """Each number `block` times along the axis."""
    graph = call.graph
    rank = graph.rank(parameter)
    axis = call.place(axis, rank)
    sizes = [n if n is not None else 0 for n in graph.sizes(parameter)]
    call.refuse_if(0 in sizes, "scales of open size", "export the model with its sizes")
    wide = graph.unsqueeze(parameter, axis + 1)
    wide = graph.broadcast(wide, graph.i64([*sizes[: axis + 1], block, *sizes[axis + 1 :]]))
    sizes[axis] *= block
    return graph.reshape(wide, sizes)


@lowering("QuantizeLinear")
@lowering("QuantizeLinear", domain=MICROSOFT)
def _quantize_linear(call: Call) -> Source:
    graph, data = call.graph, call[0]
    block = call.integer("block_size")
    if call.has(2):
        kind = graph.type(call[2])
    else:
        number = call.integer("output_dtype")
        kind = element_type_of(number) if number else T.u8
    axis = call.integer("axis", 1)
    wide = T.f64 if graph.type(data) is T.f64 else T.f32
    precision = call.integer("precision")
    if precision:
        wide = element_type_of(precision)
    scale = along(call, graph.convert(call[1], wide), data, axis, block)
    zero = None
    if call.has(2) and kind.is_integer:
        zero = along(call, graph.convert(call[2], wide), data, axis, block)
    scaled = graph.over(graph.convert(data, wide), scale)
    return rounded(graph, scaled, zero, kind, bool(call.integer("saturate", 1)))


def rounded(
    graph: Graph, scaled: Source, zero: Source | None, kind: ElementType, saturate: bool = True
) -> Source:
    """Scaled numbers as codes: rounded to whole ones, halves to even, and cut to the type."""
    if kind.is_float:
        if kind is T.f4e2m1:
            scaled = graph.make("Clamp", scaled, min=-6.0, max=6.0)
        elif saturate:
            most = 448.0 if kind is T.f8e4m3 else 57344.0
            scaled = graph.make("Clamp", scaled, min=-most, max=most)
        return graph.convert(scaled, kind)
    codes = graph.make("Round", scaled, mode="half_to_even")
    if zero is not None:
        codes = graph.plus(codes, zero)
    low, high = bounds(kind)
    return graph.convert(graph.make("Clamp", codes, min=low, max=high), kind)


@lowering("DequantizeLinear")
@lowering("DequantizeLinear", domain=MICROSOFT)
def _dequantize_linear(call: Call) -> Source:
    graph, data = call.graph, call[0]
    number = call.integer("output_dtype")
    kind = element_type_of(number) if number else graph.type(call[1])
    zero = call.optional(2)
    axis, block = call.integer("axis", 1), call.integer("block_size")
    return dequantized(call, data, call[1], zero, axis, block, kind)


def dequantized(
    call: Call,
    data: Source,
    scale: Source,
    zero: Source | None,
    axis: int = 1,
    block: int = 0,
    kind: ElementType | None = None,
) -> Source:
    """The numbers that codes stand for: (code - zero) * scale."""
    graph = call.graph
    kind = kind or graph.type(scale)
    wide = graph.type(scale)
    if graph.type(data) in (T.i32, T.u16, T.i16) and zero is None and wide is T.f16:
        wide = T.f32
    numbers = graph.convert(data, wide)
    sizes = [n or 0 for n in graph.sizes(data)] if block else []
    place = call.place(axis, len(sizes)) if block else axis
    apart = block > 0 and 0 not in sizes and sizes[place] % block == 0
    if apart:  # Each block along an axis of its own, as stored weights of the IR have it.
        split = [*sizes[:place], sizes[place] // block, block, *sizes[place + 1 :]]
        numbers = graph.reshape(numbers, split)

    def spread(parameter: Source) -> Source:
        parameter = graph.convert(parameter, wide)
        if apart:
            return graph.unsqueeze(parameter, place + 1)
        return along(call, parameter, data, axis, block)

    if zero is not None and not _is_zero(graph, zero):
        numbers = graph.minus(numbers, spread(zero))
    found = graph.convert(graph.times(numbers, spread(scale)), kind)
    return graph.reshape(found, sizes) if apart else found


def _is_zero(graph: Graph, source: Source) -> bool:
    value = graph.known(source)
    return value is not None and value.size == 1 and not value.reshape(-1)[0]


@lowering("DynamicQuantizeLinear")
def _dynamic_quantize_linear(call: Call) -> tuple[Source, ...]:
    return dynamic(call, call[0])


def dynamic(call: Call, data: Source) -> tuple[Source, Source, Source]:
    """Codes of u8, with the scale and zero point that the data ask for."""
    graph = call.graph
    rank = graph.rank(data)
    axes = list(range(rank))
    zero = graph.of_type(0.0, T.f32)
    least = graph.make("Minimum", graph.reduce("ReduceMin", data, axes, keep=False), zero)
    most = graph.make("Maximum", graph.reduce("ReduceMax", data, axes, keep=False), zero)
    scale = graph.over(graph.minus(most, least), 255.0)
    offset = graph.over(graph.minus(0.0, least), scale)
    point = graph.make("Round", graph.make("Clamp", offset, min=0.0, max=255.0))
    # Of data that are all zero the scale is too, and any point will do.
    point = graph.select(graph.make("Equal", scale, zero), zero, point)
    codes = rounded(graph, graph.over(data, scale), point, T.u8)
    return codes, scale, graph.convert(point, T.u8)


def codes_of(call: Call, data: Source, scale: Source, zero: Source | None) -> Source:
    """Numbers as codes by a scale and a zero point of one element each."""
    graph = call.graph
    if zero is None:
        raise ValidationError("the zero point of the result is missing: it says the type")
    kind = graph.type(zero)
    point = along(call, graph.convert(zero, T.f32), data, 1)
    return rounded(graph, graph.over(data, along(call, scale, data, 1)), point, kind)
