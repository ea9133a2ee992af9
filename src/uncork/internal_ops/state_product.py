"""The product with a matrix in the storage of a variable, as one operation; no file has it."""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.appended_state import StateValue
from uncork.ops._operation import Operation
from uncork.ops._ports import I32_I64, REAL, Field, Input, Output
from uncork.ops.matmul import MatMul
from uncork.types import Array, PartialShape, TensorSpec


class StateProduct(Operation):
    """`a` times the value in a storage (see `StateValue`), each matrix of it for several of `a`."""

    multiplies = True
    a = Input(REAL, "T")
    storage = Input(REAL, "T")
    length = Input(I32_I64)
    output = Output("T")

    product = Field[MatMul]()
    value = Field[StateValue]()
    repeats = Field(1)

    def matrices(self, storage: TensorSpec, length: TensorSpec) -> TensorSpec:
        """The value, before it is repeated."""
        return self.value.describe([storage, length])[0]

    def infer(self, a: TensorSpec, storage: TensorSpec, length: TensorSpec) -> PartialShape:
        value = self.matrices(storage, length)
        if self.repeats > 1 and value.rank is not None:
            dims = list(value.shape)
            dims[-3] = dims[-3] * self.repeats
            value = TensorSpec(value.element_type, PartialShape(dims))
        return self.product.describe([a, value])[0].shape

    def reference(self, a: Array, storage: Array, length: Array) -> Array:
        value = self.value.reference(storage, length)
        if self.repeats > 1:
            value = np.repeat(value, self.repeats, -3)
        return self.product.reference(a, value)
