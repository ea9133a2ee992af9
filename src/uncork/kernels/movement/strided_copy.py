"""Copying numbers from one arrangement of up to four dimensions to another, into memory that is cleared before if need be.

It is how kernels lay out their data in their working memory; no operation has it for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.select import KernelCall, Operand

#: How many times, and bytes from one to the next in the source and in the target: three loops around the numbers of f32 themselves.
LOOPS = 3
ARGUMENTS = ("source", "target", "cleared", "clear", *(f"{n}_{i}" for i in range(LOOPS + 1) for n in ("count", "from", "to")))


@dataclass(frozen=True, slots=True)
class Place:
    """What the kernel is specialised for."""

    lanes: int

    @property
    def name(self) -> str:
        return f"place_{self.lanes}"


def placing(
    lanes: int, source: Operand, target: Operand, loops: Sequence[tuple[int, int, int]], cleared: Operand = 0, clear: int = 0
) -> KernelCall:
    """A call that copies f32 numbers by four loops (count, bytes in the source, bytes in the target), outermost first.

    Before that the `clear` bytes at `cleared` become zeros. The two innermost loops are put in the better order.
    """
    assert len(loops) == LOOPS + 1

    def cost(loop: tuple[int, int, int]) -> tuple[bool, int]:
        count, step, to = loop
        return (to == 4 and step in (4, 8) and count > lanes // 4, count)  # as vectors

    ordered = [*loops[: LOOPS - 1], *sorted(loops[LOOPS - 1 :], key=cost)]
    spec = Place(lanes)

    def make() -> str:
        from uncork.kernels.movement.emit_strided_copy import emit_place

        return emit_place(spec)

    words: list[Operand] = [source, target, cleared, clear, *(word for loop in ordered for word in loop)]
    return STORE.function(spec.name, repr(spec), make), words
