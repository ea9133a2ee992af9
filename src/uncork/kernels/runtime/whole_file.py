"""A step that gives up unless a file is still whole."""

from __future__ import annotations

import os
from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.target import Target


class WholeFile(KernelSpec, frozen=True):
    """A step that looks at the size of an open file: (the C library's `lseek`, file, least
    size).
    """

    emitter: ClassVar[str] = "uncork.kernels.runtime.whole_file:emit_whole_file"


def emit_whole_file(spec: WholeFile, target: Target) -> str:
    """The LLVM text of the kernel."""
    from uncork.kernels.codegen.emit import Kernel

    k = Kernel(spec.name, ("lseek", "file", "size"), target)
    lseek, file, size = k.arguments
    k.stop_unless(
        k.call_address(lseek, [file, k.integer(0), k.integer(os.SEEK_END)]) >= size, k.integer(1)
    )
    k.finish()
    return k.text()
