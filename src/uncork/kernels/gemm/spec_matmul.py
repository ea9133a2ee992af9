"""What a kernel of a product of two matrices is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.epilogue import PLAIN, Epilogue, EpilogueSpec

#: The tail of a kernel for any number of columns.
MASKED = -1
#: Vectors of so many f32 are those of AVX-512, whose masks cost nothing.
FREE_MASKS = 16
#: Bytes of a number: of f32, of f64.
SINGLE, DOUBLE = 4, 8
#: Bytes of a number of bf16.
HALF = 2


#: So many rows and fewer are multiplied by a matrix of the call as it lies, where its columns lie
#: along memory, and where they lie side by side.
MOST_TURNED, MOST_STRAIGHT = 8, 4
#: Whether there are few rows: in no call, in every call, or in those where there are.
MANY_ROWS, FEW_ROWS, EITHER = "many", "few", "either"
#: By AMX: pairs of a row that one tile holds, and rows of a block of two tiles.
TILE_PAIRS, TILE_ROWS = 16, 32


class Matmul(EpilogueSpec, frozen=True):
    """The spec of a matrix product. A panel is `vectors` vectors of columns; `tail` columns are
    left for the last one.
    """

    emitter: ClassVar[str] = "uncork.kernels.gemm.emit_matmul:emit_matmul"
    #: Addresses, strides in bytes, counts: `outer` times `batches` of `rows`. `table` has room for
    #: the addresses of the rows of one batch, `packed_weights` for a packed matrix, `sums` for
    #: what goes from block to block. A part of a result has the strides of the whole.
    arguments_of_call: ClassVar[tuple[str, ...]] = (
        "a", "a_row", "a_batch", "a_outer", "b", "b_inner", "b_column", "b_batch", "b_outer",
        "output", "output_row", "output_batch", "outer", "batches", "rows", "inner", "columns",
        "table", "packed_weights", "sums",
    )  # fmt: skip
    vectors: int
    tail: int
    lanes: int
    end: Epilogue = PLAIN
    #: The second matrix comes packed (see `pack`), not as an array of the call.
    packed: bool = True
    #: Bytes of a number.
    size: int = SINGLE
    #: Panels are multiplied in blocks of the inner dimension, whose sums wait for the next one.
    deep: bool = False
    #: Every matrix has one row, so that there is a kernel for one row only.
    one_row: bool = False
    #: The packed matrix is larger than the second cache: while blocks of many rows multiply a panel
    #: they ask for the next one.
    ahead: bool = False
    #: The first matrix and the packed one hold pairs of bf16, and `inner` counts pairs.
    pairs: bool = False
    #: Pairs are multiplied in AMX tiles. Panels have a multiple of `TILE_PAIRS` pairs of a column,
    #: `inner` pairs and zeros; `table` has room for so many pairs of each row.
    tiles: bool = False
    #: Results, and operands of elements, are bf16.
    narrow: bool = False
    #: Rows are added up in one order, however many there are.
    alike: bool = False
    #: Whether few rows are multiplied by the second matrix as it lies.
    rows: str = MANY_ROWS
    #: The columns of the second matrix lie along memory, where that matters.
    turned: bool = False
    #: Panels do not stay in the first cache: blocks of many rows ask for their lines ahead.
    streams: bool = False

    @property
    def masks_are_free(self) -> bool:
        """Whether a mask costs a vector nothing, as in the longest registers."""
        return self.lanes * self.size == FREE_MASKS * SINGLE

    @property
    def most_few(self) -> int:
        """The most rows that are few."""
        return MOST_TURNED if self.turned else MOST_STRAIGHT

    @property
    def result_size(self) -> int:
        """Bytes of a result."""
        return HALF if self.narrow else self.size

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes
