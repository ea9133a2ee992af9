"""The numbers of kernels: how wide they are, in memory and in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir


@dataclass(frozen=True, slots=True)
class Type:
    """A number in memory and in registers: `bits` wide; `kind` is "float", "signed" or "unsigned"."""

    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def llvm(self) -> Any:
        if self.kind == "float":
            return {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}[self.bits]
        return _BrainFloat() if self.kind == "brain" else ir.IntType(self.bits)


F16, F32, F64 = (Type("float", b) for b in (16, 32, 64))
I8, I16, I32, I64 = (Type("signed", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Type("unsigned", b) for b in (8, 16, 32, 64))
BOOL = Type("unsigned", 1)
BF16 = Type("brain", 16)


class _BrainFloat(ir.Type):  # type: ignore[misc]
    """LLVM's `bfloat`, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BrainFloat)

    def __hash__(self) -> int:
        return hash(_BrainFloat)


#: Integer types by their element type's name.
INDEX_TYPES = {"i8": I8, "i16": I16, "i32": I32, "i64": I64, "u8": U8, "u16": U16, "u32": U32, "u64": U64}
