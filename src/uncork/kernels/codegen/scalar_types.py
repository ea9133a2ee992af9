"""The scalar types of kernels: their widths in memory and in registers."""

from __future__ import annotations

import functools

from msgspec import Struct

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.llvm_types import LLVMType


class Type(Struct, frozen=True):
    """A number in memory and in registers: `bits` wide; `kind` is "float", "signed" or
    "unsigned".
    """

    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def llvm(self) -> LLVMType:
        """LLVM's type."""
        return _llvm(self)


@functools.cache
def _llvm(type_: Type) -> LLVMType:
    if type_.kind == "float":
        return {16: ir.Half, 32: ir.Single, 64: ir.Double}[type_.bits]
    return ir.BrainFloat if type_.kind == "brain" else ir.IntType(type_.bits)


F16, F32, F64 = (Type("float", b) for b in (16, 32, 64))
I8, I16, I32, I64 = (Type("signed", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Type("unsigned", b) for b in (8, 16, 32, 64))
BOOL = Type("unsigned", 1)
BF16 = Type("brain", 16)


#: Integer types by their element type's name.
INDEX_TYPES = {
    "i8": I8,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "u8": U8,
    "u16": U16,
    "u32": U32,
    "u64": U64,
}
