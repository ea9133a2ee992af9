"""Which kernel runs a GRU, LSTM or RNN sequence, and its weights as the kernel reads them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from uncork.kernels.choose import Choice, In, KernelCall, Native, Operand, Out, Room, Stages, chooses, shares
from uncork.kernels.cpu import has_tiles, let_run
from uncork.kernels.packing import packed
from uncork.kernels.store import STORE, has_feature, lanes
from uncork.ops import Operation
from uncork.ops._recurrent import WALKS, RecurrentSequence
from uncork.ops.gru_sequence import GRUSequence5
from uncork.ops.lstm_sequence import LSTMSequence5
from uncork.ops.rnn_sequence import RNNSequence5
from uncork.storage import decode, encode
from uncork.types import Array, ElementType, TensorSpec

#: The products with X that are made ahead take at most this many bytes.
_AHEAD_BYTES = 640 << 10
#: Members of a team make at least so many operations each in a step.
_TEAM_FLOPS = 150_000
#: Weights of this size are read again in every step by every thread that has rows of its own; a team's members read their parts.
_TEAM_BYTES = 1 << 20
#: Rows that share one reading of the weights.
_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Recurrent:
    """What a kernel is specialised for."""

    cell: str  # "gru", "gru_after" (linear_before_reset), "lstm", "rnn"
    activations: tuple[str, ...]
    lanes: int
    lengths: str = "i64"
    clipped: bool = False
    #: "bf16": the factors of all products are rounded to bf16; sums, states and activations stay f32. "bf16x3": each factor is the
    #: sum of two bf16, and three of their four products are made: nearly f32.
    precision: str = "f32"
    #: AMX makes the products with X ("ahead") or all products ("all"). One row by R is as fast without.
    tiles: str = ""
    #: Several threads make one sequence together (see `team`), each its part of the units in every step.
    team: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        return ARGUMENTS + TEAM_ARGUMENTS if self.team else ARGUMENTS

    @property
    def name(self) -> str:
        flags = ("_clipped" if self.clipped else "") + ("" if self.precision == "f32" else f"_{self.precision}")
        flags += (f"_tiles_{self.tiles}" if self.tiles else "") + ("_team" if self.team else "")
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
    units = spec.wide if spec.cell == "rnn" else spec.lanes
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


def supports(precision: str) -> bool:
    """The machine has instructions for products in this precision."""
    return precision == "f32" or (precision in ("bf16", "bf16x3") and has_feature("avx512bf16") and lanes() == 16)


def _sequence(spec: Recurrent) -> int:
    def make() -> str:
        from uncork.kernels.recurrent_code import emit_recurrent

        return emit_recurrent(spec, has_feature("avx512f"), has_feature("sse2"))

    return STORE.function(spec.name, repr(spec), make)


def _suits_team(spec: Recurrent, batch: int, inputs: int, hidden: int, members: int) -> bool:
    """It is better that threads share the units of a sequence than its rows."""
    if spec.tiles or not let_run():
        return False
    if 2 * spec.gates * hidden * (inputs + hidden) * batch < members * _TEAM_FLOPS:
        return False  # members would wait for each other longer than they work
    return batch < members or (spec.gates * hidden * hidden * 4 > _TEAM_BYTES and batch < members * _BLOCK)


@chooses(GRUSequence5, LSTMSequence5, RNNSequence5)
def choose_sequence(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, RecurrentSequence)
    specs = [spec for spec in inputs if spec is not None]
    has_cell = isinstance(operation, LSTMSequence5)
    x, lengths, w, r, b = specs[0], *specs[-4:]
    if x.element_type is not ElementType.f32:
        return f"no kernel for {x.element_type}"
    if w.value is None or r.value is None or b.value is None:
        return "the weights are known at the call only"
    if not all(s.shape.is_static for s in (*specs, *outputs)):
        return "shapes are known at the call only"
    if isinstance(operation, GRUSequence5):
        cell = "gru_after" if operation.linear_before_reset else "gru"
    else:
        cell = "lstm" if has_cell else "rnn"
    clipped = 0 < operation.clip < math.inf
    if operation.precision != "f32" and not supports(operation.precision):
        return f"this machine cannot compute in {operation.precision}"
    batch, steps, inner = x.shape.static
    tiles = "" if operation.precision == "f32" or not has_tiles() else "all" if batch > 1 else "ahead"
    spec = Recurrent(cell, operation.functions(), lanes(), lengths.element_type.name, clipped, operation.precision, tiles)
    hidden = operation.hidden_size
    walks = WALKS[operation.direction]
    clip = int(np.float32(operation.clip).view(np.int32)) if clipped else 0
    directions = len(walks)
    row = hidden * 4
    sources = [w.value, r.value, b.value]
    packings = [
        packed(sources, (spec.packing, d), partial(_packed_arrays, spec, *(source[d] for source in sources))) for d in range(directions)
    ]
    function = _sequence(spec)

    def rows_of(d: int, first: int, count: int, room: int) -> KernelCall:
        """One direction of some rows of the batch."""
        at = (first * directions + d) * row  # of a row's state in this direction
        states: list[Operand] = [In(1, at), directions * row]
        states += [In(2, at), directions * row] if has_cell else [0, 0]
        results: list[Operand] = [Out(0, at * steps), directions * steps * row, Out(1, at), directions * row]
        results += [Out(2, at), directions * row] if has_cell else [0, 0]
        each = In(3 if has_cell else 2, first * lengths.element_type.dtype.itemsize)
        words: list[Operand] = [In(0, first * steps * inner * 4), steps * inner * 4, inner * 4, *states, each, *results]
        words += [array.ctypes.data for array in packings[d].arrays]
        words += [count, steps, inner, hidden, spec.padded(hidden), int(walks[d]), clip, spec.ahead(count, steps, hidden), Room(room)]
        assert len(words) == len(ARGUMENTS)
        return function, words

    def by_team(members: int) -> Stages:
        """Every direction by so many threads, which share its units."""
        teamed = replace(spec, team=True)
        member_function = _sequence(teamed)
        before: list[Sequence[KernelCall]] = []
        calls, room = [], 0
        for d in range(directions):
            lines = room + -(-spec.workspace(batch, steps, inner, hidden) // 64) * 64
            words = rows_of(d, 0, batch, room)[1]
            first, *others = [(member_function, [*words, m, members, Room(lines), let_run()]) for m in range(-1, members)]
            before.append([first])
            calls += others
            room = lines + 2 * 64 * members
        return Stages([*before, calls], room)

    def split(threads: int) -> Stages:
        members = threads // directions
        if members > 1 and _suits_team(spec, batch, inner, hidden, members):
            return by_team(members)
        parts = [(d, first, count) for d in range(directions) for first, count in shares(batch, -(-threads // directions))]
        calls, room = [], 0
        for d, first, count in parts:
            calls.append(rows_of(d, first, count, room))
            room += -(-spec.workspace(count, steps, inner, hidden) // 64) * 64
        return Stages([calls], room)

    whole = [rows_of(d, 0, batch, 0) for d in range(directions)]
    flops = 2.0 * spec.gates * hidden * (inner + hidden) * batch * steps * directions
    room = spec.workspace(batch, steps, inner, hidden)
    return Native(spec.name, whole, room=room, keep=packings, cost=flops / 100, split=split)


def _packed_arrays(spec: Recurrent, w: Array, r: Array, b: Array) -> list[Array]:
    """`pack` in the order of the kernel's arguments."""
    made = pack(spec, w, r, b)
    return [made.w, made.r, made.r_new, made.bias, made.inner_bias]
