"""Products of pairs of bf16 by packed panels, in AMX tiles: 32 rows times a panel, then those that
are left.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen.emit import I32, Kernel, Value
from uncork.kernels.codegen.epilogue import advanced_operands
from uncork.kernels.gemm import microkernel_amx as tiles
from uncork.kernels.gemm.microkernel import AHEAD, EpilogueEmitter
from uncork.kernels.gemm.spec_matmul import TILE_PAIRS, TILE_ROWS, Matmul

#: 16 rows for each of two tiles: each tile of a panel is loaded once for both.
_HEIGHTS = TILE_ROWS // tiles.ROWS
_PAIR = 4


class TilePanels:
    """The product by panels, whose last pairs are zeros past those of the first matrix."""

    def __init__(
        self,
        k: Kernel,
        spec: Matmul,
        places: dict[str, Value],
        extra: Sequence[str],
        end: EpilogueEmitter,
    ) -> None:
        """`extra` and `end` are those of the microkernels: see `TileMicrokernel`."""
        self.k, self.spec, self.places = k, spec, places
        self.layout = tiles.TileRegisters(spec.vectors, heights=_HEIGHTS)
        self.room = k.stack_bytes(2 * tiles.CONFIGURATION_BYTES + tiles.SUMS_BYTES)
        further = (*extra, *spec.end.arguments, *tiles.ENDS, *(AHEAD if spec.ahead else ()))
        used = -(-spec.tail // spec.lanes)

        def microkernels(name: str, used: int | None) -> list[tiles.TileMicrokernel]:
            return [
                tiles.TileMicrokernel(
                    k, f"{name}_{h}", self.layout, spec.vectors, further, end, h, used
                )
                for h in range(1, _HEIGHTS + 1)
            ]

        self.full = microkernels("full", None)
        self.tail = microkernels("tail", used) if used else None

    def multiply(self, first: Value, second: Value, output: Value) -> None:
        """Multiply all rows, of which the first one and the result lie at these addresses."""
        k, spec, a = self.k, self.spec, self.k.named
        rows = a["rows"]
        left = rows & (TILE_ROWS - 1)
        self.layout.write(k, self.room, k.integer(tiles.ROWS))
        self.layout.write(k, self._for_the_rest, left)
        self._copy_ends(first)
        whole = a["columns"] // spec.width
        with k.loop(0, whole) as panel:
            self._panel(self.full, panel, first, output, rows - left, left)
        if self.tail is not None:
            self._panel(self.tail, whole, first, output, rows - left, left)
        tiles.release(k)

    @property
    def _for_the_rest(self) -> Value:
        """The address of the configuration for rows that are no more than a tile."""
        return self.room + tiles.CONFIGURATION_BYTES

    def _copy_ends(self, first: Value) -> None:
        """Copy the last pairs of each row to where zeros are behind them."""
        k, a = self.k, self.k.named
        whole = a["inner"] & -TILE_PAIRS
        mask = k.lanes_below(a["inner"] - whole, TILE_PAIRS)
        with k.if_(whole < a["inner"]), k.loop(0, a["rows"]) as row:
            pairs = k.load(first + row * a["a_row"] + whole * _PAIR, I32, TILE_PAIRS, mask)
            k.store(pairs, a["table"] + row * tiles.ROW_BYTES)

    def _panel(
        self,
        kernels: list[tiles.TileMicrokernel],
        panel: Value,
        first: Value,
        output: Value,
        whole: Value,
        left: Value,
    ) -> None:
        """Multiply all rows by a panel: the first `whole` ones in blocks of two tiles."""
        k, spec, a = self.k, self.spec, self.k.named
        pairs = (a["inner"] + (TILE_PAIRS - 1)) & -TILE_PAIRS
        size = pairs * (spec.width * _PAIR)
        weights = a["b"] + panel * size

        def multiply(kernel: tiles.TileMicrokernel, row: Value, count: Value) -> None:
            given = {
                "target": output + row * a["output_row"] + panel * (spec.width * spec.result_size),
                "target_row": a["output_row"],
                "left": a["columns"] - panel * spec.width,
                "ends": a["table"] + row * tiles.ROW_BYTES,
                "source_row": a["a_row"],
                "sums": self.room + 2 * tiles.CONFIGURATION_BYTES,
                **self._ahead_of(row, weights + size),
                **advanced_operands(spec.end, self.places, panel * (spec.width * spec.size)),
            }
            kernel.multiply(k, first + row * a["a_row"], weights, a["inner"], count, given)

        def few() -> None:
            tiles.configure(k, self._for_the_rest)
            multiply(kernels[0], whole, left)

        with k.if_(a["rows"] > tiles.ROWS):
            tiles.configure(k, self.room)
            with k.loop(0, whole, TILE_ROWS) as row:
                multiply(kernels[-1], row, k.integer(TILE_ROWS))
        with k.if_(left > 0):
            k.either(left <= tiles.ROWS, few, lambda: multiply(kernels[-1], whole, left))

    def _ahead_of(self, row: Value, following: Value) -> dict[str, Value]:
        """What the block from a row on asks for: its share of the next panel."""
        k, spec, a = self.k, self.spec, self.k.named
        if not spec.ahead:
            return {}
        blocks = k.maximum((a["rows"] + (TILE_ROWS - 1)) // TILE_ROWS, k.integer(1))
        lines = k.integer(spec.width * _PAIR * TILE_PAIRS // tiles.ROW_BYTES)  # of a panel, a step
        lines = (lines + (blocks - 1)) // blocks
        pace = lines * (tiles.ROW_BYTES // TILE_PAIRS)
        return {"ahead": following + (row // TILE_ROWS) * (a["inner"] * pace), "pace": pace}
