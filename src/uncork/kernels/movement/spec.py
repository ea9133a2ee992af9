"""What kernels that move values are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import OPEN, KernelSpec
from uncork.kernels.names import flags

#: The item of a kernel for long items, of so many bytes and more: how long comes as an argument.
LONG, LONG_BYTES = -2, 2048


class Gather(KernelSpec, frozen=True):
    """The spec of a gather kernel."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_gather:emit_gather"
    #: `count` indices for each of `batches`; `positions` is room for `count` 32-bit numbers
    #: ("columns" only). In place of that room come the bytes of an item where they are open or
    #: long.
    arguments: ClassVar[tuple[str, ...]] = (
        "data", "indices", "output", "batches", "outer", "size", "count", "positions",
    )  # fmt: skip
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


class NdCopy(KernelSpec, frozen=True):
    """The spec of a strided copy: loops around a copy of a run of bytes (`OPEN`: an argument says
    how many).

    `step` is that of the innermost loop in the source, in runs, where its runs are single elements
    that follow each other in the target, and vectors may pick them. 1 is any other copy.
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_nd_copy"
    loops: int
    run: int
    step: int = 1

    @property
    def name(self) -> str:
        run = "open" if self.run == OPEN else self.run
        way = {1: "", 0: "_spread", -1: "_reversed"}.get(
            self.step, f"_every_{self.step}" if self.step > 0 else f"_back_{-self.step}"
        )
        return f"nd_copy_{self.loops}_{run}{way}" if self.loops else f"nd_copy_{run}"

    @property
    def arguments(self) -> list[str]:
        """Addresses, then count and strides of each loop, outermost first, then the bytes of a
        run.
        """
        loops = [f"{name}_{i}" for i in range(self.loops) for name in ("count", "source", "target")]
        return ["source", "target", *loops, "run"]


#: A copy of one run of bytes.
COPY_BYTES = NdCopy(0, OPEN)


class FillBytes(KernelSpec, frozen=True):
    """The spec of a fill with one value of `element` bytes (0: with zeros); the arguments are the
    value's address, the target, and the `count` of bytes.
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_fill_bytes"
    arguments: ClassVar[tuple[str, ...]] = ("value", "target", "count")
    element: int


class CopyTable(KernelSpec, frozen=True):
    """The spec of a copy by a table: bytes of a run, and whether the runs of the target follow each
    other.
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_copy_table"
    arguments: ClassVar[tuple[str, ...]] = ("source", "target", "sources", "targets", "count")
    run: int
    in_order: bool


#: Loops around the blocks; more axes than that are left to tables of copies.
BLOCK_LOOPS = 2
_BLOCK_ARGUMENTS = (
    "source",
    "target",
    *(f"{n}_{i}" for i in range(BLOCK_LOOPS) for n in ("count", "from", "to")),
    "rows",
    "row",
    "columns",
    "column",
)


class TransposeBlocks(KernelSpec, frozen=True):
    """The spec of a transpose of blocks: rows and columns of a block."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_transpose:emit_transpose_blocks"
    arguments: ClassVar[tuple[str, ...]] = _BLOCK_ARGUMENTS
    side: int
    #: There may be fewer rows or columns than a block has.
    open: bool = False
