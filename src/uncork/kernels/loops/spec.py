"""What a loop nest is specialised for: its text, the types of its views, and how many vectors go
together.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: What the last vector of an axis is where less than a vector is left: masked, or one element at a
#: time; over the one before it, of axes of at least a vector; or that where the axis is so long.
MASKED, AGAIN, EITHER = "masked", "again", "either"


class Nest(KernelSpec, frozen=True):
    """A text of `language.py`, with the element types of its views; `print(nest.text)` shows what
    the kernel does.
    """

    emitter: ClassVar[str] = "uncork.kernels.loops.emit:emit_nest"
    label: str
    text: str
    types: tuple[tuple[str, str], ...]
    lanes: int
    unroll: int = 1
    #: The type that numbers of the text are of; empty: of the view X, as it is computed with.
    scalar_type: str = ""

    @property
    def main_type(self) -> str:
        """The type that the nest is named after."""
        if self.scalar_type:
            return self.scalar_type
        return dict(self.types).get("X", self.types[0][1])

    @property
    def name(self) -> str:
        return (
            f"{self.label}_{self.main_type}_{hashlib.sha256(repr(self).encode()).hexdigest()[:10]}"
        )

    @property
    def tail(self) -> str:
        """What is done with less than a vector."""
        return MASKED


class RowNest(Nest, frozen=True, kw_only=True):
    """A nest of rows, whose last vectors may be computed twice."""

    last: str

    @property
    def tail(self) -> str:
        """What is done with less than a vector."""
        return self.last
