"""Zero points and scales as kernels read them, and the steps that they are for."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.codegen.emit import F16, F32, I32, U8, U16, Kernel, Value
from uncork.kernels.codegen.scalar_types import Type
from uncork.kernels.elementwise.emit import widened
from uncork.kernels.steps import SHARED, WHOLE, StepSpec


class Operand(Struct, frozen=True):
    """The zero points or the scales of a column: where they begin, and their kind, which is nothing
    where there are none.
    """

    begin: Value
    kind: str

    def __bool__(self) -> bool:
        return bool(self.kind)

    @property
    def type_(self) -> Type:
        """The type in which they lie."""
        return {"f32": F32, "f16": U16, "u8": U8, "f8e8m0": U8}[self._name]

    @property
    def _name(self) -> str:
        return self.kind.partition("_")[0]

    @property
    def of_columns(self) -> bool:
        """Whether each column has its own."""
        return SHARED not in self.kind

    @property
    def of_groups(self) -> bool:
        """Whether each group of a column has its own."""
        return WHOLE not in self.kind

    def of_column(self, number: Value, groups: Value) -> Operand:
        """Those of the column that is so many columns behind this one, each of so many groups."""
        if not self.kind or not self.of_columns:
            return self
        after = number * groups if self.of_groups else number
        return replace(self, begin=self.begin + after * self.type_.bytes)

    def at(self, k: Kernel, group: Value | int = 0, lanes: int = 1) -> Value:
        """Those of some groups that follow each other, as f32."""
        return self._wide(k, k.load(self._address(group), self.type_, lanes))

    def everywhere(self, k: Kernel, group: Value | int, lanes: int) -> Value:
        """That of a group in all lanes, as f32."""
        # The vector is widened: a single f16 would be put into a register of something else, and
        # wait for that.
        return self._wide(k, k.splat(k.load(self._address(group), self.type_), lanes))

    def some(self, k: Kernel, group: Value, mask: Value) -> Value:
        """Those of the groups in a mask, as f32; 0 for the others."""
        return self._wide(k, k.load(self._address(group), self.type_, mask.lanes, mask))

    def _address(self, group: Value | int) -> Value:
        return self.begin + group * self.type_.bytes

    def _wide(self, k: Kernel, value: Value) -> Value:
        if self.type_ == U16:
            return widened(k, "f16", value)
        if self._name == "f8e8m0":  # the exponent of an f32
            return (value.to(I32) << 23).bits_as(F32)
        return value.to(I32).to(F32) if self.type_ == U8 else value


def stepped(value: Value, step: StepSpec, operand: Value) -> Value:
    """Numbers after a step."""
    value = value - operand if step.subtracts else value * operand
    return value.to(F16).to(F32) if step.rounds else value
