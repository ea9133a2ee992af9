"""The emitter of tables of addresses: four loops that write the place of each turn."""

from __future__ import annotations

from uncork.kernels.codegen.emit import Kernel, Value, emitter
from uncork.kernels.gemm.spec_address_table import LOOPS, AddressTable


@emitter
def emit_address_table(k: Kernel, spec: AddressTable) -> None:
    """The LLVM text of the kernel."""
    a = k.named

    def loops(depth: int, table: Value, place: Value) -> None:
        if depth == LOOPS:
            k.store(place, table)
            return
        with k.loop(0, a[f"count_{depth}"]) as i:
            loops(depth + 1, table + i * a[f"step_{depth}"], place + i * a[f"by_{depth}"])

    loops(0, a["table"], a["first"])
