"""What the kernels of products with stored weights are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.stored_form import FOUR_BITS, Stored

#: Floats that are widened and no more.
HALVES = frozenset({"f16", "bf16"})
#: Numbers of a table that vectors hold.
BOOK = 16
#: Codes of the half of a vector of bytes, which look numbers up in a table of their own.
HALF_BLOCK = 32
#: How products are rounded to f16: by the instructions that convert, or by arithmetic.
CONVERTED, SPLIT = "converted", "split"


#: Bytes of the lines into which columns are decoded.
LINES_BYTES = 16384
#: Codes of a byte that become f16 at a time, a line of the caches; and the bytes of those of two
#: such blocks of a column.
HALVED, HALVED_BYTES = 64, 256

#: Addresses; bytes from one column to the next of codes; zero points or scales of a column; the
#: first column and how many; sizes; the numbers that codes stand for; the number of the chosen
#: matrix, from 1 on, and 0 for none; working memory. `inner` of one column; `table` has room for
#: the addresses of all rows.
ARGUMENTS = (
    "data", "codes", "code_row", "zeros", "scales", "groups", "output", "rows", "inner", "columns",
    "numbers", "matrix", "first", "count", "scratch", "table",
)  # fmt: skip


class FewRows(KernelSpec, frozen=True):
    """Products of few rows: weights are decoded into registers, for `columns` at once and up to
    `rows` rows; for more rows into `lines`, one for each of so many columns.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_few:emit_few_rows"
    stored: Stored
    columns: int
    rows: int
    end: Epilogue = PLAIN
    #: Codes and data are bf16, and multiplied as such two at a time, as in `ManyRows`.
    pairs: bool = False
    #: 0: there are no more rows than one, or they are multiplied `rows` at a time.
    lines: int = 0
    #: Codes of a byte become f16 in working memory first, of so many columns where there is one
    #: row: see `emit_halves`.
    halves: int = 0

    @property
    def line(self) -> int:
        """Numbers of a line: all lines take half of a small first cache."""
        return LINES_BYTES // 4 // self.lines

    @property
    def bytes_of_halves(self) -> int:
        """Bytes of what lies as f16, before other lines."""
        return max(self.columns, self.halves) * HALVED_BYTES if self.halves else 0

    @property
    def block(self) -> int:
        """Weights of a column that are decoded at once."""
        return HALVED if self.halves else self.stored.block

    @property
    def ordered(self) -> bool:
        """Whether rows are copied, in whole blocks, in the order in which weights are decoded."""
        return bool(self.halves) or self.stored.element_type in FOUR_BITS

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        return (*ARGUMENTS, *self.end.arguments, *self.stored.later_names)


class ManyRows(KernelSpec, frozen=True):
    """Products of many rows: a panel of `vectors` vectors of columns is decoded into working
    memory, for the microkernel.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_many:emit_many_rows"
    stored: Stored
    vectors: int
    end: Epilogue = PLAIN
    #: The codes lie in such panels themselves, `[inner dimension, columns of the panel]`.
    panels: bool = False
    #: Codes in panels are widened as they are read, not a block of a panel for all rows.
    widened: bool = False
    #: Codes and data are bf16, and multiplied as such two at a time (AVX512-BF16): the data are
    #: rows of bf16 in place of f32, and panels `[half of the inner dimension, columns, 2]`.
    pairs: bool = False
    #: The codes are larger than the second cache: while blocks of many rows multiply a panel they
    #: ask for the codes of the next one.
    ahead: bool = False
    #: Panels are multiplied in blocks of the inner dimension; `sums` has room for what waits.
    deep: bool = False

    @property
    def words_bytes(self) -> int:
        """Bytes of as many vectors of words as these have lanes, which are decoded one by one."""
        return self.lanes * self.lanes * 4

    def operands_bytes(self, groups: int) -> int:
        """Bytes of the zero points, scales and operands of later steps of a panel, of so many
        groups where they are not one for a column: in whole vectors of groups.
        """
        some = -(-(groups if self.stored.group else 1) // self.lanes) * self.lanes
        return (2 + len(self.stored.later)) * some * self.width * 4

    @property
    def decodes(self) -> bool:
        """Whether a panel of numbers is made before rows are multiplied."""
        return not self.panels or not (self.pairs or self.widened)

    @property
    def lanes(self) -> int:
        return self.stored.lanes

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        more = ("sums", "operands")
        return (*ARGUMENTS, *more, *self.end.arguments, *self.stored.later_names)
