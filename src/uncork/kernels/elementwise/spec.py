"""What an element-wise kernel is specialised for, and its arguments."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from msgspec import Struct

from uncork.kernels.kernel_spec import KernelSpec


class Member(Struct, frozen=True):
    """A scalar operation, its arguments (operands by number, then members before it), and the type
    of its result.
    """

    op: str
    arguments: tuple[int, ...]
    result: str
    constants: tuple[float, ...] = ()


class Expression(KernelSpec, frozen=True):
    """What an element-wise kernel is specialised for: types of the operands, which of them change
    along the innermost loop.
    """

    emitter: ClassVar[str] = "uncork.kernels.elementwise.emit:emit_expression"
    operands: tuple[str, ...]
    varying: tuple[bool, ...]
    members: tuple[Member, ...]
    loops: int
    lanes: int
    #: The size of the innermost loop is open: it may be less than a vector.
    open_row: bool = False

    @property
    def name(self) -> str:
        ops = "_".join(member.op for member in self.members)
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return f"{ops[:60]}_{self.members[-1].result}_{digest}"

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments. Strides: of the result, then of each operand, for all loops but
        the innermost.
        """
        operands = range(len(self.operands))
        names = [
            "output",
            *(f"operand_{i}" for i in operands),
            *(f"size_{d}" for d in range(self.loops)),
        ]
        for depth in range(self.loops - 1):
            names += [f"stride_{depth}", *(f"stride_{depth}_{i}" for i in operands)]
        return names


def conversion(source: str, target: str, loops: int, lanes: int, open_row: bool) -> Expression:
    """What a kernel is specialised for that converts elements to another type."""
    member = Member("convert", (0,), target)
    return Expression((source,), (True,), (member,), loops, lanes, open_row)
