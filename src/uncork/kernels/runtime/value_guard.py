"""A step that gives up unless a number of an input is the one that a program was made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from uncork.kernels.runtime.target import Target

ARGUMENTS = ("address", "expected")


@dataclass(frozen=True, slots=True)
class ValueGuard:
    """What the kernel is specialised for: the type of the number."""

    emitter: ClassVar[str] = "uncork.kernels.runtime.value_guard:emit_guard"
    element_type: str

    @property
    def name(self) -> str:
        return f"expect_{self.element_type}"


def emit_guard(spec: ValueGuard, target: Target) -> str:
    """The LLVM text of the kernel."""
    from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel

    k = Kernel(spec.name, ARGUMENTS, target)
    address, expected = k.arguments
    k.stop_unless(k.load(address, INDEX_TYPES[spec.element_type]).to(I64).equals(expected), k.integer(1))
    k.finish()
    return k.text()
