"""ShapeOf-1, -3: the shape of a tensor as a 1-D tensor.

Pages: operation-specs/shape/shape-of-1, -3. At load the dimensions that are static are known
values, whatever the others are: shape arithmetic that starts here gives static dimensions again.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, I32_I64, Attribute, Input, Output, element_type
from uncork.types import Array, ElementType, PartialShape, TensorSpec


@register("ShapeOf", 1)
class ShapeOf1(Operation):
    """`data` of any shape -> i64 [rank]."""

    data = Input(ANY, "T", moved=True)  # only its shape is looked at, so nothing need be widened
    output = Output()

    @property
    def type_of_output(self) -> ElementType:
        return ElementType.i64

    def infer(self, data: TensorSpec) -> TensorSpec:
        return TensorSpec(self.type_of_output, PartialShape([data.rank]))

    def known_values(self, data: TensorSpec | None) -> TensorSpec | None:  # type: ignore[override]
        if data is None or data.rank is None:
            return None
        # A constant of the output's type holds what fits it; a size that does not is unknown here
        # and refused when it runs.
        limit = 2 ** (self.type_of_output.bits - 1)
        elements = tuple(None if d.low >= limit else d.size for d in data.shape)
        shape = PartialShape([data.rank])
        if all(isinstance(e, int) for e in elements):
            return TensorSpec(
                self.type_of_output, shape, np.array(elements, self.type_of_output.dtype)
            )
        return TensorSpec(self.type_of_output, shape, None, elements)

    def reference(self, data: Array) -> Array:
        limit = 2 ** (self.type_of_output.bits - 1)
        if any(s >= limit for s in data.shape):
            self.refuse("the shape {} does not fit {}", list(data.shape), self.type_of_output)
        return np.array(data.shape, self.type_of_output.dtype)


@register("ShapeOf", 3)
class ShapeOf3(ShapeOf1):
    """`output_type` is i64 or i32."""

    output_type = Attribute(
        element_type,
        default=ElementType.i64,
        check=lambda t: None if t in I32_I64 else "i64 or i32",
    )

    @property
    def type_of_output(self) -> ElementType:
        return self.output_type
