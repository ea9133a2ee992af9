"""Parameter-1, Const-1, Result-1: where values enter and leave a model.

Pages: operation-specs/infrastructure/parameter-1, constant-1, result-1.
"""

from __future__ import annotations

import math

from uncork.ops._operation import Operation, Passing, register
from uncork.ops._ports import ANY, Attribute, Field, Input, Output, element_type, shape
from uncork.types import MAX_RANK, Array, ElementType, PartialShape, TensorSpec


@register("Parameter", 1)
class Parameter(Operation):
    """An input of the model; its value comes from the caller."""

    element_type = Attribute(element_type)
    shape = Attribute(shape)
    output = Output()

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape)


@register("Const", 1)
class Const(Operation):
    """A value stored with the model. `value` is a view of the mapped file where it can be."""

    element_type = Attribute(element_type)
    shape = Attribute(shape)
    output = Output()
    value = Field[Array]()
    moves_values = True

    @staticmethod
    def of_array(element_type: ElementType, array: Array) -> Const:
        """The constant with the values of an array in the carrier dtype."""
        return Const(element_type=element_type, shape=PartialShape(array.shape), value=array)

    def check_attributes(self) -> None:
        self.require(self.shape.is_static, "a constant's shape must be static, got {}", self.shape)
        self.require(
            len(self.shape) <= MAX_RANK,
            "expected at most {} dimensions, got {}",
            MAX_RANK,
            len(self.shape),
        )

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape.static)

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape, self.value)

    def reference(self) -> Array:
        return self.value


@register("Result", 1)
class Result(Passing):
    """An output of the model."""

    data = Input(ANY, "T", moved=True)
