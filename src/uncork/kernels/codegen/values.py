"""Numbers and vectors inside a kernel, and variables that hold them; see `emit.Kernel`, which makes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.halves import converts_halves, narrowed_half, widened_half
from uncork.kernels.codegen.scalar_types import BOOL, F16, F32, Type

if TYPE_CHECKING:
    from uncork.kernels.codegen.emit import Kernel


class Value:
    """A number, or a vector of numbers, inside a kernel. Arithmetic with Python numbers is by
    splats.
    """

    __slots__ = ("kernel", "lanes", "llvm", "type")

    def __init__(self, kernel: Kernel, llvm: ir.Ref, type_: Type, lanes: int = 1) -> None:
        self.kernel = kernel
        self.llvm = llvm
        self.type = type_
        self.lanes = lanes

    def _with(self, other: Value | int | float) -> ir.Ref:
        if isinstance(other, Value):
            return (
                other.llvm
                if other.lanes == self.lanes
                else self.kernel.splat(other, self.lanes).llvm
            )
        return self.kernel.constant(other, self.type, self.lanes).llvm

    def _same(self, llvm: ir.Ref) -> Value:
        return Value(self.kernel, llvm, self.type, self.lanes)

    def _arithmetic(self, name: str, other: Value | int | float) -> Value:
        prefix = "f" if self.type.kind == "float" else ""
        return self._binary(prefix + name, other)

    def _binary(self, word: str, other: Value | int | float) -> Value:
        return self._same(self.kernel.builder.binary(word, self.llvm, self._with(other)))

    def __add__(self, other: Value | int | float) -> Value:
        if isinstance(other, int) and other == 0 and self.type.kind != "float":
            return self
        return self._arithmetic("add", other)

    def __sub__(self, other: Value | int | float) -> Value:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Value | int | float) -> Value:
        if isinstance(other, int) and other == 1 and self.type.kind != "float":
            return self
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("fdiv", other)

    def __floordiv__(self, other: Value | int) -> Value:
        """Integer division that truncates, as the machine's. What is 0 divides like 1: sizes may
        be 0, and the machine ends the process.
        """
        if isinstance(other, Value):
            one = self.kernel.constant(1, other.type, other.lanes)
            other = self.kernel.select(other.equals(0), one, other)
        return self._binary("sdiv" if self.type.kind == "signed" else "udiv", other)

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._same(self.kernel.builder.xor(self.llvm, self._with(other)))

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        """Arithmetic for signed types, logical for unsigned."""
        return self._binary("ashr" if self.type.kind == "signed" else "lshr", other)

    def __neg__(self) -> Value:
        return (
            self._same(self.kernel.builder.fneg(self.llvm))
            if self.type.kind == "float"
            else self.kernel.constant(0, self.type, self.lanes) - self
        )

    def _compared(self, operator: str, other: Value | int | float) -> Value:
        compared = self.kernel.builder.compare(
            self.type.kind, operator, self.llvm, self._with(other)
        )
        return Value(self.kernel, compared, BOOL, self.lanes)

    def __lt__(self, other: Value | int | float) -> Value:
        return self._compared("<", other)

    def __le__(self, other: Value | int | float) -> Value:
        return self._compared("<=", other)

    def __gt__(self, other: Value | int | float) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: Value | int | float) -> Value:
        return self._compared(">=", other)

    def equals(self, other: Value | int | float) -> Value:
        return self._compared("==", other)

    def below(self, limit: Value) -> Value:
        """Whether 0 <= self < limit, by one unsigned comparison: negative numbers are huge ones
        there.
        """
        return Value(
            self.kernel,
            self.kernel.builder.icmp_unsigned("<", self.llvm, limit.llvm),
            BOOL,
            self.lanes,
        )

    def to(self, target: Type) -> Value:
        """The nearest number of another type; integers wrap, floats round to nearest even."""
        if target == self.type:
            return self
        llvm_type = target.llvm if self.lanes == 1 else ir.VectorType(target.llvm, self.lanes)
        source, wider = self.type.kind, target.bits > self.type.bits
        if source == target.kind == "float":
            if {self.type, target} == {F16, F32} and not converts_halves(self.kernel.target):
                return widened_half(self) if wider else narrowed_half(self)
            word = "fpext" if wider else "fptrunc"
        elif source == "float":
            word = "fptosi" if target.kind == "signed" else "fptoui"
        elif target.kind == "float":
            word = "sitofp" if source == "signed" else "uitofp"
        elif target.bits == self.type.bits:
            return Value(self.kernel, self.llvm, target, self.lanes)
        else:
            word = ("sext" if source == "signed" else "zext") if wider else "trunc"
        return Value(
            self.kernel, self.kernel.builder.convert(word, self.llvm, llvm_type), target, self.lanes
        )

    def part(self, first: int, lanes: int) -> Value:
        """Some consecutive lanes of a vector; one lane is a number."""
        builder = self.kernel.builder
        if lanes == self.lanes:
            return self
        if lanes == 1:
            return Value(
                self.kernel,
                builder.extract_element(self.llvm, ir.Constant(ir.IntType(32), first)),
                self.type,
            )
        picks = ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(first, first + lanes)))
        return Value(
            self.kernel,
            builder.shuffle_vector(self.llvm, ir.Constant(self.llvm.type, ir.Undefined), picks),
            self.type,
            lanes,
        )

    def bits_as(self, target: Type) -> Value:
        """The same bits read as another type of the same width."""
        llvm_type = target.llvm if self.lanes == 1 else ir.VectorType(target.llvm, self.lanes)
        return Value(
            self.kernel, self.kernel.builder.bitcast(self.llvm, llvm_type), target, self.lanes
        )


class Variable:
    """A value that changes, such as an accumulator. LLVM keeps it in a register."""

    __slots__ = ("_kernel", "_lanes", "_place", "_type")

    def __init__(self, kernel: Kernel, first: Value) -> None:
        self._kernel, self._type, self._lanes = kernel, first.type, first.lanes
        self._place = kernel.builder.alloca(first.llvm.type)
        self.set(first)

    def get(self) -> Value:
        return Value(self._kernel, self._kernel.builder.get(self._place), self._type, self._lanes)

    def set(self, value: Value) -> None:
        self._kernel.builder.set(self._place, value.llvm)


def pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """`count` numbers as (first, lanes): full vectors, then ever smaller powers of two."""
    result: list[tuple[int, int]] = []
    first = 0
    while first < count:
        while lanes > count - first:
            lanes //= 2
        result.append((first, lanes))
        first += lanes
    return result
