"""FakeQuantize-1 and FakeConvert-13: values rounded to what a quantized type could hold, in the
type they have.

    FakeQuantize: output = output_low      where x <= min(input_low, input_high)
                           output_high     where x >  max(input_low, input_high)
                           round((x - il) / (ih - il) * (levels - 1))
                               / (levels - 1) * (oh - ol) + ol      between
    FakeConvert:  output = (convert_back(convert(data * scale - shift)) + shift) / scale

Pages: operation-specs/quantization/fake-quantize-1, fake-convert-13. Decided where they are silent:

- round goes to the even neighbour; a NaN stays NaN;
- with numpy broadcasting too the limits stretch to X, not X to them;
- FakeConvert saturates: values beyond the f8 type, infinities too, become its largest finite value.
  (Convert-1 does not; here the point is to show what quantization does, and OpenVINO's own
  FakeConvert saturates.)
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.broadcast import Broadcasting, broadcast_shapes
from uncork.ops._operation import Operation, register
from uncork.ops._ports import REAL, Attribute, Input, Output, at_least, element_type, integer
from uncork.storage import code_book, decode, encode
from uncork.types import Array, ElementType, PartialShape, TensorSpec


@register("FakeQuantize", 1)
class FakeQuantize(Broadcasting):
    """`X` of any shape, limits that stretch to it."""

    X = Input(REAL, "T")
    input_low = Input(REAL, "T")
    input_high = Input(REAL, "T")
    output_low = Input(REAL, "T")
    output_high = Input(REAL, "T")
    output = Output("T")
    levels = Attribute(integer, check=at_least(2))

    def infer(self, x: TensorSpec, *limits: TensorSpec) -> PartialShape:
        mode = "onto" if self.auto_broadcast == "numpy" else self.auto_broadcast
        for port, limit in zip(self.inputs[1:], limits, strict=False):
            shape = broadcast_shapes(
                self, [x.shape, limit.shape], ["X", port.name], mode, self.auto_broadcast_axis
            )
            x = TensorSpec(x.element_type, shape)
        return x.shape

    def reference(self, x: Array, *limits: Array) -> Array:
        input_low, input_high, output_low, output_high = (
            self.placed(limit, x.ndim) for limit in limits
        )
        steps = x.dtype.type(self.levels - 1)
        step = np.rint((x - input_low) / (input_high - input_low) * steps)
        between = step / steps * (output_high - output_low) + output_low
        above = x > np.maximum(input_low, input_high)
        below = x <= np.minimum(input_low, input_high)
        return np.where(below, output_low, np.where(above, output_high, between))


_F8 = (ElementType.f8e4m3, ElementType.f8e5m2)


@register("FakeConvert", 13)
class FakeConvert(Operation):
    """`data` of any shape, `scale` and `shift` (0 when absent) that stretch to it."""

    data = Input(REAL - {ElementType.f64}, "T")
    scale = Input(REAL - {ElementType.f64}, "T")
    shift = Input(REAL - {ElementType.f64}, "T", optional=True)
    output = Output("T")
    destination_type = Attribute(
        element_type, check=lambda t: None if t in _F8 else "f8e4m3 or f8e5m2"
    )

    def infer(self, data: TensorSpec, scale: TensorSpec, shift: TensorSpec | None) -> PartialShape:
        shape = broadcast_shapes(self, [data.shape, scale.shape], ["data", "scale"], "onto")
        if shift is not None:
            alike = scale.shape.agrees(shift.shape)
            self.require(
                alike,
                "input 'shift': expected the shape of scale, {}, got {}",
                scale.shape,
                shift.shape,
            )
            shape = broadcast_shapes(self, [shape, shift.shape], ["data", "shift"], "onto")
        return shape

    def reference(self, data: Array, scale: Array, shift: Array | None) -> Array:
        offset = scale.dtype.type(0) if shift is None else shift
        book = code_book(self.destination_type)
        largest = np.max(book[np.isfinite(book)])
        narrow = encode(np.clip(data * scale - offset, -largest, largest), self.destination_type)
        return np.asarray((decode(narrow, self.destination_type) + offset) / scale)
