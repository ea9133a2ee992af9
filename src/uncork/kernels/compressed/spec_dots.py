"""What products with stored weights in whole numbers are specialised for, and their arguments.

Rows of the data become fixed point: of each run of `unit` numbers the largest tells the unit, in
which every number is a whole one of 24 bits, three signed bytes (digits of base 256). Products of
digits and codes are summed exactly; the unit and the scale turn sums into numbers.

The error: a number of the data is off by at most half a unit, which is 2^-24 of the largest number
of its run, and is otherwise computed as in f32, a run at a time.
"""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.compressed.spec import ARGUMENTS, PER_WORD, Stored
from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.kernel_spec import KernelSpec

#: Bytes of a number: the highest digit first.
DIGITS = 3
#: Bytes that tell of a run: its unit (f32), and the sum of the digits of each place.
RECORD = 4 + 4 * DIGITS
#: Bytes that tell of a row whether its numbers have digits.
FLAG = 8
#: Codes in 32 bits that are no code of four bits.
_BYTES_IN_WORD = 4


class Digits(KernelSpec, frozen=True):
    """The spec of the kernel that turns rows of f32 into digits `[row, run, place, number]`, with
    records and flags. For codes of four bits every eight numbers are in the order in which the
    codes are split.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_digits:emit_digits"
    arguments: ClassVar[tuple[str, ...]] = (
        *("data", "digits", "records", "flags", "inner", "first", "count"),
    )
    unit: int
    split: bool

    @property
    def name(self) -> str:
        return f"digits_of_{self.unit}{'_split' if self.split else ''}"


class DotRows(KernelSpec, frozen=True):
    """Products of rows of digits: the codes of `vectors` vectors of columns are turned into a
    panel, then multiplied by `rows` rows at a time, of which there are at least so many.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_dots:emit_dot_rows"
    stored: Stored
    how: str
    lanes: int
    rows: int
    vectors: int
    unit: int
    end: Epilogue = PLAIN

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def per_word(self) -> int:
        """Codes in 32 bits."""
        return PER_WORD if self.stored.bits == 4 else _BYTES_IN_WORD

    @property
    def name(self) -> str:
        tile = f"{self.rows}x{self.vectors}x{self.lanes}"
        return f"dots_{self.how}_{tile}_of_{self.unit}_{self.stored.name}{self.end.name}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments: those of the other products except the table, then the digits
        with their records and flags, the panel, and those of the epilogue.
        """
        return (*ARGUMENTS[:-1], "digits", "records", "flags", "panel", *self.end.arguments)
