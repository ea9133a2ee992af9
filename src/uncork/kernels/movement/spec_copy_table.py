"""What a kernel that copies runs of bytes by a table is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class CopyTable(KernelSpec, frozen=True):
    """The spec of a copy by a table: bytes of a run, and whether the runs of the target follow each
    other.
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_copy_table:emit_copy_table"
    arguments: ClassVar[tuple[str, ...]] = ("source", "target", "sources", "targets", "count")
    run: int
    in_order: bool
