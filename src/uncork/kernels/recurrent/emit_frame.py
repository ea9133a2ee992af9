"""The frame of a sequence's kernel, shared by its parts: arguments, and where everything lies in
the workspace.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, F64, Kernel, Type, Value
from uncork.kernels.gemm import microkernel_amx as tiles
from uncork.kernels.recurrent.emit_epilogue import store_parts
from uncork.kernels.recurrent.spec import TILE_SCRATCH, Recurrent


class Frame:
    """The kernel of one direction: arguments `a` and places in the workspace `p` by name, and sizes
    in bytes.
    """

    def __init__(self, kernel: Kernel, spec: Recurrent) -> None:
        self.k, self.spec = kernel, spec
        self.a = dict(zip(spec.arguments, kernel.arguments, strict=True))
        self.type: Type = F64 if spec.size == F64.bytes else F32
        self.vector = spec.lanes * spec.size
        self.row = self.a["padded"] * spec.size
        #: Factors of the products with R and with X: f32, or pairs of bf16 in rows of their own.
        self.factors, self.inputs = self.a["hidden"], self.a["inputs"]
        #: A row of factors of the state, in bytes.
        self.pairs_row = (self.row >> 1) * spec.parts
        if spec.parts:
            self.factors, self.inputs = (
                self._blocks(count) >> 1 for count in (self.factors, self.inputs)
            )
        #: A row of products with X, in bytes.
        self.ahead_row = self.row * spec.gates
        #: Vectors of a panel of W: all gates of `lanes` units, or two vectors of units of the only
        #: gate.
        self.gate_vectors = 2 if spec.cell == "rnn" else spec.gates
        self.p = self._places()

    def _blocks(self, count: Value) -> Value:
        """A number of factors rounded up to whole blocks."""
        return (count + (self.spec.block - 1)) & -self.spec.block

    def _places(self) -> dict[str, Value]:
        """The parts of the workspace, each at a cache line. As many bytes as `Recurrent.workspace`
        says.
        """
        a, spec, at = self.a, self.spec, self.a["workspace"]
        rows = (a["batch"] + (tiles.ROWS - 1)) & -tiles.ROWS if spec.tiles else a["batch"]
        places: dict[str, Value] = {}
        words = a["batch"] * 8
        # As many rows as `most_rows` ever gives.
        rows_of_pass = self.k.minimum(a["batch"], a["pass_rows"] + (a["pass_rows"] >> 1))
        ahead = rows_of_pass * a["ahead"]
        for name, size in (
            ("counts", (a["steps"] + 2) * 8),
            ("order", words),
            ("lengths", words),
            ("table_a", words),
            ("table_b", words),
            ("table_reset", words),
            ("state_a", a["batch"] * self.row),
            ("state_b", a["batch"] * self.row),
            ("extra", a["batch"] * self.row),  # z of "gru", c of "lstm"
            ("reset", a["batch"] * self.row),  # r * h of "gru"
            ("table_x", ahead * 8),
            ("products", ahead * self.ahead_row),
        ):
            places[name] = at
            at = at + ((size + 63) & -64)
        #: Two configurations of tiles, and the sums of a block of rows.
        self.tiles_ahead, self.tiles_step = at, at + tiles.CONFIGURATION_BYTES
        self.sums = at + 2 * tiles.CONFIGURATION_BYTES
        assert TILE_SCRATCH == 2 * tiles.CONFIGURATION_BYTES + tiles.SUMS_BYTES
        at = at + (TILE_SCRATCH if spec.tiles else 0)
        if spec.parts:
            for name in ("pairs_a", "pairs_b", "pairs_reset", "pairs_x"):
                places[name] = at
                at = at + ((rows * self.pairs_row + 63) & -64)
        return places

    def most_rows(self, left: Value) -> Value:
        """The rows of a pass, where so many are left: all of them, if others would be few."""
        rows = self.a["pass_rows"]
        return self.k.select(left * 2 < rows * 3, left, rows)

    def pass_from(self, first: Value) -> None:
        """Let the places of rows be those of the rows of a pass, which begins with this one."""
        for names, row in (
            (("order", "lengths", "table_a", "table_b", "table_reset"), self.k.integer(8)),
            (("state_a", "state_b", "extra", "reset"), self.row),
            (("pairs_a", "pairs_b", "pairs_reset"), self.pairs_row),
        ):
            for name in names:
                if name in self.p:
                    self.p[name] += first * row

    def copy(self, source: Value | None, target: Value, count: Value | None = None) -> None:
        """Copy a row of H values, or the first `count` of them; without a source store zeros."""
        k, lanes, hidden = self.k, self.spec.lanes, self.a["hidden"] if count is None else count
        for i, some in k.vectors(hidden, lanes):
            value = (
                k.constant(0.0, self.type, some)
                if source is None
                else k.load(source + i * self.spec.size, self.type, some)
            )
            k.store(value, target + i * self.spec.size)

    def round(self, source: Value, target: Value, count: Value, blocks: Value, low: Value) -> None:
        """Store `count` f32 as bf16, with zeros up to whole blocks; second parts are `low` bytes
        further on.
        """
        k, lanes = self.k, self.spec.lanes
        second = low if self.spec.parts == 2 else None
        for i, some in k.vectors(count, lanes):
            store_parts(k, k.load(source + i * 4, F32, some), target + i * 2, second)
        self.fill(target, count, blocks, low)

    def fill(self, target: Value, count: Value, blocks: Value, low: Value) -> None:
        """Store zeros from bf16 number `count` of a row to `blocks`."""
        k = self.k
        second = low if self.spec.parts == 2 else None
        with k.loop(count, blocks) as i:
            store_parts(k, k.constant(0.0, F32), target + i * 2, second)
