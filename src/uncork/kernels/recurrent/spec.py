"""What a kernel of a GRU, LSTM or RNN sequence is specialised for, its arguments, and weights as it reads them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from uncork.kernels.names import flags as name_flags
from uncork.storage import decode, encode
from uncork.types import Array, ElementType

#: The products with X that are made ahead take at most this many bytes.
_AHEAD_BYTES = 640 << 10


@dataclass(frozen=True, slots=True)
class Recurrent:
    """What a kernel is specialised for."""

    cell: str  # "gru", "gru_after" (linear_before_reset), "lstm", "rnn"
    activations: tuple[str, ...]
    lanes: int
    lengths: str = "i64"
    clipped: bool = False
    #: "bf16": the factors of all products are rounded to bf16; sums, states and activations stay f32. "bf16x3", in tiles
    #: only: each factor is the sum of two bf16, and three of their four products are made: nearly f32.
    #: Tests hold states of about 1 to 2e-3 of a walk that rounds the same factors, and to 3e-2 ("bf16") and 5e-5 ("bf16x3") of f32.
    precision: str = "f32"
    #: AMX makes the products with X ("ahead") or all products ("all"). One row by R is as fast without.
    tiles: str = ""
    #: Several threads make one sequence together (see `team`), each its part of the units in every step.
    team: bool = False
    #: X is looked up: the type of its ids, and the products with W of all rows of the table come in place of W. See `look_up`.
    lookup: str = ""
    wraps: bool = False  # negative ids count from the end
    strict: bool = False  # ids that are outside are refused; otherwise they stand for zeros

    @property
    def arguments(self) -> tuple[str, ...]:
        return ARGUMENTS + TEAM_ARGUMENTS if self.team else ARGUMENTS

    @property
    def name(self) -> str:
        flags = ("_clipped" if self.clipped else "") + ("" if self.precision == "f32" else f"_{self.precision}")
        flags += (f"_tiles_{self.tiles}" if self.tiles else "") + ("_team" if self.team else "")
        flags += (f"_of_{self.lookup}" if self.lookup else "") + name_flags(self, "wraps", "strict")
        return f"{self.cell}_{'_'.join(self.activations)}_{self.lanes}_{self.lengths}{flags}"

    @property
    def parts(self) -> int:
        """Of how many bf16 a factor is the sum; 0 where factors are f32."""
        return {"f32": 0, "bf16": 1, "bf16x3": 2}[self.precision]

    @property
    def gates(self) -> int:
        return {"gru": 3, "gru_after": 3, "lstm": 4, "rnn": 1}[self.cell]

    @property
    def wide(self) -> int:
        """Units in a panel of a single gate: two vectors of them, to have enough independent sums."""
        return 2 * self.lanes

    @property
    def units(self) -> int:
        """Units in a panel of all gates."""
        return self.wide if self.cell == "rnn" else self.lanes

    def padded(self, hidden: int) -> int:
        """The hidden size in whole panels."""
        return -(-hidden // self.wide) * self.wide

    @property
    def packing(self) -> Hashable:
        """What the packed weights depend on."""
        return self.cell, self.lanes, self.parts, self.block

    @property
    def block(self) -> int:
        """Inner products, and rows of their factors, are read in blocks of so many: bf16 in pairs, AMX by whole tiles."""
        return 32 if self.tiles else 2

    def ahead(self, batch: int, steps: int, hidden: int) -> int:
        """Time steps whose products with X are made at once."""
        row = self.padded(hidden) * self.gates * 4
        return max(1, min(steps, _AHEAD_BYTES // max(1, batch * row)))

    def workspace(self, batch: int, steps: int, inputs: int, hidden: int) -> int:
        """Bytes of room for the order of rows, their states, the products with X, and tables of addresses; with bf16 also for factors."""
        row = self.padded(hidden) * 4
        ahead = self.ahead(batch, steps, hidden)
        tiles = TILE_ROOM if self.tiles else 0
        more = 16 if self.tiles else 0  # a tile may reach past the last row
        factors = 3 * (batch + more) * row // 2 + (ahead * batch + more) * -(-inputs // self.block) * self.block * 2
        aligned = 18 * 64
        return aligned + tiles + 8 * (steps + 2 + 5 * batch) + 4 * batch * row + ahead * batch * (row * self.gates + 8) + self.parts * factors


#: Bytes of two configurations of tiles, and of the sums of a block.
TILE_ROOM = 2 * 64 + 16 * 4 * 64

#: Arguments of every sequence kernel: addresses, strides in bytes, counts. `backward` is 0 or 1, `clip` the bits of an f32.
ARGUMENTS = (
    "x", "x_row", "x_step", "h0", "h0_row", "c0", "c0_row", "lengths", "y", "y_row", "ho", "ho_row", "co", "co_row",
    "w", "r", "r_new", "bias", "inner_bias", "batch", "steps", "inputs", "hidden", "padded", "backward", "clip", "ahead", "workspace",
)  # fmt: skip

#: Member -1 prepares for the others, and runs before them.
TEAM_ARGUMENTS = ("member", "members", "lines", "let_run")


@dataclass(frozen=True)
class Packed:
    """The weights of one direction as the kernel reads them; see `pack`."""

    w: Array
    r: Array
    r_new: Array
    bias: Array
    inner_bias: Array


def pack(spec: Recurrent, w: Array, r: Array, bias: Array) -> Packed:
    """`w [G*H, I]`, `r [G*H, H]`, `bias [G*H]` (`[4*H]` for "gru_after") of one direction, in OpenVINO's order of gates."""
    hidden = r.shape[1]
    every = range(spec.gates)
    inner = bias[3 * hidden :] if spec.cell == "gru_after" else np.zeros(0, np.float32)
    units = spec.units
    if spec.cell == "gru":
        packed_r, packed_new = _panels(spec, r, (0, 1), hidden, units), _panels(spec, r, (2,), hidden, spec.wide)
    else:
        packed_r, packed_new = _panels(spec, r, every, hidden, units), np.zeros(0, np.float32)
    inner = _panels(spec, inner.reshape(-1, 1), (0,), hidden, units) if inner.size else inner
    packed_bias = _panels(spec, bias.reshape(-1, 1), every, hidden, units)
    products = [_panels(spec, w, every, hidden, units), packed_r, packed_new]
    if spec.parts:
        products = [_as_pairs(panels, spec) if panels.size else panels for panels in products]
    return Packed(products[0], products[1], products[2], packed_bias, inner)


def look_up(spec: Recurrent, table: Array, w: Array, bias: Array) -> Array:
    """What the products with X ahead are for each row of `table [N, I]`, biases included, and after them for a row of zeros."""
    hidden = w.shape[0] // spec.gates
    rows = np.concatenate([table, np.zeros((1, table.shape[1]), np.float32)])
    products = rows @ w.T + bias[: len(w)]
    units = spec.units
    return np.ascontiguousarray(_panels(spec, products.T, range(spec.gates), hidden, units).transpose(1, 0, 2, 3))


def _as_pairs(panels: Array, spec: Recurrent) -> Array:
    """`[panels, K, gates, units]` of f32 as `[panels, K / 2, vectors, parts, lanes, 2]` of bf16: two steps of the product side by side."""
    count, inner, gates, units = panels.shape
    if inner % spec.block:
        panels = np.concatenate([panels, np.zeros((count, -inner % spec.block, gates, units), np.float32)], axis=1)
    bits = [encode(panels, ElementType.bf16)]
    if spec.parts == 2:
        bits.append(encode(panels - decode(bits[0], ElementType.bf16), ElementType.bf16))
    pairs = [part.reshape(count, -1, 2, gates * units // spec.lanes, spec.lanes).transpose(0, 1, 3, 4, 2) for part in bits]
    return np.ascontiguousarray(np.stack(pairs, axis=3))


def _panels(spec: Recurrent, weights: Array, gates: Sequence[int], hidden: int, units: int) -> Array:
    """`weights [G*H, K]` as `[panels, K, gates, units]`: the chosen gates of some units side by side, zeros past H."""
    count = spec.padded(hidden)
    inner = weights.shape[1]
    packed = np.zeros((count, inner, len(gates)), np.float32)
    for position, gate in enumerate(gates):
        packed[:hidden, :, position] = weights[gate * hidden : (gate + 1) * hidden]
    return np.ascontiguousarray(packed.reshape(count // units, units, inner, len(gates)).transpose(0, 2, 3, 1))
