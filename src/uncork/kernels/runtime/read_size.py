"""A step that reads a size which a kernel has found."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.target import Target


class ReadSize(KernelSpec, frozen=True):
    """A step that binds a symbol to an element of a tensor: (address of the element, of the slot,
    of the version of sizes).
    """

    emitter: ClassVar[str] = "uncork.kernels.runtime.read_size:emit_read_size"
    element: str


def emit_read_size(spec: ReadSize, target: Target) -> str:
    """The LLVM text of the kernel."""
    from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel
    from uncork.kernels.runtime.emit_words import tell_size

    k = Kernel(spec.name, ("element", "slot", "version"), target)
    element, slot, version = k.arguments
    size = k.load(element, INDEX_TYPES[spec.element]).to(I64)
    tell_size(k, size, slot, version)
    k.finish()
    return k.text()
