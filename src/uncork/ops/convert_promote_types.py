"""ConvertPromoteTypes-14: two tensors converted to the element type that holds the values of both.

Page: operation-specs/type/convert-promote-types-14. In order:

- boolean gives way to any other type, integers to floats;
- with pytorch_scalar_promotion, of two floats or two integers a scalar gives way to a tensor;
- a signed and an unsigned integer: signed, with at least twice the bits of the unsigned one;
  `u64_integer_promotion_target` where that would be 128 bits;
- else the wider type; f16 of the two f8 types, f32 of f16 and bf16.

Without promote_unsafe a type must not change to one that is no input's (the page: "bit widening"),
an integer needs a float of twice its bits, and a scalar a tensor whose range includes its own.
(OpenVINO takes scalars of twice the bits of the tensor.)

Types of outputs must not change after loading: an input whose rank is not known then counts as a
tensor. The values are converted as by Convert-1.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.errors import ValidationError
from uncork.ops._operation import Operation, register
from uncork.ops._ports import Attribute, Field, Input, Output, boolean, element_type
from uncork.ops.convert import Convert1, convert_to
from uncork.types import ElementType, TensorSpec

_NAMES = "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 i4 u64 u32 u16 u8 u4 u1 boolean"
_TYPES = frozenset(map(ElementType.parse, _NAMES.split()))
#: Bits of the exponent: they give a float its range.
_EXPONENT = {"f64": 11, "f32": 8, "bf16": 8, "f16": 5, "f8e5m2": 5, "f8e4m3": 4}
_SIGNED = {t.bits: t for t in _TYPES if t.kind == "signed"}


@register("ConvertPromoteTypes", 14)
class ConvertPromoteTypes14(Operation):
    """`input_0` and `input_1` of any shapes -> both in their common type."""

    strict_on_constants = False
    input_0 = Input(_TYPES)
    input_1 = Input(_TYPES)
    output_0 = Output()
    output_1 = Output()
    promote_unsafe = Attribute(boolean, default=False)
    pytorch_scalar_promotion = Attribute(boolean, default=False)
    u64_integer_promotion_target = Attribute(element_type, default=ElementType.f32)

    #: Both types of the inputs, and the type that they become: what holds at load holds for every
    #: call, whatever the ranks turn out to be.
    decided = Field[tuple[ElementType, ElementType, ElementType] | None](None)

    def specialised(self, specs: Sequence[TensorSpec | None]) -> Operation:
        if self.decided is not None or len(specs) != 2:
            return self
        a, b = specs
        if a is None or b is None or not {a.element_type, b.element_type} <= _TYPES:
            return self
        try:
            common = self.common_type(a, b)
        except ValidationError:
            return self  # which `infer` says with the layer's name
        return self.replace(decided=(a.element_type, b.element_type, common))

    def infer(self, input_0: TensorSpec, input_1: TensorSpec) -> list[TensorSpec]:
        common = self.common_type(input_0, input_1)
        return [TensorSpec(common, spec.shape) for spec in (input_0, input_1)]

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        convert, both = self.converts(specs)
        return tuple(convert.describe([spec])[0] for spec in both)

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        convert, both = self.converts(specs)
        return tuple(convert.evaluate([spec])[0] for spec in both)

    def converts(self, specs: Sequence[TensorSpec | None]) -> tuple[Convert1, list[TensorSpec]]:
        """The Convert that both inputs go through."""
        both = [spec for spec in self._bind(specs) if spec is not None]
        return convert_to(self.common_type(*both), self.strict), both

    def common_type(self, input_0: TensorSpec, input_1: TensorSpec) -> ElementType:
        """The type that both become."""
        a, b = input_0.element_type, input_1.element_type
        if self.decided is not None and self.decided[:2] == (a, b):
            return self.decided[2]
        return self.decide(a, b, input_0.rank == 0, input_1.rank == 0)

    def decide(
        self, a: ElementType, b: ElementType, a_is_scalar: bool, b_is_scalar: bool
    ) -> ElementType:
        if a is b or b is ElementType.boolean:
            return a
        if a is ElementType.boolean:
            return b
        if a.is_float != b.is_float:
            real, whole = (a, b) if a.is_float else (b, a)
            return self.safe(real, real.bits >= 2 * whole.bits, a, b)
        if self.pytorch_scalar_promotion and a_is_scalar != b_is_scalar:
            scalar, tensor = (a, b) if a_is_scalar else (b, a)
            return self.safe(tensor, _includes(tensor, scalar), a, b)
        if a.kind != b.kind:
            signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
            if unsigned.bits == 64:
                return self.safe(self.u64_integer_promotion_target, False, a, b)
            common = _SIGNED[max(signed.bits, 2 * unsigned.bits)]
            return self.safe(common, common is signed, a, b)
        if a.bits != b.bits:
            return a if a.bits > b.bits else b
        return self.safe(ElementType.f16 if a.bits == 8 else ElementType.f32, False, a, b)

    def safe(
        self, common: ElementType, is_safe: bool, a: ElementType, b: ElementType
    ) -> ElementType:
        self.require(
            self.promote_unsafe or is_safe,
            "promote_unsafe is false and {} is no safe common type of {} and {}",
            common,
            a,
            b,
        )
        return common


def _includes(wide: ElementType, narrow: ElementType) -> bool:
    """Whether the range of one float or integer type includes that of another."""
    if wide.is_float:
        return wide.bits >= narrow.bits and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return wide.kind == "signed" and wide.bits > narrow.bits
