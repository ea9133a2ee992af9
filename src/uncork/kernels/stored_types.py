"""The names of the types by which kernels read elements from memory."""

from __future__ import annotations

from uncork.kernels.runtime.target import Target
from uncork.types import ElementType

_FLOATS = ("f16", "bf16", "f32", "f64")


def element_bytes(name: str) -> int:
    """The bytes of an element in memory."""
    return int(ElementType.parse(name).dtype.itemsize)


def stored_type(element_type: ElementType) -> str | None:
    """The type by which elements lie in memory, integers below a byte in one byte each; None where
    kernels do not read them.
    """
    if element_type.is_integer and element_type.bits < 8:
        return "i8" if element_type.kind == "signed" else "u8"
    readable = element_type.is_integer or element_type.name in (*_FLOATS, "boolean")
    return element_type.name if readable else None


def converted_type(element_type: ElementType, target: Target) -> str | None:
    """`stored_type`, but None also for f16 where the processor cannot convert it."""
    if element_type.name == "f16" and not converts_halves(target):
        return None
    return stored_type(element_type)


def converts_halves(target: Target) -> bool:
    """Whether the processor turns f16 into f32 by an instruction."""
    return not target.has("sse2") or target.has("f16c")


def multiplies_pairs(target: Target) -> bool:
    """Whether the processor multiplies pairs of bf16 and adds them in f32."""
    return target.has("avx512bf16") and target.lanes == 16
