"""What a kernel of a product of two f32 matrices is specialised for, and its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from uncork.kernels.epilogue import PLAIN, Epilogue

#: The tail of a kernel for any number of columns.
MASKED = -1
#: Vectors of so many f32 are those of AVX-512, whose masks cost nothing.
FREE_MASKS = 16


@dataclass(frozen=True, slots=True)
class Linear:
    """What a kernel is specialised for. A panel is `vectors` vectors of columns; `tail` columns are
    left for the last one.
    """

    emitter: ClassVar[str] = "uncork.kernels.gemm.emit_matmul:emit_linear"
    vectors: int
    tail: int
    lanes: int
    end: Epilogue = PLAIN
    #: The second matrix comes packed (see `pack`), not as an array of the call.
    packed: bool = True

    @property
    def name(self) -> str:
        tail = "masked" if self.tail == MASKED else self.tail
        return f"linear_{self.vectors}x{self.lanes}_{tail}{self.end.name}{'_packed' if self.packed else ''}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        return (*ARGUMENTS, *self.end.arguments)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


#: Addresses, strides in bytes, counts. `rows` of one batch; `table` has room for as many addresses,
#: `panels` for a packed matrix.
ARGUMENTS = (
    "a", "a_row", "a_batch", "b", "b_inner", "b_column", "b_batch", "output", "batches", "rows", "inner", "columns", "table", "panels",
)  # fmt: skip
