"""The epilogue of a product, applied before its sums are stored: an expression of scalar
operations.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct

from uncork.kernels.kernel_spec import KernelSpec

#: How an operand lies on the result: one number for each channel (or column), one for each element,
#: or one number for all.
CHANNEL, ELEMENT, NUMBER = "channel", "element", "number"


class ScalarOp(Struct, frozen=True):
    """A scalar operation of `codegen.scalar_ops` and its arguments: 0 is the sum, then the
    operands, then operations before it.
    """

    op: str
    arguments: tuple[int, ...]
    constants: tuple[float, ...] = ()


class Epilogue(Struct, frozen=True):
    """Scalar operations, of which the last result is stored, and the kind of each operand. Without
    any, the sum itself is stored.
    """

    operands: tuple[str, ...] = ()
    ops: tuple[ScalarOp, ...] = ()

    @property
    def name(self) -> str:
        """The part of a kernel's name that tells the epilogue; empty without operations."""
        if not self.ops:
            return ""
        told = "_".join(op.op for op in self.ops)[:40]
        return f"_{told}_{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments for the epilogue: the address of each operand."""
        return tuple(f"end_{index}" for index in range(len(self.operands)))


#: Nothing comes after the sums.
PLAIN = Epilogue()


class WithArguments(Protocol):
    """An epilogue of any kind, as far as a kernel's list of arguments needs it."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments for the epilogue."""


class EpilogueSpec(KernelSpec, frozen=True):
    """The base of specs whose kernels have an epilogue, `end`: its arguments come last."""

    #: The kernel's arguments before those of its epilogue.
    arguments_of_call: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:

        @property
        def end(self) -> WithArguments:
            """The epilogue: a field of the record."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        return (*self.arguments_of_call, *self.end.arguments)
