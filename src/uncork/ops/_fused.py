"""Operations that no file has: what the compiler makes of several layers. Their meaning is that of the layers, one after the other."""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import REAL, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


class FusedLinear(Operation):
    """MatMul, the addition of a bias to each row of the product, and an activation; bias and activation may be absent."""

    type_name, opset = "FusedLinear", 0
    data = Input(REAL, "T")
    weights = Input(REAL, "T")
    bias = Input(REAL, "T", optional=True)
    output = Output("T")

    def __init__(self, product: Operation, activation: Operation | None) -> None:
        super().__init__()
        self.product = product
        self.activation = activation

    def infer(self, data: TensorSpec, weights: TensorSpec, bias: TensorSpec | None) -> PartialShape:
        shape = self.product.describe([data, weights])[0].shape
        if bias is not None and shape.rank is not None:
            self.require(shape[-1].compatible(bias.shape.size), "bias {} does not fit the columns of {}", bias.shape, shape)
        return shape

    def reference(self, data: Array, weights: Array, bias: Array | None) -> Array:
        result = np.asarray(self.product.reference(data, weights))
        if bias is not None:
            result = result + bias.reshape(-1)
        return result if self.activation is None else np.asarray(self.activation.reference(result))
