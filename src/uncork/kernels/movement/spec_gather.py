"""What a gather kernel is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import OPEN, KernelSpec
from uncork.kernels.names import flags

#: The item of a kernel for long items, of so many bytes and more: how long comes as an argument.
LONG, LONG_BYTES = -2, 2048


class Gather(KernelSpec, frozen=True):
    """The spec of a gather kernel."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_gather:emit_gather"
    item: int
    index: str
    #: A negative index counts from the end of the axis.
    wraps: bool
    strict: bool = False
    layout: str = "rows"
    #: Stores that pass the caches by, for outputs that are large; items must be multiples of 64
    #: bytes.
    streaming: bool = False

    @property
    def name(self) -> str:
        item = {OPEN: "open", LONG: "long"}.get(self.item, self.item)
        return f"gather_{self.layout}_{item}_{self.index}" + flags(
            self, "wraps", "strict", "streaming"
        )

    @property
    def arguments(self) -> list[str]:
        """`count` indices for each of `batches`; `positions` is room for `count` 32-bit numbers
        ("columns" only).

        In place of that room come the bytes of an item where they are open or long.
        """
        return ["data", "indices", "output", "batches", "outer", "size", "count", "positions"]
