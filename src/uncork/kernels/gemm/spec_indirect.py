"""What a kernel of packed matrices times rows found by a table is specialised for, and its
arguments.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.epilogue import ELEMENT, PLAIN, Epilogue, EpilogueSpec
from uncork.kernels.gemm.spec_matmul import FREE_MASKS


class IndirectGemm(EpilogueSpec, frozen=True):
    """The spec of an indirect product. A panel is `vectors` vectors of columns; `tail` columns are
    left for the last one, or fewer of its last vector where masks cost nothing.
    """

    emitter: ClassVar[str] = "uncork.kernels.gemm.emit_indirect:emit_indirect"
    #: `batches` products, each with a matrix and operands of channels of its own. The tables hold
    #: bytes from `source` and `target`, i64, one for each row. `column` is the bytes between
    #: numbers of a result; `row_addresses` takes the addresses of all rows, `scratch` what
    #: `scratch_bytes` says.
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "source", "target", "matrix", "sources", "targets", "rows", "inner", "columns", "column",
        "batches", "source_batch", "target_batch", "row_addresses", "scratch",
    )  # fmt: skip
    vectors: int
    tail: int
    lanes: int
    #: The numbers of a row of the result are neighbours.
    neighbours: bool
    end: Epilogue = PLAIN

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def scratch_bytes(self) -> int:
        """Room for a row of a panel, before its numbers go apart, and for one of each operand that
        lies like the result.
        """
        return 0 if self.neighbours else self.width * 4 * (1 + self.end.operands.count(ELEMENT))


def indirect_gemm(
    columns: int, lanes: int, neighbours: bool, end: Epilogue = PLAIN
) -> IndirectGemm:
    """The kernel for so many columns; where masks cost nothing, for tails of as many vectors."""
    vectors = max(1, min(3, -(-columns // lanes)))
    tail = columns % (vectors * lanes)
    if lanes == FREE_MASKS:
        tail = -(-tail // lanes) * lanes or vectors * lanes
    return IndirectGemm(vectors, tail, lanes, neighbours, end)
