"""Which products with stored weights are summed in integers, and the calls of their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import ACTIVATION_BYTES, CompressedMatrix
from uncork.kernels.compressed.form import are_moderate, code_added, is_whole, whole_book
from uncork.kernels.compressed.spec_dots import (
    Blocks,
    DotFew,
    DotRows,
    places_of,
)
from uncork.kernels.epilogue import Epilogue
from uncork.kernels.extents import certainly
from uncork.kernels.gemm.dots import (
    FOUR_MIXED,
    FOUR_SIGNED,
    FOUR_SMALL,
    PAIRS,
    TILES,
    dot_method_of,
    flipped,
    multiplies_bytes_in_tiles,
)
from uncork.kernels.kernel_plan import In, KernelCall, Operand, Scratch, shares, whole_lines
from uncork.kernels.register_tiles import AMX_ROWS
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_form import Stored
from uncork.symbolic import SizeLike
from uncork.types import ElementType

#: Rows from which on panels are worth their turning, if they fill a tile; and where what few rows
#: take is not multiplied four bytes at a time.
_LEAST_ROWS, _LEAST_OF_PAIRS = 3, 5
#: Rows up to which products of as many places as take the time of f32 are faster than these.
_MOST_ROWS = 4
#: The same where runs are so short that what follows the products of bytes takes as long as is
#: saved by these: below it codes become digits in less time than numbers of f32.
_MOST_OF_SHORT_RUNS = 31
#: So many places of a number take the time of its product in f32: an addition follows each product
#: of pairs, or several such of small codes.
_AS_F32 = {PAIRS: 2, FOUR_SMALL: 3}
#: Rows that meet a column at once: of four the code is twice as long, and a thirtieth faster.
_FEW_ROWS = 2
#: Words of a column that lie in a vector beside those of others, and rows that meet these at once:
#: up to so many take less time than panels where columns are short.
_WORDS_OF_COLUMN, _ROWS_OF_SIDES = 4, 4
#: Blocks that are written one after the other, and steps from which on their scales are read
#: together.
_BLOCKS_TOGETHER, _LEAST_TOGETHER = 8, 4
#: Rows of a panel's tile by the digits of a number: sums and totals fit 32 registers.
_TILE_ROWS = {3: 4, 2: 4, 1: 8}
#: AMX tiles that hold sums, by the digits of a number.
_SUM_TILES = {3: 6, 2: 4, 1: 4}
#: Bits of the codes of a column in a line whose bytes are codes.
_BITS_OF_LINE = 8
#: Sums of a tile beside which 16 registers hold codes and numbers; totals lie in memory there.
_SUMS, _VECTORS = 8, 2
#: The largest number that a signed byte holds.
_MOST_OF_BYTE = 127
#: The longest run whose products of numbers of 16 bits and codes of eight have a sum of 32 bits,
#: whatever zero points are: 256 * 255 * 2^15 is less than 2^31.
_LONGEST_OF_PAIRS = 256
#: Codes near the middle of those of 4 and 6 bits, which bytes may hold.
_MIDDLES = (8, 32)


def dot_rows(
    weights: CompressedMatrix,
    stored: Stored,
    target: Target,
    end: Epilogue,
    activations: str = "f32",
) -> DotRows | None:
    """The spec of the kernel that sums in integers, where it is as exact for these weights as the
    kernel of f32, or as `activations` allow; else None.
    """
    book = whole_book(weights.numbers) if weights.numbers is not None else None
    how, lanes = _method(target, stored.bits, stored.book)
    unit = weights.rounded_together(activations)
    if (
        not how
        or (how == PAIRS and unit > _LONGEST_OF_PAIRS)
        or stored.element_type not in ("i8", "u8", "i4", "u4")
        or (stored.book and book is None)
        or stored.rounds_difference
        or stored.rounds_product
        or stored.later
        or not unit
        or weights.inner * stored.bits % 32
        or not is_whole(weights)
        or not are_moderate(weights.scales)
    ):
        return None
    digits = ACTIVATION_BYTES[activations]
    # Products of bytes and numbers of 16 bits have sums of 32.
    large = book is not None and bool(abs(book[0]).max() > _MOST_OF_BYTE)
    if target.vector_registers > 16:
        rows = _TILE_ROWS[digits]
    else:
        rows = max(2, _SUMS // (_VECTORS * len(places_of(digits, how == PAIRS and not large))))
    lines = {FOUR_SMALL: 2, PAIRS: 16 // stored.bits}.get(how, 1 + stored.book)
    middle = _near(weights) + _added_in_panels(how, stored)
    return DotRows(
        stored, how, lanes, rows, _VECTORS, unit, end, digits, how == PAIRS, lines, large, middle
    )


def dot_rows_in_tiles(spec: DotRows, target: Target) -> DotRows | None:
    """The kernel that does the same in AMX tiles, from as many rows on as one holds; None where
    there is none.
    """
    # Numbers of tables that take two bytes have more products than tiles for their sums.
    if spec.how != FOUR_MIXED or spec.stored.book or not multiplies_bytes_in_tiles(target):
        return None
    vectors = _SUM_TILES[spec.digits] // spec.digits
    lines = _BITS_OF_LINE // spec.stored.bits
    return replace(spec, rows=AMX_ROWS, vectors=vectors, lines=lines, by=TILES)


def _near(weights: CompressedMatrix) -> int:
    """A code near the zero points, which sums take off every code, so that little cancels when the
    rest is taken off; 0 without zero points.
    """
    zeros = weights.zero_points
    if zeros is None or weights.element_type in (ElementType.i4, ElementType.i8):
        return 0
    most, half = zeros.max(), 1 << weights.element_type.bits - 1
    return min([middle for middle in _MIDDLES if most < 2 * middle] + [half])


def _added_in_panels(how: str, stored: Stored) -> int:
    """What products by panels find added to every code, or number of a table."""
    if stored.book:
        return code_added(how, stored.element_type, True)
    return flipped(how, stored.element_type)[1]


def _method(target: Target, bits: int, book: bool) -> tuple[str, int]:
    """How products of codes of so many bits, or of numbers of a book, are summed, by vectors of so
    many lanes; nothing where that takes as long as products of f32: one by one, and pairs by
    AVX-512, whose additions of whole numbers wait for its multiplications.
    """
    how, lanes = dot_method_of(target)
    if how == FOUR_MIXED:
        return (how if bits == 4 or not book else ""), lanes
    if how != PAIRS:
        return (how if how == FOUR_SIGNED and not book else ""), lanes
    if lanes == 16 or not target.has("ssse3"):
        return "", lanes
    if book and bits != 4:
        return "", lanes
    return (FOUR_SMALL if bits == 4 and not book else PAIRS), lanes


def least_rows(spec: DotRows) -> int:
    """Rows from which on the kernel multiplies by panels: a tile, where codes of four bits become
    bytes there only once.
    """
    side = _columns_side_by_side(spec)
    if side > 1:
        return _rows_beside(side) + 1
    if spec.how == FOUR_SMALL:
        return spec.rows
    return max(_LEAST_OF_PAIRS if spec.how == PAIRS else _LEAST_ROWS, spec.tiles[-1])


def most_rows(spec: DotRows) -> int | None:
    """Rows up to which the kernel takes less time than that of f32; None for any."""
    if spec.how == FOUR_MIXED and spec.large:  # each number is looked up for a pair of rows
        return least_rows(spec) - 1
    places = _AS_F32.get(spec.how)
    if places is None:
        return None if _instructions(spec) < spec.unit else _MOST_OF_SHORT_RUNS
    return None if len(spec.places) < places else _MOST_ROWS


def _instructions(spec: DotRows) -> int:
    """The instructions by which a vector of columns adds a run of a row, of which each multiplies
    four numbers, to its total. Those in f32 are as many as the numbers of the run.
    """
    places, stored = len(spec.places), spec.stored
    products = places * spec.unit // 4
    converted, joined, added = places, places - 1, 1
    scaled = bool(stored.group and stored.scales)
    return products + converted + joined + added + scaled + bool(stored.zeros)


class DigitCalls(Struct, frozen=True):
    """The calls of products of so many rows each, of `data` of such, made into whole numbers first:
    working memory has what is made of the rows, from `begin` on, then a share of every thread.
    """

    spec: Union[DotRows, DotFew]
    rows: SizeLike
    inner: int
    data: int = 1
    begin: int = 0
    #: Zero points or scales of a column.
    parameters: int = 1

    @property
    def _made(self) -> SizeLike:
        """The rows that are made for each product, filled up to those that are multiplied
        together.
        """
        together = self.spec.rows
        return (self.rows + (together - 1)) // together * together

    @property
    def _sizes(self) -> dict[str, int]:
        """Bytes that are made of a row, by the names that kernels call them."""
        return self.spec.made_of_row(self.inner)

    @property
    def _row(self) -> int:
        """Bytes of working memory for one row, in whole blocks."""
        block = self.spec.stored.block
        return whole_lines(-(-self.inner // block) * block * 4)

    @property
    def _places(self) -> tuple[dict[str, SizeLike], SizeLike]:
        """Where what is made of the rows begins, and where the shares of threads do."""
        places: dict[str, SizeLike] = {}
        end: SizeLike = self.begin
        for name, size in self._sizes.items():
            places[name] = end
            end = whole_lines(end + self._made * self.data * size)
        return places, end

    @property
    def _own(self) -> int:
        """Bytes of working memory of a thread: a row, then what the kernel has room for."""
        return self._row + whole_lines(self.spec.room(self.inner, self.parameters))

    def scratch(self, threads: int) -> SizeLike:
        """Bytes of working memory of so many threads."""
        return self._places[1] + self._own * threads

    def digits(self, threads: int) -> Sequence[KernelCall]:
        """The calls that turn rows into whole numbers, shared by threads."""
        spec, more = self.spec.turning(self.inner)
        places = {name: Scratch(place) for name, place in self._places[0].items()}
        return [
            spec(
                data=In(0),
                rows=self.rows,
                **places,
                **more,
                inner=self.inner,
                first=first,
                count=count,
            )
            for first, count in shares(self._made * self.data, threads)
        ]

    def product(self, operands: Mapping[str, Operand], number: int, data: int = 0) -> KernelCall:
        """The call by which thread `number` computes some columns of the product of these data;
        `operands` are those that all products have.
        """
        (places, end), row = self._places, self._made * data
        made = {name: Scratch(place + row * self._sizes[name]) for name, place in places.items()}
        own = end + self._own * number
        memory: dict[str, Operand] = {"scratch": Scratch(own)}
        if isinstance(self.spec, DotRows):
            panels = self.spec.panels(self.inner, self.parameters)
            memory |= {"panel": Scratch(own + self._row), "panels": panels}
        return self.spec(**operands, **made, **memory)


def _steps_together(blocks: Blocks, group: int, target: Target) -> int:
    """Steps whose units and scales fill a vector, of whole groups or parts of one; 1 where that is
    not worth it: where few are read, or no mask loads the last ones.
    """
    if not target.has("avx512bw"):
        return 1
    most = min(blocks.lanes // blocks.runs, _BLOCKS_TOGETHER // blocks.of_step)
    for count in range(most, _LEAST_TOGETHER - 1, -1):
        length = count * blocks.length
        if not group or length % group == 0 or group % length == 0:
            return count
    return 1


def dot_few(spec: DotRows, rows: SizeLike, target: Target) -> DotFew | None:
    """The spec of the kernel for few rows, where runs are parts of a vector of codes, or several;
    else None.
    """
    stored = spec.stored
    more = code_added(spec.how, stored.element_type, stored.book)
    side = _columns_side_by_side(spec)
    blocks = Blocks(
        spec.how,
        spec.lanes // side,
        spec.unit,
        stored.bits,
        spec.middle - _added_in_panels(spec.how, stored) + more,
        spec.digits,
        spec.wide,
        spec.large,
    )
    pairs = replace(blocks, paired=True)
    if side == 1 and _pays_in_pairs(spec, blocks) and _lie_in(pairs, stored.group):
        blocks = pairs
    if not _lie_in(blocks, stored.group):
        return None
    together = 1 if side > 1 else _steps_together(blocks, stored.group, target)
    beside = 1 if certainly(rows, 1) else _rows_beside(side)
    return DotFew(stored, replace(blocks, together=together, rows=beside), spec.end, side)


def _pays_in_pairs(spec: DotRows, blocks: Blocks) -> bool:
    """Whether two vectors of codes have the sums of twice as many runs: those of one that is no
    longer than a vector are turned into numbers for half as many codes each otherwise.
    """
    return spec.stored.bits > 4 and not spec.wide and blocks.numbers >= spec.unit


def _lie_in(blocks: Blocks, group: int) -> bool:
    """Whether blocks, runs and groups are parts of each other."""
    sizes = (blocks.numbers, blocks.unit, *([group] if group else []))
    return not any(a % b and b % a for a in sizes for b in sizes)


def _rows_beside(side: int) -> int:
    """Rows that meet a vector of codes at once."""
    return _FEW_ROWS if side == 1 else _ROWS_OF_SIDES


def _columns_side_by_side(spec: DotRows) -> int:
    """Columns of which a vector of codes has a block each: as many as blocks of four words fit,
    where a column has one scale and zero point; else one.
    """
    stored = spec.stored
    if stored.group or stored.planes or spec.wide or spec.large:
        return 1
    return spec.lanes // _WORDS_OF_COLUMN
