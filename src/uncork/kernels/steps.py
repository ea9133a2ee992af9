"""What kernels are specialised for of the steps that they take with what is stored in few bits."""

from __future__ import annotations

from msgspec import Struct

#: What a kind of operand says behind its type: that there is one for all columns, or for all groups
#: of a column.
SHARED, WHOLE = "_shared", "_whole"


class StepSpec(Struct, frozen=True):
    """A Subtract or a Multiply as kernels are specialised for it: the kind of its operand, and
    whether its result is rounded to f16.
    """

    kind: str
    subtracts: bool
    rounds: bool

    @property
    def name(self) -> str:
        return f"_{'less' if self.subtracts else 'times'}_{self.kind}{'_rounded' * self.rounds}"
