"""Steps that give up: unless a number of an input is the one that a program was made for, or unless a file is still whole."""

from __future__ import annotations

import os

from uncork.kernels.runtime.kernel_cache import STORE

ARGUMENTS = ("address", "expected")


def expecting(type_name: str) -> int:
    """The address of the kernel for numbers of this type."""
    name = f"expect_{type_name}"

    def make() -> str:
        from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel

        k = Kernel(name, ARGUMENTS)
        address, expected = k.arguments
        k.stop_unless(k.load(address, INDEX_TYPES[type_name]).to(I64).equals(expected), k.integer(1))
        k.finish()
        return k.text()

    return STORE.function(name, name, make)


def whole_file() -> int:
    """The address of the kernel that looks at the size of an open file: (the C library's `lseek`, file, least size)."""
    name = "whole_file"

    def make() -> str:
        from uncork.kernels.codegen.emit import Kernel

        k = Kernel(name, ("lseek", "file", "size"))
        lseek, file, size = k.arguments
        k.stop_unless(k.call_address(lseek, [file, k.integer(0), k.integer(os.SEEK_END)]) >= size, k.integer(1))
        k.finish()
        return k.text()

    return STORE.function(name, name, make)
