"""Convert-1, ConvertLike-1: the same values in another element type.

Pages: operation-specs/type/convert-1, convert-like-1. What they leave open, for every pair of types
but strings:

- to a float: rounded to nearest, ties to even; beyond the range as the type has it (see
  `storage.encode`);
- integer to integer: modulo 2**bits of the new type, u1 included; with `strict` a number that the
  new type does not have is refused (constants of the model are left alone);
- float to integer: the fraction is cut off. Values that fit 32 bits (64 bits for i64 and u64) are
  then taken modulo 2**bits; all others, NaN and infinities become the pattern with the highest of
  those bits alone set, -2**31 for i32, as processors and OpenVINO have it. A negative value counts
  as fitting u32 and u64 when it fits i32 and i64;
- to boolean: everything but 0 is true, NaN too; from boolean: 0 and 1;
- from and to strings: not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.errors import UnsupportedError
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, Attribute, Input, Output, element_type
from uncork.ops._size_arithmetic import certainly_at_least, computed, equal, fits, negated, whole
from uncork.symbolic import Size
from uncork.types import Array, Element, ElementType, PartialShape, TensorSpec


@register("Convert", 1)
class Convert1(Operation):
    """`data` of any shape -> the same shape of `destination_type`."""

    elementwise = True
    strict_on_constants = False
    data = Input(ANY)
    output = Output()
    destination_type = Attribute(element_type)

    def infer(self, data: TensorSpec) -> TensorSpec:
        if ElementType.string in (data.element_type, self.destination_type):
            raise UnsupportedError(
                f"conversion from {data.element_type} to {self.destination_type} is not supported"
            )
        return TensorSpec(self.destination_type, data.shape)

    def reference(self, data: Array) -> Array:
        if self.destination_type is ElementType.boolean:
            return np.not_equal(data, 0)
        if data.dtype.kind == "f" and self.destination_type.is_integer:
            return truncated(data, self.destination_type)
        if self.strict and data.dtype.kind in "iu" and self.destination_type.is_integer:
            self._refuse_changes(data)
        return data  # rounded or wrapped where the result is stored

    def _refuse_changes(self, data: Array) -> None:
        """Refuse integers that the new type does not have."""
        given, (low, high) = np.iinfo(data.dtype), limits(self.destination_type)
        wrong = np.zeros(data.shape, bool)
        if given.min < low:  # else the bound may not be a number of the array's type
            wrong |= data < low
        if given.max > high:
            wrong |= data > high
        expected = f"{low} to {high}, the numbers of {self.destination_type}"
        refuse_first(self, "data", data, wrong, expected, low, high)

    def of_sizes(self, source: ElementType, x: Size) -> Element:
        if self.destination_type is ElementType.boolean:
            return negated(equal(source, x, Size.of(0)))
        if self.destination_type.is_integer and source.is_float:
            return whole(source, x) if certainly_at_least(x, 0) else None  # the fraction is cut off
        return computed(self.destination_type, x) if fits(self.destination_type, x) else None


@register("ConvertLike", 1)
class ConvertLike1(Operation):
    """Convert to the element type of `like`, whose values and shape do not matter."""

    strict_on_constants = False
    data = Input(ANY)
    like = Input(ANY)
    output = Output()

    def convert(self, specs: Sequence[TensorSpec | None]) -> tuple[Convert1, TensorSpec]:
        """The Convert operation that this one stands for, and the spec of its input."""
        data, like = self._bind(specs)
        assert data is not None
        assert like is not None
        return convert_to(like.element_type, self.strict), data

    def infer(self, data: TensorSpec, like: TensorSpec) -> PartialShape | TensorSpec:
        return self.convert([data, like])[0].infer(data)

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        operation, data = self.convert(specs)
        return operation.describe([data])

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        operation, data = self.convert(specs)
        return operation.evaluate([data])


def convert_to(destination: ElementType, strict: bool) -> Convert1:
    """The Convert operation to an element type."""
    return Convert1(destination_type=destination, strict=strict)


def limits(element_type: ElementType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    count = 2**element_type.bits
    return (-count // 2, count // 2 - 1) if element_type.kind == "signed" else (0, count - 1)


def keeps_integers(source: ElementType, destination: ElementType) -> bool:
    """Whether integer type `destination` has every number of integer type `source`."""
    (low, high), (least, most) = limits(source), limits(destination)
    return least <= low and high <= most


def truncated(data: Array, destination: ElementType) -> Array:
    """Floats as integers of at least 32 bits, by the rule in the module's docstring; the caller
    takes the low bits.
    """
    bits = max(destination.bits, 32)
    whole = np.trunc(data.astype(np.float64))
    low, half = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    signed = (whole >= low) & (whole < half)
    result = np.where(signed, whole, low).astype(np.int64)
    if destination.kind == "unsigned" and destination.bits >= 32:
        upper = (whole >= half) & (whole < 2.0**bits)
        # -half and +half are the same bits, so the lower half is added to a pattern that is there
        # already.
        result = np.where(
            upper, np.where(upper, whole - half, 0).astype(np.int64) + np.int64(low), result
        )
    return result
