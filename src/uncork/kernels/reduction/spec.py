"""What kernels of reductions and of whole rows are specialised for."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class Reduction(KernelSpec, frozen=True):
    """What a reduction is specialised for. `along_rows`: the values that are reduced to one are
    contiguous; else neighbours are reduced side by side. `accumulators`: vectors of a row that are
    joined in turn, or neighbouring vectors of columns.
    """

    emitter: ClassVar[str] = "uncork.kernels.reduction.emit:emit_reduction"
    arguments: ClassVar[tuple[str, ...]] = ("data", "output", "outer", "count", "inner", "row")
    op: str
    element_type: str
    along_rows: bool
    lanes: int
    accumulators: int = 1
    #: Rows may be shorter than a vector.
    open_row: bool = False
    #: Sums may be long: those of blocks are added.
    blocks: bool = False

    @property
    def name(self) -> str:
        axis = "rows" if self.along_rows else "columns"
        open_row = "_open" if self.open_row else ""
        sizes = f"{self.lanes}x{self.accumulators}{open_row}{'_blocks' * self.blocks}"
        return f"reduce_{self.op}_{self.element_type}_{axis}_{sizes}"


class Rows(KernelSpec, frozen=True):
    """What a kernel of whole f32 rows is specialised for: softmax, log_softmax, centre, standardise
    or standardise_outside.
    """

    emitter: ClassVar[str] = "uncork.kernels.reduction.emit:emit_rows"
    arguments: ClassVar[tuple[str, ...]] = ("data", "output", "rows", "count")
    kind: str
    lanes: int
    accumulators: int
    epsilon: float = 0.0
    #: Rows may be shorter than a vector.
    open_row: bool = False
    #: Sums may be long: those of blocks are added.
    blocks: bool = False

    @property
    def name(self) -> str:
        tail = "_open" * self.open_row + "_blocks" * self.blocks
        tail += (
            f"_{hashlib.sha256(repr(self.epsilon).encode()).hexdigest()[:8]}"
            if self.epsilon
            else ""
        )
        return f"{self.kind}_{self.lanes}x{self.accumulators}{tail}"
