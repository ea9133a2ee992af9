"""The names of the types by which kernels read elements from memory, and the steps that they take
with what is stored in few bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.internal_ops.decompression import POWERS, Step
from uncork.kernels.runtime.target import Target
from uncork.kernels.steps import SHARED, WHOLE, StepSpec
from uncork.types import Array, ElementType

_FLOATS = ("f16", "bf16", "f32", "f64")
#: Floats of a byte whose bits are some of those of f16.
FLOATS_OF_A_BYTE = frozenset({"f8e4m3", "f8e5m2"})


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


def multiplies_pairs(target: Target) -> bool:
    """Whether the processor multiplies pairs of bf16 and adds them in f32."""
    return target.has("avx512bf16") and target.lanes == 16


def type_of(operand: Array | None) -> str:
    """The type in which kernels read zero points or scales; nothing where there are none."""
    if operand is None:
        return ""
    if operand.dtype == POWERS:
        return ElementType.f8e8m0.name
    return f"{operand.dtype.kind}{operand.dtype.itemsize * 8}"


def kind_of(operand: Array | None) -> str:
    """The type of zero points or scales that stay as they are, and along what they vary."""
    if operand is None:
        return ""
    columns, groups = map(int, operand.shape)
    return type_of(operand) + SHARED * (columns == 1) + WHOLE * (groups == 1)


def steps_of(steps: Sequence[Step]) -> tuple[StepSpec, ...]:
    """What kernels are specialised for of steps whose operands stay as they are."""
    return tuple(StepSpec(kind_of(s.operand), s.subtracts, s.rounds) for s in steps)


def laid_out(operand: Array, kind: str) -> Array:
    """An operand as kernels read it of this kind, one number after the other."""
    lying = operand["exponent"] if operand.dtype == POWERS else operand
    return np.ascontiguousarray(lying, ElementType.parse(kind.partition("_")[0]).dtype)
