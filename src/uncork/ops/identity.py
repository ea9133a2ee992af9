"""Identity-16: the input as it is, of any element type.

Page: operation-specs/activation/identity-16.
"""

from __future__ import annotations

from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


@register("Identity", 16)
class Identity16(Operation):
    """`input` of any shape."""

    input = Input(ANY, "T", moved=True)
    output = Output("T")

    def infer(self, data: TensorSpec) -> PartialShape:
        return data.shape

    def reference(self, data: Array) -> Array:
        return data
