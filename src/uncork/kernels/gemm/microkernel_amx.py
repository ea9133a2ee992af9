"""Products by AMX: blocks of up to 16 rows times a panel of columns, held in tile registers
(`TileRegisters`), and the microkernel of products in bf16, of one or two such blocks.

The microkernel is used as `microkernel.Microkernel` is, and reads the same panels, with two
differences: the rows of a block lie at equal distances (`source_row` bytes), and a panel has a
multiple of 16 pairs of each column, the last ones zeros. What lies past the end of a row is read,
too, and must be a number, unless the last pairs of each row are elsewhere (`ENDS`).

A tile is 16 rows of 64 bytes: of a source 32 numbers of 16 rows (of bytes 64), of a panel 16 pairs
(or four bytes) of 16 columns, of sums 16 columns of 16 rows.
https://www.intel.com/content/www/us/en/developer/articles/code-sample/advanced-matrix-extensions-intrinsics-functions.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I32, I64, U8, U16, Kernel, Type, Value
from uncork.kernels.gemm.microkernel import EpilogueEmitter, Row
from uncork.kernels.register_tiles import AMX_ROWS, AMX_WORDS

#: Rows of a full tile, and the bytes of one.
ROWS, ROW_BYTES = AMX_ROWS, 64
#: Bytes of a configuration, and of the sums of a block: of up to 4 tiles.
CONFIGURATION_BYTES, SUMS_BYTES = 64, 4 * ROWS * ROW_BYTES
#: Words of 32 bits that one tile holds of a row, each a pair of bf16 or four bytes, and the bytes
#: of one.
WORDS, _WORD = AMX_WORDS, 4
REGISTERS = 8
#: What blocks are told whose rows end elsewhere: where the pairs past the last 16 of the first row
#: lie, zeros behind them; those of each further row are `ROW_BYTES` further on.
ENDS = ("ends",)


class TileRegisters(Struct, frozen=True):
    """Which tile registers hold what, for all microkernels of one kernel: sums of up to so many
    vectors for each of `heights` blocks of as many rows, sources, panels.

    A step multiplies `words` words of 32 bits of each row and column: pairs of bf16, or four bytes
    where numbers are `whole`, of which those of rows (`signed`) or those of columns have a sign.
    The last step of a run may have less of them, `rest`.
    """

    vectors: int
    parts: int = 1
    heights: int = 1
    #: Steps that take turns, with sums of their own: a product waits for the one before it that
    #: adds to the same sums.
    turns: int = 1
    #: Columns of a vector.
    lanes: int = ROWS
    words: int = WORDS
    rest: int = 0
    whole: bool = False
    signed: bool = False

    @property
    def number(self) -> Type:
        """The type of sums."""
        return I32 if self.whole else F32

    @property
    def _instruction(self) -> str:
        return ("tdpbsud" if self.signed else "tdpbusd") if self.whole else "tdpbf16ps"

    @property
    def vector_bytes(self) -> int:
        """Of a row of a panel, and of a vector of sums."""
        return self.lanes * F32.bytes

    def sums(self, height: int, turn: int = 0) -> range:
        """Of a block of rows, for each vector."""
        first = (turn * self.heights + height) * self.vectors
        return range(first, first + self.vectors)

    def _factors(self, rest: bool) -> tuple[range, range]:
        """Registers for sources, and for panels, of whole steps or of those with the rest."""
        others = range(self.turns * self.heights * self.vectors, REGISTERS)
        if self.rest:
            half = len(others) // 2
            others = others[half:] if rest else others[:half]
        sources = min(self.turns * self.heights * self.parts, len(others) // 2)
        return others[:sources], others[sources:]

    def write(self, k: Kernel, address: Value, rows: Value) -> None:
        """Write the configuration of the tile registers for blocks of `rows` rows each: at most
        16.
        """
        rows = k.maximum(rows, k.integer(1))  # of no rows the tiles are not used
        shapes = [(rows, self.vector_bytes)] * REGISTERS
        for rest in (False, True) if self.rest else (False,):
            sources, panels = self._factors(rest)
            words = self.rest if rest else self.words
            for tile in sources:
                shapes[tile] = rows, words * _WORD
            for tile in panels:
                shapes[tile] = k.integer(words), self.vector_bytes
        write_configuration(k, address, shapes)

    def clear(self, k: Kernel, heights: int, used: int) -> None:
        """Make the sums zeros of so many blocks of rows and vectors."""
        for turn, height, v in product(range(self.turns), range(heights), range(used)):
            clear(k, self.sums(height, turn)[v])

    def add(
        self,
        k: Kernel,
        blocks: Sequence[Sequence[Value]],
        row: Value,
        panel: Value,
        panel_row: Value,
        used: int,
        turn: int = 0,
        rest: bool = False,
    ) -> None:
        """Add the products of a step: of rows, `row` bytes from one to the next, which begin at an
        address for each part of each block, by the first vectors of a panel. Successive products go
        to different sums.
        """
        held: dict[int, tuple[int, int]] = {}

        def hold(tile: int, what: tuple[int, int], address: Value, distance: Value) -> int:
            if held.get(tile) != what:
                load(k, tile, address, distance)
                held[tile] = what
            return tile

        sources, panels = self._factors(rest)
        heights = list(enumerate(blocks))
        for part in range(self.parts):
            # The product of two second parts is left out. Small products come first.
            factors = [0] if part else list(reversed(range(self.parts)))
            for first in range(0, used, len(panels)):
                group = range(first, min(first + len(panels), used))
                for factor, (height, places), v in product(factors, heights, group):
                    at = (turn * self.heights + height) * self.parts + factor
                    source = hold(sources[at % len(sources)], (height, factor), places[factor], row)
                    place = panel + (v * self.parts + part) * self.vector_bytes
                    at = turn * self.vectors + v
                    numbers = hold(panels[at % len(panels)], (v, part), place, panel_row)
                    add_product(k, self.sums(height, turn)[v], source, numbers, self._instruction)
                heights.reverse()  # the next vectors begin with the rows that are there

    def store(self, k: Kernel, room: Value, distances: Sequence[Value], used: int) -> None:
        """Store the sums of blocks that begin so many rows behind the first one, for each turn
        rows of `used` vectors: blocks may share rows.
        """
        line = used * self.vector_bytes
        for (turn, (height, distance)), v in product(
            product(range(self.turns), enumerate(distances)), range(used)
        ):
            place = room + distance * line + (turn * self._turn_bytes(used) + v * self.vector_bytes)
            store(k, self.sums(height, turn)[v], place, k.integer(line))

    def total(self, k: Kernel, room: Value, row: Value | int, v: int, used: int) -> Value:
        """The sums of a row and a vector that were stored."""
        place = room + row * (used * self.vector_bytes) + v * self.vector_bytes
        total = k.load(place, self.number, self.lanes)
        for turn in range(1, self.turns):
            more = place + turn * self._turn_bytes(used)
            total = total + k.load(more, self.number, self.lanes)
        return total

    def _turn_bytes(self, used: int) -> int:
        """Of the sums of one turn."""
        return self.heights * ROWS * used * self.vector_bytes


def write_configuration(k: Kernel, address: Value, shapes: Sequence[tuple[Value, int]]) -> None:
    """Write a configuration: of each tile register the rows, and the bytes of a row."""
    for offset in range(0, CONFIGURATION_BYTES, 8):
        k.store(k.integer(0), address + offset)
    k.store(k.constant(1, U8), address)  # the palette
    for register, (rows, row_bytes) in enumerate(shapes):
        k.store(k.constant(row_bytes, U16), address + (16 + 2 * register))
        k.store(rows.to(U8), address + (48 + register))


def configure(k: Kernel, address: Value) -> None:
    """Configure the tile registers from memory; the registers are zeros after that."""
    _call(k, "ldtilecfg", _address(k, address))


def release(k: Kernel) -> None:
    """Leave the tiles, so that nobody has to save them."""
    _call(k, "tilerelease")


class TileMicrokernel:
    """A function for up to `heights` times 16 rows (all that the registers hold, if not said); see
    the module.

    Its further arguments are `source_row` and `sums` (SUMS_BYTES of memory). With two parts each
    factor is the sum of two bf16: panels have them one after the other, sources have the second
    ones `low` bytes further on; the product of the second ones is left out. One for the last panel
    multiplies its first `used` vectors only, and is told how many columns are `left`.
    """

    def __init__(
        self,
        outer: Kernel,
        name: str,
        layout: TileRegisters,
        vectors: int,
        extra: Sequence[str],
        end: EpilogueEmitter,
        heights: int | None = None,
        used: int | None = None,
    ) -> None:
        self.layout, self.vectors, self.masked = layout, vectors, used is not None
        self.used = vectors if used is None else used
        self.heights = layout.heights if heights is None else heights
        self.extra = (*extra, "source_row", "sums")
        self.function = self._function(outer, f"{name}_tiles", end)

    def _function(self, outer: Kernel, name: str, end: EpilogueEmitter) -> Kernel:
        k = Kernel(name, ["source", "panel", "inner", "rows", *self.extra], inside=outer)
        source, panel, inner, rows, *others = k.arguments
        extra = dict(zip(self.extra, others, strict=True))
        # The second block of rows ends where the rows do: it shares some with the first one.
        distances = [k.integer(0), rows - ROWS][: self.heights]

        def step(first: Value, distance: Value, here: Value) -> None:
            blocks = [self._parts(first + distance * rows, extra) for rows in distances]
            panel_row = k.integer(self._panel_row)
            self.layout.add(k, blocks, distance, here, panel_row, self.used)

        self.layout.clear(k, self.heights, self.used)
        whole = inner & -WORDS if "ends" in extra else inner
        with k.loop(0, whole, WORDS) as position:
            here = panel + position * self._panel_row
            step(source + position * _WORD, extra["source_row"], here)
            self._ask_ahead(k, position, extra)
        if "ends" in extra:
            with k.if_(whole < inner):
                step(extra["ends"], k.integer(ROW_BYTES), panel + whole * self._panel_row)
        self.layout.store(k, extra["sums"], distances, self.used)
        those = range(self.used)
        masks = [k.lanes_below(extra["left"] - v * ROWS, ROWS) for v in those if self.masked]
        with k.loop(0, rows) as row:
            totals = [self.layout.total(k, extra["sums"], row, v, self.used) for v in those]
            there = source + row * extra["source_row"]
            end(k, Row(row, there, totals, extra, masks))
        k.finish()
        return k

    def _parts(self, first: Value, extra: dict[str, Value]) -> list[Value]:
        """The addresses of the parts of a block of rows."""
        return [first, first + extra["low"]] if self.layout.parts > 1 else [first]

    @property
    def _panel_row(self) -> int:
        """Bytes of a panel for one pair of each row."""
        return self.vectors * self.layout.parts * ROW_BYTES

    def _ask_ahead(self, k: Kernel, position: Value, extra: dict[str, Value]) -> None:
        """Ask for `pace` bytes of what lies `ahead`, for each pair of a row; of whole lines."""
        if "pace" not in extra:
            return
        ahead = extra["ahead"] + position * extra["pace"]
        with k.loop(0, extra["pace"] * WORDS, ROW_BYTES) as byte:
            k.prefetch(ahead + byte)

    def multiply_rows(
        self,
        k: Kernel,
        table: Value,
        panel: Value,
        inner: Value,
        rows: Value,
        extra: Callable[[Value], dict[str, Value]],
    ) -> None:
        """Multiply all rows of a table of addresses, in blocks; `extra(first row)` gives the
        further arguments of a block.
        """
        block = self.heights * ROWS
        with k.loop(0, rows, block) as row:
            source = k.load(table + row * 8, I64)
            count = k.minimum(rows - row, k.integer(block))
            self.multiply(k, source, panel, inner, count, extra(row))

    def multiply(
        self,
        k: Kernel,
        source: Value,
        panel: Value,
        inner: Value,
        rows: Value,
        given: dict[str, Value],
    ) -> None:
        """Multiply the rows of one block, the first of which is at `source`, by `inner` pairs."""
        further = (given[name] for name in self.extra)
        k.call(self.function, [source, panel, inner, rows, *further])


def clear(k: Kernel, register: int) -> None:
    """Make a tile zeros."""
    _call(k, "tilezero", _tile(register))


def load(k: Kernel, register: int, address: Value, step: Value) -> None:
    """Load a tile, whose rows are `step` bytes apart in memory."""
    _call(k, "tileloadd64", _tile(register), _address(k, address), step.llvm)


def store(k: Kernel, register: int, address: Value, step: Value) -> None:
    """Store a tile, whose rows are `step` bytes apart in memory."""
    _call(k, "tilestored64", _tile(register), _address(k, address), step.llvm)


def add_product(k: Kernel, sums: int, source: int, panel: int, instruction: str) -> None:
    """Add the products of the rows of a source and the columns of a panel: of pairs of bf16 to sums
    of f32, where subnormal numbers count as 0, or of bytes to sums of 32 bits, which wrap around.
    """
    _call(k, instruction, _tile(sums), _tile(source), _tile(panel))


def _tile(number: int) -> ir.Ref:
    return ir.Constant(ir.IntType(8), number)


def _address(k: Kernel, address: Value) -> ir.Ref:
    return k.builder.inttoptr(address.llvm, ir.IntType(8).as_pointer())


def _call(k: Kernel, name: str, *arguments: ir.Ref) -> None:
    k.call_intrinsic(f"llvm.x86.{name}", *arguments)
