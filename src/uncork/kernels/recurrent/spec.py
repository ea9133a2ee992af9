"""What a kernel of a GRU, LSTM or RNN, sequence or cell, is specialised for, its arguments, and
weights as it reads them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec

#: Bytes of a number: of f32, of f64.
SINGLE, DOUBLE = 4, 8


class Recurrent(KernelSpec, frozen=True):
    """The spec of the kernel of one direction of a sequence."""

    emitter: ClassVar[str] = "uncork.kernels.recurrent.emit:emit_recurrent"
    cell: str  # "gru", "gru_after" (linear_before_reset), "lstm", "rnn"
    activations: tuple[str, ...]
    lanes: int
    lengths: str = "i64"  # their type; "": every row has all steps
    clipped: bool = False
    #: "bf16": the factors of all products are rounded to bf16; sums, states and activations stay
    #: f32. "bf16x3", in tiles only: each factor is the sum of two bf16, and three of their four
    #: products are made: nearly f32. Tests hold states of about 1 to 2e-3 of a walk that rounds the
    #: same factors, and to 3e-2 ("bf16") and 5e-5 ("bf16x3") of f32.
    precision: str = "f32"
    #: AMX makes the products with X ("ahead") or all products ("all"). One row by R is as fast
    #: without.
    tiles: str = ""
    #: Several threads make one sequence together (see `thread_team`), each its part of the units in
    #: every step.
    team: bool = False
    #: X is looked up: the type of its ids, and the products with W of all rows of the table come in
    #: place of W. See `projected_table`.
    lookup: str = ""
    wraps: bool = False  # negative ids count from the end
    strict: bool = False  # ids that are outside are refused; otherwise they stand for zeros
    size: int = SINGLE  # bytes of a number: of f32, or of f64
    #: Panels do not stay in the first cache: see `Matmul`.
    streams: bool = False
    alike: bool = False  # rows are added up in one order, however many there are

    @property
    def arguments(self) -> tuple[str, ...]:
        return ARGUMENTS + TEAM_ARGUMENTS if self.team else ARGUMENTS

    @property
    def parts(self) -> int:
        """The number of bf16 whose sum is a factor; 0 where factors are f32."""
        return {"f32": 0, "bf16": 1, "bf16x3": 2}[self.precision]

    @property
    def gates(self) -> int:
        return {"gru": 3, "gru_after": 3, "lstm": 4, "rnn": 1}[self.cell]

    @property
    def wide(self) -> int:
        """Units in a panel of a single gate: two vectors of them, to have enough independent
        sums.
        """
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
        return self.cell, self.lanes, self.parts, self.block, self.size

    @property
    def block(self) -> int:
        """The size of the blocks in which inner products, and rows of their factors, are read: bf16
        in pairs, AMX by whole tiles.
        """
        return 32 if self.tiles else 2


#: Bytes of two configurations of tiles, and of the sums of a block.
TILE_SCRATCH = 2 * 64 + 16 * 4 * 64

#: Arguments of every sequence kernel: addresses, strides in bytes, counts. `backward` is 0 or 1,
#: `clip` the bits of an f32.
ARGUMENTS = (
    "x", "x_row", "x_step", "h0", "h0_row", "c0", "c0_row", "lengths", "y", "y_row", "ho", "ho_row",
    "co", "co_row", "w", "r", "r_new", "bias", "inner_bias", "batch", "steps", "inputs", "hidden",
    "padded", "backward", "clip", "ahead", "pass_rows", "workspace",
)  # fmt: skip

#: Member -1 prepares for the others, and runs before them.
TEAM_ARGUMENTS = ("member", "members", "lines", "let_run")


class PanelsOfWeights(KernelSpec, frozen=True):
    """The spec of a kernel that packs weights: the gates side by side in a panel, and the units of
    each.
    """

    emitter: ClassVar[str] = "uncork.kernels.recurrent.emit_packed_weights:emit_packed_weights"
    #: Addresses, strides in bytes, counts: `weights [gates, hidden, inner]` to `target [panels,
    #: inner, gates, units]`, zeros past hidden. With a `block` two neighbours of the inner ones are
    #: a pair of bf16, and zeros fill the last of blocks of so many.
    arguments: ClassVar[tuple[str, ...]] = ("weights", "inner", "hidden", "panels", "target")
    gates: int
    units: int
    size: int = SINGLE  # bytes of a number
    block: int = 0

    def bytes(self, count: int, inner: int) -> int:
        """Room for `count` panels of so many steps of the inner product."""
        words = -(-inner // self.block) * self.block // 2 if self.block else inner
        return count * words * self.gates * self.units * self.size


class Lengths(KernelSpec, frozen=True):
    """The spec of the kernel: types of the indices and of the lengths, and what indices beyond the
    steps mean.
    """

    emitter: ClassVar[str] = "uncork.kernels.recurrent.emit_step_lengths:emit_lengths"
    arguments: ClassVar[tuple[str, ...]] = (
        "indices",
        "stride",
        "lengths",
        "output",
        "batch",
        "steps",
    )
    index: str
    lengths: str
    #: A negative index counts from the end.
    wraps: bool
    #: An index outside gives a length of 0; otherwise it is refused.
    zeros: bool
