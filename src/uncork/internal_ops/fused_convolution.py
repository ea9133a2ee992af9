"""A convolution with the layers that end it, as one operation; no file has it. Its meaning is that of the layers, in order."""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import INTEGER, REAL, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


class FusedConvolution(Operation):
    """A convolution, the addition of a number to each channel, and an activation; bias and activation may be absent.

    `output_shape` is the third input of the transposed convolutions.
    """

    type_name, opset = "FusedConvolution", 0
    data = Input(REAL, "T")
    filters = Input(REAL, "T")
    bias = Input(REAL, "T", optional=True)
    output_shape = Input(INTEGER, optional=True)
    output = Output("T")

    def __init__(self, product: Operation, activation: Operation | None) -> None:
        super().__init__()
        self.product = product
        self.activation = activation

    def infer(self, data: TensorSpec, filters: TensorSpec, bias: TensorSpec | None, output_shape: TensorSpec | None) -> PartialShape:
        given = [data, filters] if output_shape is None else [data, filters, output_shape]
        shape = self.product.describe(given)[0].shape
        if bias is not None and shape.rank is not None:
            self.require(shape[1].compatible(bias.shape.size), "bias {} does not fit the channels of {}", bias.shape, shape)
        return shape

    def reference(self, data: Array, filters: Array, bias: Array | None, output_shape: Array | None) -> Array:
        others = [output_shape] if len(self.product.inputs) > 2 else []
        result = np.asarray(self.product.reference(data, filters, *others))
        if bias is not None:
            result = result + bias.reshape(-1, *(1,) * (result.ndim - 2))
        return result if self.activation is None else np.asarray(self.activation.reference(result))
