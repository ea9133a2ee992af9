"""The emitter of copies by a table: runs of bytes, where from and where to."""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, Kernel, emitter
from uncork.kernels.movement.emit_gather import copy
from uncork.kernels.movement.spec import CopyTable


@emitter
def emit_copy_table(k: Kernel, spec: CopyTable) -> None:
    """The LLVM text of a kernel of copies by tables, which hold offsets in bytes."""
    source, target, sources, targets, count = k.arguments
    with k.loop(0, count) as i:
        begin = k.load(sources + i * 4, I32).to(I64)
        place = i * spec.run if spec.in_order else k.load(targets + i * 4, I32).to(I64)
        copy(k, source + begin, target + place, spec.run)
