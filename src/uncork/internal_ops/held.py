"""Internal operation: a layer whose tensors are held in 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from uncork import storage
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Field, Input, Output
from uncork.types import ElementType, TensorSpec

#: The type of tensors that are held in 16 bits.
HALF = ElementType.bf16


class Held(Operation):
    """An operation of f32 of which some inputs, and the result where `result` is bf16, are bf16.

    Inputs are widened, the operation is computed in f32, and its result is rounded once.
    """

    values = Input(ANY, variadic=True)
    output = Output()

    operation = Field[Operation]()
    result = Field[ElementType]()

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (made,) = self.operation.describe([widened(spec) for spec in specs])
        return (replace(made, element_type=self.result, value=None, elements=None),)

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        (made,) = self.operation.evaluate([widened(spec) for spec in specs])
        if self.result is made.element_type:
            return (made,)
        value = storage.encode(np.asarray(made.value), self.result)
        return (TensorSpec.of_array(self.result, value),)


class HeldProduct(Held):
    """A MatMul, with what ends it, of a tensor of bf16 and of constant weights, which are rounded
    to it, too; products are added in f32.
    """

    multiplies = True

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        data, weights, *others = specs
        assert weights is not None and weights.value is not None
        rounded = storage.encode(weights.value, HALF)
        return super().evaluate([data, TensorSpec(HALF, weights.shape, rounded), *others])


class HeldAttention(Held):
    """An attention of queries, keys and values of bf16; weights are rounded to it, too, before they
    multiply values.
    """

    multiplies = True


def widened(spec: TensorSpec | None) -> TensorSpec | None:
    """The spec of the same numbers as f32."""
    if spec is None or spec.element_type is not HALF:
        return spec
    value = None if spec.value is None else storage.decode(spec.value, HALF)
    return TensorSpec(ElementType.f32, spec.shape, value)
