"""A step that gives up unless a number of an input is the one that a program was made for."""

from __future__ import annotations

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
