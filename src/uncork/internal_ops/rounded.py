"""Internal operation: f32 numbers rounded to those of a narrower type, and held as f32.

The compiler makes it of layers of f16 and bf16 (`passes/widen_halves.py`).
"""

from __future__ import annotations

from uncork.ops._operation import Operation
from uncork.ops._ports import Field, Input, Output
from uncork.storage import decode, encode
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class Rounded(Operation):
    """The nearest numbers of `element_type`, ties to even, as f32."""

    elementwise = True
    data = Input(frozenset({ElementType.f32}), "T")
    output = Output("T")

    element_type = Field[ElementType]()

    def infer(self, data: TensorSpec) -> PartialShape:
        return data.shape

    def reference(self, data: Array) -> Array:
        return decode(encode(data, self.element_type), self.element_type)
