"""Steps that give up: unless a number of an input is the one that a program was made for, or unless a file is still whole."""

from __future__ import annotations

import os
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


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A step that looks at the size of an open file: (the C library's `lseek`, file, least size)."""

    emitter: ClassVar[str] = "uncork.kernels.runtime.value_guard:emit_whole_file"

    @property
    def name(self) -> str:
        return "whole_file"


def emit_whole_file(spec: WholeFile, target: Target) -> str:
    """The LLVM text of the kernel."""
    from uncork.kernels.codegen.emit import Kernel

    k = Kernel(spec.name, ("lseek", "file", "size"), target)
    lseek, file, size = k.arguments
    k.stop_unless(k.call_address(lseek, [file, k.integer(0), k.integer(os.SEEK_END)]) >= size, k.integer(1))
    k.finish()
    return k.text()
