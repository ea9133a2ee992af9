"""What a kernel that copies from one arrangement to another is specialised for, and its
arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: How many times, and bytes from one to the next in the source and in the target: three loops
#: around the numbers of f32 themselves.
LOOPS = 3
ARGUMENTS = (
    "source",
    "target",
    "cleared",
    "clear",
    *(f"{n}_{i}" for i in range(LOOPS + 1) for n in ("count", "from", "to")),
)


class StridedCopy(KernelSpec, frozen=True):
    """The spec of a strided copy."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_strided_copy:emit_strided_copy"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    lanes: int
