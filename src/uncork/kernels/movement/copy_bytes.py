"""Copying a run of bytes: results that are no step's own output."""

from __future__ import annotations

from uncork.kernels.runtime.kernel_cache import STORE

ARGUMENTS = ("source", "target", "bytes")


def copy_bytes() -> int:
    """The address of the kernel."""

    def make() -> str:
        from uncork.kernels.codegen.emit import U8, Kernel

        k = Kernel("copy_bytes", ARGUMENTS)
        source, target, count = k.arguments
        whole = count & -64
        with k.loop(0, whole, 64) as i:
            k.store(k.load(source + i, U8, 64), target + i)
        with k.loop(whole, count) as i:
            k.store(k.load(source + i, U8), target + i)
        k.finish()
        return k.text()

    return STORE.function("copy_bytes", "copy_bytes", make)
