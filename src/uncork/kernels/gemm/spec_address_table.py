"""What the kernel that makes tables of places is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Loops of the kernel.
LOOPS = 4
#: The address of the table, the first place; of each loop its turns, and from one to the next the
#: bytes in the table and the place.
ARGUMENTS = ("table", "first", *(f"{n}_{i}" for i in range(LOOPS) for n in ("count", "step", "by")))


class AddressTable(KernelSpec, frozen=True):
    """The spec of the kernel that makes tables of addresses: there is only one."""

    emitter: ClassVar[str] = "uncork.kernels.gemm.emit_address_table:emit_address_table"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
