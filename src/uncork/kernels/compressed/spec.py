"""What the kernels of products with stored weights are specialised for, and their arguments."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags
from uncork.kernels.steps import StepSpec

#: Types of which a byte has two.
FOUR_BITS = frozenset({"i4", "u4"})
#: Floats that are widened and no more.
HALVES = frozenset({"f16", "bf16"})
#: Codes of four bits in 32, which is what is loaded of each lane.
PER_WORD = 8
#: Numbers of a table that vectors hold.
BOOK = 16
#: Codes of the half of a vector of bytes, which look numbers up in a table of their own.
HALF_BLOCK = 32
#: How products are rounded to f16: by the instructions that convert, or by arithmetic.
CONVERTED, SPLIT = "converted", "split"


class Stored(Struct, frozen=True):
    """How weights are stored: vectors of `lanes` along the inner dimension; a zero point and a
    scale for each `group`, or (0) column.

    What a step gives is rounded to f16 where `rounds_difference` and `rounds_product` say so; the
    product by arithmetic (SPLIT) where none is too small or too large for f16.
    """

    element_type: str
    lanes: int
    group: int = 0
    #: The types of zero points and scales; nothing where there are none.
    zeros: str = ""
    scales: str = ""
    rounds_difference: bool = False
    rounds_product: str = ""
    #: What follows, with operands of their own.
    later: tuple[StepSpec, ...] = ()
    #: The codes are numbers of a table of 16, or of a longer one.
    book: bool = False
    long: bool = False
    #: There are several matrices, and the call tells which one.
    chosen: bool = False
    #: Codes of four bits choose the bytes of numbers of f16 (AVX2).
    by_bytes: bool = False
    #: The scale may multiply the sum of its codes' products: nothing is rounded before, and nothing
    #: overflows.
    factored: bool = False

    @property
    def block(self) -> int:
        """Weights of a column that are decoded at once."""
        return self.lanes * PER_WORD if self.element_type in FOUR_BITS else self.lanes

    @property
    def apart(self) -> int:
        """How far the numbers of lanes that follow each other lie apart in a column."""
        return 2 if self.by_bytes else PER_WORD if self.element_type in FOUR_BITS else 1

    @property
    def bits(self) -> int:
        return (
            4
            if self.element_type in FOUR_BITS
            else 16
            if self.element_type in ("f16", "bf16", "u16")
            else 8
        )

    @property
    def groups_in_block(self) -> int:
        """The number of groups that a block meets, where a group is whole blocks, or a part of one;
        0 where groups begin anywhere.
        """
        if not self.group or self.group % self.block == 0:
            return 1
        return self.block // self.group if self.block % self.group == 0 else 0

    @property
    def name(self) -> str:
        group = f"_by_{self.group}" if self.group else ""
        rounds = f"_{self.rounds_product}" if self.rounds_product else ""
        return (
            f"{self.element_type}{group}"
            + flags(self, "book", "long", "chosen", "by_bytes", "factored")
            + (f"_zeros_{self.zeros}" if self.zeros else "")
            + (f"_scales_{self.scales}" if self.scales else "")
            + flags(self, "rounds_difference")
            + rounds
            + "".join(step.name for step in self.later)
        )

    @property
    def later_names(self) -> list[str]:
        """The names of the arguments that say where operands of later steps are."""
        return [f"later{number}" for number in range(len(self.later))]


#: Bytes of the lines into which columns are decoded.
LINES_BYTES = 16384
#: Numbers of a line of f16, and its bytes; behind its numbers is room for a vector.
HALF_LINE, HALF_LINE_BYTES = 512, 1088

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
    #: Codes of a byte become f16 in lines of working memory first, of so many columns where there
    #: is one row: what is read is converted by one instruction, what is in registers by two.
    halves: int = 0

    @property
    def line(self) -> int:
        """Numbers of a line: all lines take half of a small first cache."""
        return LINES_BYTES // 4 // self.lines

    @property
    def bytes_of_halves(self) -> int:
        """Bytes of the lines of f16, which lie where other lines do."""
        return max(self.columns, self.halves) * HALF_LINE_BYTES if self.halves else 0

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
    #: The codes lie in such panels themselves, `[inner dimension, columns of the panel]`, and are
    #: widened as they are read.
    panels: bool = False
    #: Codes and data are bf16, and multiplied as such two at a time (AVX512-BF16): the data are
    #: rows of bf16 in place of f32, and panels `[half of the inner dimension, columns, 2]`.
    pairs: bool = False
    #: The codes are larger than the second cache: while blocks of many rows multiply a panel they
    #: ask for the codes of the next one.
    ahead: bool = False
    #: Panels are multiplied in blocks of the inner dimension; `sums` has room for what waits.
    deep: bool = False

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
        return (*ARGUMENTS, "sums", *self.end.arguments, *self.stored.later_names)
