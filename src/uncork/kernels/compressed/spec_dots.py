"""What products with stored weights in whole numbers are specialised for, and their arguments.

Rows of the data become fixed point: of each run of `unit` numbers the largest tells the unit, in
which every number is a whole one of 24 bits, three signed bytes (digits of base 256). Products of
digits and codes are summed exactly; the unit and the scale turn sums into numbers. Where pairs of
16 bits are multiplied the two highest bytes are one digit.

The error: a number of the data is off by at most half a unit, which is 2^-24 of the largest number
of its run, and is otherwise computed as in f32, a run at a time. Numbers of a table that are two
bytes meet the lowest digit by their higher byte alone: another 2^-23 of the largest number of the
run and of the table.
"""

from __future__ import annotations

import math
from typing import ClassVar

from msgspec import Struct

from uncork.kernels.compressed.spec import ARGUMENTS
from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags
from uncork.kernels.stored_form import FOUR_BITS, PER_WORD, Stored

#: Bytes of a number of f32: the highest digit first.
DIGITS = 3
#: Bytes that tell of a row whether its numbers have digits.
FLAG = 8
#: Columns whose results are added up and stored together, where rows are few.
COLUMNS = 4
#: Rows for whose addresses there are registers.
_ADDRESSES = 4
#: Rows of a tile from which on there is another one with half of them.
_LEAST_HALVED = 4
#: Up to so many rows take a panel block by block, of so many bytes, which is half a first cache.
FEW_ROWS, _PANEL = 16, 16 << 10
#: Bytes of the panels that rows meet one after the other: a part of a second cache.
_PANELS = 384 << 10
#: Codes in 32 bits that are no code of four bits.
_BYTES_IN_WORD = 4


def places_of(digits: int, wide: bool) -> tuple[int, ...]:
    """The bytes of a number that are one digit, the highest first: one, or where pairs of 16 bits
    are multiplied (`wide`), two as long as there are two.
    """
    if not wide:
        return (1,) * digits
    return (min(digits, 2), *[1] * (digits - 2))


def record(places: int) -> int:
    """Bytes that tell of a run: its unit (f32), what the sums of each place begin with, and the sum
    of its numbers, negated (f32).
    """
    return 8 + 4 * places


class Digits(KernelSpec, frozen=True):
    """The spec of the kernel that turns rows of f32 into digits `[row, run, place, number]`, with
    records and flags. For codes of four bits every eight numbers are in the order in which the
    codes are split; where digits are `wide`, which is 16 bits, every four numbers are, or eight.
    `large`: they are bytes nevertheless, as codes have 16 bits. `middle` is taken off every code.

    Rows are filled up to whole tiles of `rows` by the last one. Where `beside` is 1 they follow
    each other; else words of four digits, or two of 16 bits, and what records tell, lie beside
    those of the other rows of a tile: `[rows of this many, run, word, place, row]`.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_digits:emit_digits"
    arguments: ClassVar[tuple[str, ...]] = (
        *("data", "digits", "records", "flags", "rows", "inner", "first", "count"),
    )
    unit: int
    split: bool
    rows: int
    digits: int = DIGITS
    wide: bool = False
    large: bool = False
    middle: int = 0
    beside: int = 1

    @property
    def places(self) -> tuple[int, ...]:
        """The bytes of each place of a number."""
        return places_of(self.digits, self.wide and not self.large)


class DotRows(KernelSpec, frozen=True):
    """Products of rows of digits: the codes of `vectors` vectors of columns are turned into a
    panel, then multiplied by `rows` rows at a time, and by half as many where fewer are left; of a
    last tile that is not full nothing is stored of further rows.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_dots:emit_dot_rows"
    stored: Stored
    how: str
    lanes: int
    rows: int
    vectors: int
    unit: int
    end: Epilogue = PLAIN
    digits: int = DIGITS
    #: Digits, and the codes of a panel, have 16 bits.
    wide: bool = False
    #: Lines of a panel that a word of codes becomes: where registers are few, no word is taken
    #: apart in the inner loop.
    lines: int = 1
    #: Codes stand for numbers that a byte does not hold.
    large: bool = False
    #: What sums take off every code, see `Blocks`.
    middle: int = 0
    #: `TILES`: rows are multiplied in AMX tiles, bytes by bytes, whole runs of them.
    by: str = ""

    @property
    def tiles(self) -> tuple[int, ...]:
        """The rows of the tiles, the most first."""
        if self.by:
            return (self.rows,)
        return (self.rows, self.rows // 2) if self.rows >= _LEAST_HALVED else (self.rows,)

    @property
    def beside(self) -> int:
        """Rows whose words of digits lie beside each other, so that one address is counted on for
        all of them: those of a tile that has more than there are registers for addresses.
        """
        return self.rows if self.rows > _ADDRESSES and not self.by else 1

    @property
    def takes_two(self) -> bool:
        """Whether digits of two bytes are multiplied in place of one."""
        return self.wide and not self.large

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def places(self) -> tuple[int, ...]:
        """The bytes of each place of a number."""
        return places_of(self.digits, self.takes_two)

    @property
    def run(self) -> int:
        """Bytes of the digits of a run."""
        return len(self.places) * self.unit * (2 if self.wide else 1)

    @property
    def lines_of_run(self) -> int:
        """Lines of a panel that a whole run takes."""
        return self.unit // self.per_line

    @property
    def block(self) -> int:
        """Words of a column that are turned at once for few rows, so that they lie in the first
        cache until all rows met them: whole runs and whole vectors.
        """
        least = math.lcm(self.unit // self.per_word, self.lanes)
        return max(1, _PANEL // (least * self.lines * self.width * 4)) * least

    def panel_bytes(self, inner: int, parameters: int) -> int:
        """Bytes of a panel of columns of so many numbers, with as many scales and zero points."""
        words = -(-inner // (self.per_word * self.lanes)) * self.lanes
        lines = words * self.lines + self.more_lines
        return (lines + 2 * (-(-parameters // self.lanes) * self.lanes)) * self.width * 4

    def panels(self, inner: int, parameters: int) -> int:
        """The panels that many rows meet one after the other."""
        return max(1, _PANELS // self.panel_bytes(inner, parameters))

    def room(self, inner: int, parameters: int) -> int:
        """Bytes of working memory of panels with their scales and zero points, and of the totals of
        few rows.
        """
        panels = self.panels(inner, parameters) * self.panel_bytes(inner, parameters)
        return panels + FEW_ROWS * self.width * 4

    def made_of_row(self, inner: int) -> dict[str, int]:
        """Bytes that are made of a row of so many numbers, by the names of arguments."""
        runs = -(-inner // self.unit)
        return {
            "digits": runs * self.run,
            "records": runs * record(len(self.places)),
            "flags": FLAG,
        }

    def turning(self, inner: int) -> tuple[KernelSpec, dict[str, int]]:
        """The kernel that makes them, and operands that it has beside what all such have."""
        split = self.stored.element_type in FOUR_BITS
        sizes = (self.unit, split, self.rows, self.digits, self.wide, self.large, self.middle)
        return Digits(*sizes, self.beside), {}

    @property
    def more_lines(self) -> int:
        """Lines that are multiplied behind those of the last run, by digits that are 0."""
        return self.lines_of_run if self.by else 0

    @property
    def per_line(self) -> int:
        """Codes of a column in a line of a panel."""
        return self.per_word // self.lines

    @property
    def words_of_line(self) -> int:
        """Words of digits that a line meets: two where it holds codes of four bits."""
        return self.per_line // _BYTES_IN_WORD or 1

    @property
    def per_word(self) -> int:
        """Codes in 32 bits."""
        return PER_WORD if self.stored.bits == 4 else _BYTES_IN_WORD

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments: those of the other products except the table, then the digits
        with their records and flags, the panels and how many these are, and those of the
        epilogue.
        """
        made = ("digits", "records", "flags", "panel", "panels")
        return (*ARGUMENTS[:-1], *made, *self.end.arguments)


class Blocks(Struct, frozen=True):
    """How few rows of digits lie beside codes that are read as they are stored: a block is what one
    vector of codes holds.

    Of a block the digits are `[place, half, byte]`: of codes of four bits those of the low halves
    of bytes come first, and of pairs of vectors those of words at even places; where pairs of 16
    bits are multiplied the halves follow each other.
    `middle` is a code near the middle of all: what it adds to sums they begin with, so that nothing
    cancels later. What is summed before it becomes a number of f32 is a step: what its sums begin
    with, lane by lane, then the digits of its blocks. Steps of `rows` rows lie
    beside each other, `[rows of this many, step, row]`, so that one address is counted on for all
    of them; the last ones are filled up with the last row.
    """

    how: str
    lanes: int
    unit: int
    bits: int
    middle: int
    digits: int = DIGITS
    #: Digits have 16 bits.
    wide: bool = False
    #: Codes stand for numbers that a byte does not hold.
    large: bool = False
    #: Steps whose units and scales are read at once.
    together: int = 1
    rows: int = 1
    #: Codes of two vectors of bytes: words at even places, then words at odd ones, so that a lane
    #: has as many numbers of a run as of codes of four bits.
    paired: bool = False

    @property
    def numbers(self) -> int:
        """The numbers of a block."""
        return self.lanes * 32 // self.bits * (2 if self.paired else 1)

    @property
    def places(self) -> tuple[int, ...]:
        """The bytes of each place of a number."""
        return places_of(self.digits, self.wide and not self.large)

    @property
    def leaves_least_out(self) -> bool:
        """Whether the lowest digit does not meet the lower bytes of numbers of 16 bits."""
        return self.large and not self.wide and self.digits == DIGITS

    @property
    def halves(self) -> int:
        """Vectors of digits of one place."""
        return self.place // (4 * self.lanes)

    @property
    def place(self) -> int:
        """Bytes of the digits of one place of a block."""
        return self.numbers * (2 if self.wide else 1)

    @property
    def size(self) -> int:
        """Bytes of the digits of a block."""
        return len(self.places) * self.place

    @property
    def length(self) -> int:
        """Numbers that are summed in whole numbers: of a run of several blocks, or of a block,
        whose lanes belong to one run or several.
        """
        return max(self.unit, self.numbers)

    @property
    def of_step(self) -> int:
        """The blocks of a step."""
        return self.length // self.numbers

    @property
    def start(self) -> int:
        """Bytes of what the sums of a step begin with."""
        return 4 * self.lanes * len(self.places) if self.middle else 0

    @property
    def step(self) -> int:
        """Bytes of a step."""
        return self.start + self.of_step * self.size

    @property
    def runs(self) -> int:
        """The runs of a step."""
        return self.length // self.unit

    @property
    def unit_lanes(self) -> int:
        """How often the unit of a run is kept: for each of its lanes in a block, or once where
        those of several steps are read at once.
        """
        return max(1, self.lanes // self.runs) if self.mixes and self.together == 1 else 1

    @property
    def units(self) -> int:
        """Bytes of the units of steps that are read at once."""
        return self.together * self.runs * self.unit_lanes * 4

    @property
    def mixes(self) -> bool:
        """Whether a block has several runs."""
        return self.unit < self.numbers

    @property
    def name(self) -> str:
        few = f"_by_{self.digits}" if self.digits != DIGITS else ""
        few += flags(self, "large", "paired")
        few += f"_steps_{self.together}" if self.together > 1 else ""
        few += f"_rows_{self.rows}" if self.rows > 1 else ""
        return f"{self.how}{few}_{self.lanes}_of_{self.unit}_{self.bits}_bits_{self.middle}"


class BlockDigits(KernelSpec, frozen=True):
    """The spec of the kernel that turns rows of f32 into the digits of blocks: of each row its
    steps, the unit of each run, and of each group of codes its numbers' sum, negated.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_digits:emit_block_digits"
    arguments: ClassVar[tuple[str, ...]] = (
        *("data", "digits", "units", "sums", "flags"),
        *("rows", "inner", "groups", "first", "count"),
    )
    blocks: Blocks
    #: The numbers of a group; 0 where all are one.
    group: int


class DotFew(KernelSpec, frozen=True):
    """Products of few rows of digits with columns, whose codes are read as they are stored: as many
    rows at a time as lie beside each other, and of `side` columns a block each, which are a vector
    together. No call has more rows than one where that is 1.
    """

    emitter: ClassVar[str] = "uncork.kernels.compressed.emit_few_dots:emit_few_dots"
    stored: Stored
    blocks: Blocks
    end: Epilogue = PLAIN
    side: int = 1

    @property
    def unit(self) -> int:
        return self.blocks.unit

    @property
    def lanes(self) -> int:
        """Words of a vector of codes."""
        return self.blocks.lanes * self.side

    @property
    def rows(self) -> int:
        """Rows that lie beside each other."""
        return self.blocks.rows

    def room(self, inner: int, parameters: int) -> int:
        """No working memory beside that of a row."""
        return 0

    def made_of_row(self, inner: int) -> dict[str, int]:
        """Bytes that are made of a row of so many numbers, by the names of arguments."""
        blocks, steps = self.blocks, -(-inner // self.blocks.length)
        return {
            "digits": steps * blocks.step,
            "units": -(-steps // blocks.together) * blocks.units,
            "sums": self._groups(inner) * 4,
            "flags": FLAG,
        }

    def turning(self, inner: int) -> tuple[KernelSpec, dict[str, int]]:
        """The kernel that makes them, and operands that it has beside what all such have."""
        return BlockDigits(self.blocks, self.stored.group), {"groups": self._groups(inner)}

    def _groups(self, inner: int) -> int:
        return -(-inner // self.stored.group) if self.stored.group else 1

    @property
    def tiles(self) -> tuple[int, ...]:
        """The numbers of rows that are multiplied at once, the most first."""
        return tuple(2**n for n in reversed(range(self.blocks.rows.bit_length())))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments: those of the other products except the table, then what
        `BlockDigits` makes, and those of the epilogue.
        """
        return (
            *ARGUMENTS[:-1],
            *("digits", "units", "sums", "flags"),
            *self.end.arguments,
        )
