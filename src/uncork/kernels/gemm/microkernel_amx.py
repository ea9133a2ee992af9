"""The microkernel of products in bf16 by AMX: one or two times 16 rows times a panel of columns,
held in tile registers.

It is used as `microkernel.Microkernel` is, and reads the same panels, with two differences: the
rows of a block lie at equal distances (`source_row` bytes), and a panel has a multiple of 16 pairs
of each column, the last ones zeros. What lies past the end of a row is read, too, and must be a
number, unless the last pairs of each row are elsewhere (`ENDS`).

A tile is 16 rows of 64 bytes: of a source 32 numbers of 16 rows, of a panel 16 pairs of 16 columns,
of sums 16 columns of 16 rows.
https://www.intel.com/content/www/us/en/developer/articles/code-sample/advanced-matrix-extensions-intrinsics-functions.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from msgspec import Struct

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I64, U8, U16, Kernel, Value
from uncork.kernels.gemm.microkernel import EpilogueEmitter, Row

#: Rows of a full tile, and the bytes of one.
ROWS, ROW_BYTES = 16, 64
#: Bytes of a configuration, and of the sums of a block: of up to 4 tiles.
CONFIGURATION_BYTES, SUMS_BYTES = 64, 4 * ROWS * ROW_BYTES
#: Pairs of bf16 that one tile holds of a row: the length of inner products is a multiple of it.
PAIRS = 16
REGISTERS = 8
#: What blocks are told whose rows end elsewhere: where the pairs past the last 16 of the first row
#: lie, zeros behind them; those of each further row are `ROW_BYTES` further on.
ENDS = ("ends",)


class TileRegisters(Struct, frozen=True):
    """Which tile registers hold what, for all microkernels of one kernel: sums of up to so many
    vectors for each `heights` times 16 rows, sources, panels.
    """

    vectors: int
    parts: int
    heights: int = 1

    def sums(self, height: int) -> range:
        """Of 16 rows, for each vector."""
        return range(height * self.vectors, (height + 1) * self.vectors)

    def sources(self, height: int) -> range:
        """Of 16 rows, for each part."""
        first = self.heights * self.vectors + height * self.parts
        return range(first, first + self.parts)

    @property
    def panels(self) -> range:
        return range(self.heights * (self.vectors + self.parts), REGISTERS)

    def write(self, k: Kernel, address: Value, rows: Value) -> None:
        """Write the configuration of the tile registers for blocks of `rows` rows: at least one, at
        most 16 for each height.
        """
        shapes = [(k.integer(ROWS), ROW_BYTES)] * REGISTERS
        for height in range(self.heights):
            # A tile that the block has no row for has one all the same, and is not used.
            those = k.minimum(k.maximum(rows - height * ROWS, k.integer(1)), k.integer(ROWS))
            for tile in (*self.sums(height), *self.sources(height)):
                shapes[tile] = those, ROW_BYTES
        write_configuration(k, address, shapes)


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
        line = self.used * ROW_BYTES
        sums = list(product(range(self.heights), range(self.used)))
        for height, v in sums:
            clear(k, self.layout.sums(height)[v])
        distance = extra["source_row"]
        whole = inner & -PAIRS if "ends" in extra else inner
        with k.loop(0, whole, PAIRS) as position:
            here = panel + position * self._panel_row
            self._step(k, source + position * 4, distance, here, extra)
            self._ask_ahead(k, position, extra)
        if "ends" in extra:
            with k.if_(whole < inner):
                last = panel + whole * self._panel_row
                self._step(k, extra["ends"], k.integer(ROW_BYTES), last, extra)
        for height, v in sums:
            place = extra["sums"] + (height * ROWS * line + v * ROW_BYTES)
            store(k, self.layout.sums(height)[v], place, k.integer(line))
        those = range(self.used)
        masks = [k.lanes_below(extra["left"] - v * ROWS, ROWS) for v in those if self.masked]
        with k.loop(0, rows) as row:
            place = extra["sums"] + row * line
            totals = [k.load(place + v * ROW_BYTES, F32, ROWS) for v in those]
            end(k, Row(row, source + row * distance, totals, extra, masks))
        k.finish()
        return k

    @property
    def _panel_row(self) -> int:
        """Bytes of a panel for one pair of each row."""
        return self.vectors * self.layout.parts * ROW_BYTES

    def _ask_ahead(self, k: Kernel, position: Value, extra: dict[str, Value]) -> None:
        """Ask for `pace` bytes of what lies `ahead`, for each pair of a row; of whole lines."""
        if "pace" not in extra:
            return
        ahead = extra["ahead"] + position * extra["pace"]
        with k.loop(0, extra["pace"] * PAIRS, ROW_BYTES) as byte:
            k.prefetch(ahead + byte)

    def _step(
        self, k: Kernel, source: Value, row: Value, panel: Value, extra: dict[str, Value]
    ) -> None:
        """Add the products of 32 numbers of each row, `row` bytes from one to the next, and all
        vectors. Successive products go to different sums, since each waits for the one before it.
        """
        layout, heights = self.layout, range(self.heights)
        for height in heights:
            block = source + row * (height * ROWS) if height else source
            for part, tile in enumerate(layout.sources(height)):
                at = block if part == 0 else block + extra["low"]
                load(k, tile, at, row)
        step = k.integer(self._panel_row)
        for part in range(layout.parts):
            # The product of two second parts is left out. Small products come first.
            factors = [0] if part else list(reversed(range(layout.parts)))
            for first in range(0, self.used, len(layout.panels)):
                group = list(zip(range(first, self.used), layout.panels, strict=False))
                for v, tile in group:
                    load(k, tile, panel + (v * layout.parts + part) * ROW_BYTES, step)
                for factor in factors:
                    for height, (v, tile) in product(heights, group):
                        add_product(k, layout.sums(height)[v], layout.sources(height)[factor], tile)

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


def add_product(k: Kernel, sums: int, source: int, panel: int) -> None:
    """Add the products of the rows of a source and the columns of a panel to sums of f32: of pairs
    of bf16, subnormal numbers count as 0.
    """
    _call(k, "tdpbf16ps", _tile(sums), _tile(source), _tile(panel))


def _tile(number: int) -> ir.Ref:
    return ir.Constant(ir.IntType(8), number)


def _address(k: Kernel, address: Value) -> ir.Ref:
    return k.builder.inttoptr(address.llvm, ir.IntType(8).as_pointer())


def _call(k: Kernel, name: str, *arguments: ir.Ref) -> None:
    k.call_intrinsic(f"llvm.x86.{name}", *arguments)
