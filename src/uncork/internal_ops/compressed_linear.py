"""Internal operation: a matrix product with weights as they are stored.

Passes make it of a product whose matrix other layers compute from small numbers.

    Const (f16, bf16, f8e4m3, f8e5m2, i8, u8, i4, u4) -> Convert, or a table of 16 numbers
        -> Subtract (zero points) -> Multiply (scales) -> Reshape -> Convert -> MatMul

The matrix is never made. The meaning is that of the layers one after the other, each result rounded
to its type.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from uncork.concurrency import lazy
from uncork.internal_ops.fused import FusedProduct
from uncork.ops._operation import Operation
from uncork.ops._ports import REAL, Field, Input, Output
from uncork.storage import decode, unpack
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: The code of 1 in bf16.
_ONE = 0x3F80


class CompressedMatrix(Struct, frozen=True, eq=False, dict=True):
    """A matrix of f32 [columns, inner] as it is stored: `(codes - zero_points) * scales`, each step
    in f32, or rounded to f16 with `half`.

    `codes` are carrier values [columns, groups, size of a group], in the order of `axes` as they
    are stored, or with `packed`, which is that shape, the bytes of `model.bin`. `zero_points` and
    `scales` are f32 [columns or 1, groups or 1]; None where the layers have no such step.
    `numbers` f32 [16] are what codes below 16 stand for, where that is not themselves.
    """

    element_type: ElementType
    codes: Array
    axes: tuple[int, int, int]
    zero_points: Array | None = None
    scales: Array | None = None
    half: bool = False
    packed: tuple[int, ...] | None = None
    numbers: Array | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape: columns, groups, and size of a group."""
        sizes = self.packed or self.codes.shape
        return sizes[self.axes[0]], sizes[self.axes[1]], sizes[self.axes[2]]

    @property
    def columns(self) -> int:
        return self.shape[0]

    @property
    def inner(self) -> int:
        return self.shape[1] * self.shape[2]

    def carriers(self) -> Array:
        """The codes as carrier values [columns, groups, size of a group], which are not kept."""
        codes = self.codes
        if self.packed is not None:
            count = math.prod(self.packed)
            codes = unpack(codes.data, self.element_type, count).reshape(self.packed)
        turned: Array = codes.transpose(self.axes)
        return turned

    @lazy
    def extremes(self) -> tuple[int, int]:
        """The smallest and the largest of the codes of bf16 that are not 0, without signs."""
        sizes = self.codes.reshape(-1) & np.uint16(0x7FFF)
        sizes = sizes[sizes > 0]
        return (int(sizes.min()), int(sizes.max())) if sizes.size else (_ONE, _ONE)

    def values(self) -> Array:
        """The matrix in f32, [columns, inner]."""
        codes = self.carriers()
        if self.numbers is None:
            result = self._rounded(decode(codes, self.element_type).astype(np.float32))
        else:
            result = self.numbers[codes]
        with np.errstate(all="ignore"):  # infinite scales are the model's business
            if self.zero_points is not None:
                result = self._rounded(result - self.zero_points[:, :, np.newaxis])
            if self.scales is not None:
                result = self._rounded(result * self.scales[:, :, np.newaxis])
        return result.reshape(self.columns, self.inner)

    def _rounded(self, values: Array) -> Array:
        return values.astype(np.float16).astype(np.float32) if self.half else values


class CompressedLinear(Operation):
    """MatMul with weights as they are stored.

    `product` is the MatMul, which may transpose its second matrix. `numbers` is a type that has all
    numbers of the data: f32, or a narrower one to which they have been rounded.
    """

    multiplies = True
    type_name, opset = "CompressedLinear", 0
    data = Input(REAL, "T")
    output = Output("T")

    product = Field[Operation]()
    weights = Field[CompressedMatrix]()
    numbers = Field[ElementType]()

    def __init__(
        self,
        product: Operation,
        weights: CompressedMatrix,
        numbers: ElementType = ElementType.f32,
    ) -> None:
        super().__init__(product=product, weights=weights, numbers=numbers)

    @property
    def _transposed(self) -> bool:
        return bool(getattr(self.product, "transpose_b", False))

    def infer(self, data: TensorSpec) -> PartialShape:
        shape = (self.weights.columns, self.weights.inner)
        matrix = TensorSpec(
            ElementType.f32, PartialShape(shape if self._transposed else shape[::-1])
        )
        return self.product.describe([data, matrix])[0].shape

    def reference(self, data: Array) -> Array:
        matrix = self.weights.values()
        return np.asarray(self.product.reference(data, matrix if self._transposed else matrix.T))


class FusedCompressedLinear(FusedProduct):
    """A MatMul with weights as they are stored, and its epilogue."""

    type_name, opset = "FusedCompressedLinear", 0
