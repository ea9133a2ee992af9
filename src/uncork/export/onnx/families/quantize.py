"""FakeQuantize and FakeConvert: QuantizeLinear and DequantizeLinear where those mean exactly the
same, else the formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.export.onnx.composed import composed
from uncork.export.onnx.families.normalization import widened
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.fake_quantize import FakeConvert, FakeQuantize
from uncork.storage import code_book
from uncork.types import ElementType

T = ElementType


@lowers("FakeQuantize")
def fake_quantize(
    g: Graph, op: FakeQuantize, x: Tensor, *limits: Tensor
) -> Tensor | Sequence[Tensor]:
    """QuantizeLinear and DequantizeLinear where the step is a power of two and zero is a level,
    else the formula, as ONNX then rounds in other places.
    """
    linear = _linear(op, x, limits)
    if linear is not None:
        scale, zero, element_type = linear
        parameters = (
            g.constant(np.array(scale, np.float32)),
            g.constant(np.array(zero), element_type),
        )
        narrow = g.op("QuantizeLinear", x, *parameters, type=element_type, shape=x.shape)
        return g.op("DequantizeLinear", narrow, *parameters, type=T.f32, shape=x.shape)
    return composed(g, op, x, *limits)


def _linear(
    op: FakeQuantize, x: Tensor, limits: tuple[Tensor, ...]
) -> tuple[float, int, ElementType] | None:
    """Scale, zero point and type of a quantization that rounds as FakeQuantize does; None where
    there is none.
    """
    if (
        op.levels != 256
        or x.type is not T.f32
        or any(t.value is None or t.value.size != 1 for t in limits)
    ):
        return None
    il, ih, ol, oh = (float(t.value.reshape(-1)[0]) for t in limits if t.value is not None)
    if (il, ih) != (ol, oh) or not il < ih:
        return None
    scale = (ih - il) / 255
    if math.frexp(scale)[0] != 0.5:
        return None
    zero = -il / scale
    if zero != round(zero) or not 0 <= zero <= 255:
        return None
    return (scale, int(zero), T.u8) if zero != 128 else (scale, 0, T.i8)


@lowers("FakeConvert")
def fake_convert(
    g: Graph, op: FakeConvert, data: Tensor, scale: Tensor, shift: Tensor | None
) -> Tensor:
    """Values scaled and shifted into the range of an f8 type, cast to it and back."""
    own = data.type
    data, scale = widened(g, data), widened(g, scale)
    scaled = g.op("Mul", data, scale)
    offset = None if shift is None else widened(g, shift)
    scaled = scaled if offset is None else g.op("Sub", scaled, offset)
    book = code_book(op.destination_type)
    largest = float(np.max(book[np.isfinite(book)]))
    inside = g.op("Min", g.op("Max", scaled, g.number(-largest, scaled)), g.number(largest, scaled))
    back = g.cast(g.cast(inside, op.destination_type), T.f32)
    back = back if offset is None else g.op("Add", back, offset)
    return g.cast(g.op("Div", back, scale), own)
