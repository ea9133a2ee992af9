"""What a kernel that transposes blocks in registers is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Loops around the blocks; more axes than that are left to tables of copies.
LOOPS = 2
ARGUMENTS = (
    "source",
    "target",
    *(f"{n}_{i}" for i in range(LOOPS) for n in ("count", "from", "to")),
    "rows",
    "row",
    "columns",
    "column",
)


class TransposeBlocks(KernelSpec, frozen=True):
    """The spec of a transpose of blocks: rows and columns of a block."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_transpose:emit_transpose_blocks"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    side: int
    #: There may be fewer rows or columns than a block has.
    open: bool = False
