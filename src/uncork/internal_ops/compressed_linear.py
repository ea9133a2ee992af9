"""Internal operation: a matrix product with weights as they are stored.

Passes make it of a product whose matrix other layers compute from small numbers.

    Const (f16, bf16, f8e4m3, f8e5m2, i8, u8, i4, u4) -> Convert, or a table of numbers
        -> Subtract (zero points) -> Multiply (scales) -> Reshape -> Convert -> MatMul

The matrix is never made. The meaning is that of the layers one after the other, each result rounded
to its type. Of experts there are several matrices, all of which multiply, or those that a Gather
chooses.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.concurrency import lazy
from uncork.internal_ops.bit_planes import BIT_PLANES
from uncork.internal_ops.codes import Codes
from uncork.internal_ops.decompression import Step, numbers_of
from uncork.internal_ops.fused import FusedProduct
from uncork.ops._operation import OfReals, Operation
from uncork.ops._ports import INTEGER, Field, Input
from uncork.storage import decode, unpack
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: What a caller may round the data of products to: f32 is kept, i16 and i8 are whole numbers of so
#: many bytes, of which the largest number of a run is the largest.
ACTIVATION_BYTES = {"f32": 3, "i16": 2, "i8": 1}
#: The code of 1 in bf16.
_ONE = 0x3F80
#: Numbers of a run where scales do not say it: sums of more are no longer exact in f32.
_RUN, _MOST = 256, 512
#: The shortest run, which the numbers of one byte have.
_LEAST = 32
#: The largest number of a run has to be between these, or 0, or the row is not rounded.
_SMALLEST, _LARGEST = 2.0**-60, 2.0**60


class CompressedMatrix(Struct, frozen=True, eq=False, dict=True):
    """A matrix of f32 [columns, inner] as it is stored: `(codes - zero_points) * scales`, each step
    in f32, or rounded to f16 with `half`; then the steps that are `later`.

    `codes` are carrier values [columns, groups, size of a group], in the order of `axes` as they
    are stored, or with `packed`, which is that shape, the bytes of `model.bin`, or (`planes`) a row
    of bit planes for each column. `zero_points` and
    `scales` are [columns or 1, groups or 1], of f32 or of a type (u8, f16,
    `POWERS`) that holds the same numbers in fewer bytes; None where the layers have no such step.
    `numbers` f32 [16 or more] are what codes below that stand for, where that is not themselves.

    Of a `stack` of several matrices the columns follow each other, a matrix after the other.
    """

    element_type: ElementType
    codes: Array
    axes: tuple[int, int, int]
    zero_points: Array | None = None
    scales: Array | None = None
    half: bool = False
    packed: tuple[int, ...] | None = None
    numbers: Array | None = None
    stack: int = 1
    later: tuple[Step, ...] = ()
    planes: bool = False

    @property
    def operands(self) -> list[Array]:
        """The zero points and scales that there are."""
        given = (self.zero_points, self.scales, *(step.operand for step in self.later))
        return [array for array in given if array is not None]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape: columns of all matrices, groups, and size of a group."""
        sizes = self.packed or self.codes.shape
        return sizes[self.axes[0]], sizes[self.axes[1]], sizes[self.axes[2]]

    @property
    def columns(self) -> int:
        """The columns of a matrix."""
        return self.shape[0] // self.stack

    @property
    def inner(self) -> int:
        return self.shape[1] * self.shape[2]

    @property
    def read_as(self) -> ElementType:
        """The type of the codes that kernels compute with."""
        return BIT_PLANES[self.element_type].wide if self.planes else self.element_type

    def rounded_together(self, activations: str = "f32") -> int:
        """The numbers of a row of the data that are whole multiples of one unit where they are
        rounded: a group, or a part of one; 0 where groups are not made of such runs.
        """
        group = self.shape[2] if any(array.shape[1] > 1 for array in self.operands) else 0
        if group % _LEAST:
            return 0
        if activations == "i8":
            return _LEAST
        if not group or group > _MOST:
            return 0 if group % _RUN else _RUN
        return group

    @property
    def can_be_cut(self) -> bool:
        """Whether some columns are a matrix of the same kind."""
        return self.stack == 1 and self.packed is None and not self.planes

    def cut(self, columns: slice) -> CompressedMatrix:
        """Some columns as a matrix, whose codes are where they were."""
        assert self.can_be_cut, "a matrix whose columns are no elements of an axis"

        def own(operand: Array | None) -> Array | None:
            return operand if operand is None or len(operand) == 1 else operand[columns]

        codes = np.moveaxis(np.moveaxis(self.codes, self.axes[0], 0)[columns], 0, self.axes[0])
        return replace(
            self,
            codes=codes,
            zero_points=own(self.zero_points),
            scales=own(self.scales),
            later=tuple(replace(step, operand=own(step.operand)) for step in self.later),
        )

    def carriers(self) -> Array:
        """The codes as carrier values [columns, groups, size of a group], which are not kept."""
        codes = self.codes
        if self.planes:
            codes = BIT_PLANES[self.element_type].unpacked(codes, self.inner).reshape(self.shape)
        elif self.packed is not None:
            count = math.prod(self.packed)
            codes = unpack(codes.data, self.element_type, count).reshape(self.packed)
        return np.asarray(codes.transpose(self.axes))

    def in_columns(self) -> Array:
        """The codes [columns, groups, size of a group], those of 4 bits packed: a copy."""
        codes = Codes(self.element_type, self.codes, self.packed is not None)
        made = codes.laid(self.packed or self.codes.shape, self.axes)
        return made.array if made.packed else made.array.reshape(self.shape)

    @lazy
    def extremes(self) -> tuple[int, int]:
        """The smallest and the largest of the codes of bf16 that are not 0, without signs."""
        sizes = self.codes.reshape(-1) & np.uint16(0x7FFF)
        sizes = sizes[sizes > 0]
        return (int(sizes.min()), int(sizes.max())) if sizes.size else (_ONE, _ONE)

    def values(self) -> Array:
        """The matrix in f32, [columns of all matrices, inner]."""
        return self.some(0, self.shape[0])

    def some(self, first: int, end: int) -> Array:
        """Some columns of it."""

        def given(operand: Array) -> Array:
            return (
                operand[first:end, :, np.newaxis] if len(operand) > 1 else operand[:, :, np.newaxis]
            )

        codes = self.carriers()[first:end]
        if self.numbers is None:
            result = self._rounded(decode(codes, self.element_type).astype(np.float32))
        else:
            result = self.numbers[codes]
        with np.errstate(all="ignore"):  # infinite scales are the model's business
            if self.zero_points is not None:
                result = self._rounded(result - given(self.zero_points))
            if self.scales is not None:
                result = self._rounded(result * numbers_of(given(self.scales)))
        for step in self.later:
            result = step.applied(result, given(step.operand))
        return result.reshape(len(codes), self.inner)

    def _rounded(self, values: Array) -> Array:
        return values.astype(np.float16).astype(np.float32) if self.half else values


def most_of(count: int) -> float:
    """The largest whole number of so many bytes: with those below it, it has signed ones."""
    return 127.0 * 256.0 ** (count - 1)


def rounded_rows(data: Array, run: int, count: int) -> Array:
    """Rows of f32 whose runs are whole multiples of their units, which are told by their largest
    numbers, of so many bytes.

    A row with a run whose largest number is no finite one, or one of 2**-60 or 2**60 and beyond,
    is as it was.
    """
    inner = data.shape[-1]
    padded = np.zeros((*data.shape[:-1], -(-inner // run) * run), np.float32)
    padded[..., :inner] = data
    runs = padded.reshape(*data.shape[:-1], -1, run)
    limit = np.abs(runs).max(axis=-1, keepdims=True)
    usual = (limit == 0) | ((limit >= _SMALLEST) & (limit <= _LARGEST))
    most = np.float32(most_of(count))
    limit = np.where((limit == 0) | ~usual, most, limit)
    with np.errstate(all="ignore"):
        whole = np.rint(runs * (most / limit)) * (limit * np.float32(1 / most))
    rows = usual.all(axis=(-2, -1), keepdims=True)
    return np.asarray(np.where(rows, whole, runs).reshape(padded.shape)[..., :inner])


class CompressedLinear(OfReals):
    """MatMul with weights as they are stored: all matrices of a stack, or those that `chosen` says,
    as the Gather along the first axis does that is `choice`.

    `product` is the MatMul, which may transpose its second matrix; `lead` are the first dimensions
    of what it multiplies by. `numbers` is a type that has all
    numbers of the data: f32, or a narrower one to which they have been rounded. `activations` is
    what the data are rounded to, where the matrix has runs: f32, i16 or i8.
    """

    multiplies = True
    chosen = Input(INTEGER, optional=True)

    product = Field[Operation]()
    weights = Field[CompressedMatrix]()
    numbers = Field(ElementType.f32)
    activations = Field("f32")
    lead = Field[tuple[int, ...]](())
    choice = Field[Operation | None](None)

    @property
    def _transposed(self) -> bool:
        return bool(getattr(self.product, "transpose_b", False))

    def infer(self, data: TensorSpec, chosen: TensorSpec | None = None) -> PartialShape:
        shape = (self.weights.columns, self.weights.inner)
        matrix = TensorSpec(
            ElementType.f32,
            PartialShape((*self.lead, *(shape if self._transposed else shape[::-1]))),
        )
        return self.product.describe([data, matrix])[0].shape

    def reference(self, data: Array, chosen: Array | None = None) -> Array:
        weights, run = self.weights, self.weights.rounded_together(self.activations)
        if self.activations != "f32" and run and data.size:
            data = rounded_rows(data, run, ACTIVATION_BYTES[self.activations])
        matrix = weights.values().reshape(weights.stack, weights.columns, weights.inner)
        if self.choice is not None:
            matrix = np.asarray(self.choice.reference(matrix, chosen, np.array(0), np.float32(0)))
        matrix = matrix.reshape(*self.lead, *matrix.shape[-2:])
        turned = matrix if self._transposed else matrix.swapaxes(-1, -2)
        return np.asarray(self.product.reference(data, turned))


class FusedCompressedLinear(FusedProduct):
    """A MatMul with weights as they are stored, and its epilogue."""
