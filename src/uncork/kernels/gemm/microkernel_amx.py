"""The microkernel of products in bf16 by AMX: up to 16 rows times a panel of columns, held in tile
registers.

It is used as `microkernel.Microkernel` is, and reads the same panels, with two differences: the
rows of a block lie at equal distances (`source_row` bytes), and `inner`, which counts pairs, is a
multiple of 16: what lies past the end of a row is read, and must be a number.

A tile is 16 rows of 64 bytes: of a source 32 numbers of 16 rows, of a panel 16 pairs of 16 columns,
of sums 16 columns of 16 rows.
https://www.intel.com/content/www/us/en/developer/articles/code-sample/advanced-matrix-extensions-intrinsics-functions.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I64, U8, U16, Kernel, Value
from uncork.kernels.gemm.microkernel import EpilogueEmitter, Row

#: Rows of a full tile, and the bytes of one.
ROWS, ROW_BYTES = 16, 64
#: Bytes of a configuration, and of the sums of a block of up to 4 vectors.
CONFIGURATION_BYTES, SUMS_BYTES = 64, ROWS * 4 * ROW_BYTES
#: Pairs of bf16 that one tile holds of a row: the length of inner products is a multiple of it.
PAIRS = 16
_REGISTERS = 8


class TileRegisters(Struct, frozen=True):
    """Which tile registers hold what, for all microkernels of one kernel: sums of up to so many
    vectors, sources, panels.
    """

    vectors: int
    parts: int

    @property
    def sources(self) -> range:
        return range(self.vectors, self.vectors + self.parts)

    @property
    def panels(self) -> range:
        return range(self.vectors + self.parts, _REGISTERS)

    def write(self, k: Kernel, address: Value, rows: Value) -> None:
        """Write the configuration of the tile registers for blocks of `rows` rows, at most 16."""
        for offset in range(0, CONFIGURATION_BYTES, 8):
            k.store(k.integer(0), address + offset)
        k.store(k.constant(1, U8), address)  # the palette
        for tile in range(_REGISTERS):
            k.store(k.constant(ROW_BYTES, U16), address + (16 + 2 * tile))
            k.store(
                k.constant(ROWS, U8) if tile in self.panels else rows.to(U8), address + (48 + tile)
            )


def configure(k: Kernel, address: Value) -> None:
    """Configure the tile registers from memory; the registers are zeros after that."""
    _call(k, "ldtilecfg", _address(k, address))


def release(k: Kernel) -> None:
    """Leave the tiles, so that nobody has to save them."""
    _call(k, "tilerelease")


class TileMicrokernel:
    """A function for up to 16 rows; see the module.

    Its further arguments are `source_row` and `sums` (SUMS_BYTES of memory). With two parts each
    factor is the sum of two bf16: panels have them one after the other, sources have the second
    ones `low` bytes further on; the product of the second ones is left out.
    """

    def __init__(
        self,
        outer: Kernel,
        name: str,
        layout: TileRegisters,
        vectors: int,
        extra: Sequence[str],
        end: EpilogueEmitter,
    ) -> None:
        self.layout, self.vectors = layout, vectors
        self.extra = (*extra, "source_row", "sums")
        self.function = self._function(outer, f"{name}_tiles", end)

    def _function(self, outer: Kernel, name: str, end: EpilogueEmitter) -> Kernel:
        k = Kernel(name, ["source", "panel", "inner", "rows", *self.extra], inside=outer)
        source, panel, inner, rows, *others = k.arguments
        extra = dict(zip(self.extra, others, strict=True))
        for v in range(self.vectors):
            _call(k, "tilezero", _tile(v))
        with k.loop(0, inner, PAIRS) as position:
            self._step(k, source + position * 4, panel + position * self._panel_row, extra)
        for v in range(self.vectors):
            _call(
                k,
                "tilestored64",
                _tile(v),
                _address(k, extra["sums"] + v * ROW_BYTES),
                k.integer(self.vectors * ROW_BYTES).llvm,
            )
        with k.loop(0, rows) as row:
            sums = extra["sums"] + row * (self.vectors * ROW_BYTES)
            totals = [k.load(sums + v * ROW_BYTES, F32, ROWS) for v in range(self.vectors)]
            end(k, Row(row, source + row * extra["source_row"], totals, extra))
        k.finish()
        return k

    @property
    def _panel_row(self) -> int:
        """Bytes of a panel for one pair of each row."""
        return self.vectors * self.layout.parts * ROW_BYTES

    def _step(self, k: Kernel, source: Value, panel: Value, extra: dict[str, Value]) -> None:
        """Add the products of 32 numbers of each row and all vectors. Successive products go to
        different sums, since each waits for the one before it.
        """
        layout, row = self.layout, extra["source_row"]
        for part, tile in enumerate(layout.sources):
            at = source if part == 0 else source + extra["low"]
            _call(k, "tileloadd64", _tile(tile), _address(k, at), row.llvm)
        step = k.integer(self._panel_row).llvm
        for part in range(layout.parts):
            # The product of two second parts is left out. Small products come first.
            sources = [layout.sources[0]] if part else list(reversed(layout.sources))
            for first in range(0, self.vectors, len(layout.panels)):
                group = list(zip(range(first, self.vectors), layout.panels, strict=False))
                for v, tile in group:
                    _call(
                        k,
                        "tileloadd64",
                        _tile(tile),
                        _address(k, panel + (v * layout.parts + part) * ROW_BYTES),
                        step,
                    )
                for factor in sources:
                    for v, tile in group:
                        _call(k, "tdpbf16ps", _tile(v), _tile(factor), _tile(tile))

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
        with k.loop(0, rows, ROWS) as row:
            given = extra(row)
            source = k.load(table + row * 8, I64)
            count = k.minimum(rows - row, k.integer(ROWS))
            k.call(
                self.function, [source, panel, inner, count, *(given[name] for name in self.extra)]
            )


def _tile(number: int) -> ir.Ref:
    return ir.Constant(ir.IntType(8), number)


def _address(k: Kernel, address: Value) -> ir.Ref:
    return k.builder.inttoptr(address.llvm, ir.IntType(8).as_pointer())


def _call(k: Kernel, name: str, *arguments: ir.Ref) -> None:
    k.call_intrinsic(f"llvm.x86.{name}", *arguments)
