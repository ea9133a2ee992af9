"""The calls of a sequence's kernels: how its weights reach them, and how threads share the work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    Operand,
    Out,
    ReleaseGil,
    Scratch,
    Stages,
    shares,
    whole_lines,
)
from uncork.kernels.layer import joined
from uncork.kernels.recurrent.pack import pack, projected_table
from uncork.kernels.recurrent.spec import PanelsOfWeights, Recurrent
from uncork.kernels.recurrent.workspace import ahead_steps, most_of_pass, workspace
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import LINE
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType

#: Members of a team make at least so many operations each in a step.
_TEAM_FLOPS = 150_000
#: Weights of this size are read again in every step by every thread that has rows of its own; a
#: team's members read their parts.
_TEAM_BYTES = 1 << 20
#: Rows that share one reading of the weights.
_BLOCK = 8
#: The number of the biases among weights: W, R, B.
_BIASES = 2


class Lookup(Struct, frozen=True):
    """X as rows of a table: the first input is then their ids, `[batch, steps]`."""

    table: Array
    wraps: bool
    strict: bool


def _suits_team(spec: Recurrent, batch: SizeLike, inputs: int, hidden: int, members: int) -> bool:
    """Whether threads had better share the units of a sequence than its rows."""
    if not isinstance(batch, int):
        return False  # one size alone does not tell: see `_team_rows`
    if spec.tiles:
        return False
    if 2 * spec.gates * hidden * (inputs + hidden) * batch < members * _TEAM_FLOPS:
        return False  # members would wait for each other longer than they work
    return batch < _team_rows(spec, hidden, members)


def _team_rows(spec: Recurrent, hidden: int, members: int) -> int:
    """The number of rows below which there is more to gain from sharing units than rows."""
    return members * (_BLOCK if spec.gates * hidden * hidden * spec.size > _TEAM_BYTES else 1)


class SequenceCalls(Struct):
    """The calls of a sequence's kernels.

    Inputs are X, Ho, for LSTM also Co, lengths where there are some, W, R, B.
    """

    spec: Recurrent
    walks: Sequence[bool]
    batch: SizeLike
    steps: SizeLike
    inputs: int
    hidden: int
    clip: int
    #: Members of a team can let other threads run while they wait.
    yields: bool
    #: Rows of a pass (see `rows_of_pass`), 0: all of them. A team has all in one.
    pass_rows: int = 0
    #: Outputs are Ho, and Co, without Y: all rows write theirs over each other, into a few lines
    #: that stay in the cache.
    states_only: bool = False
    #: Where X is looked up; `inputs` is then the number of rows of the table.
    lookup: Lookup | None = None
    #: Packed weights of every direction, in the order of the kernel's arguments.
    weights: list[list[Operand]] = field(default_factory=list)
    keep: list[object] = field(default_factory=list)
    #: Calls that pack weights which only the call knows, and how much of the step's memory those
    #: take.
    packing: list[KernelCall] = field(default_factory=list)
    packed_bytes: int = 0

    @property
    def multiplied(self) -> int:
        """Numbers of a step's X that are multiplied with W: none where the products are looked
        up.
        """
        return self.inputs if self.lookup is None else 0

    @property
    def _lengths_input(self) -> int:
        return 3 if self.spec.cell == "lstm" else 2

    @property
    def _first_weights(self) -> int:
        return self._lengths_input + bool(self.spec.lengths)

    def workspace(self, batch: SizeLike) -> SizeLike:
        """Bytes for so many rows, in whole cache lines."""
        return self._y_at(batch) + (
            whole_lines(self.steps * self.hidden * self.spec.size) if self.states_only else 0
        )

    def _y_at(self, batch: SizeLike) -> SizeLike:
        """Where Y lies in the workspace when it is not an output."""
        most = most_of_pass(batch, self.pass_rows)
        spec, steps, hidden = self.spec, self.steps, self.hidden
        return whole_lines(workspace(spec, batch, most, steps, self.multiplied, hidden))

    def pack_now(self, sources: Sequence[Array]) -> None:
        """Pack constant weights, once for all calls."""
        for d in range(len(self.walks)):
            w, r, b = (source[d] for source in sources)
            table = None if self.lookup is None else self.lookup.table
            constants = sources if table is None else [table, *sources]
            packing = packed(
                constants,
                (self.spec.packing, d),
                partial(_packed_arrays, self.spec, w, r, b, table),
            )
            self.weights.append([address_of(array) for array in packing.arrays])
            self.keep.append(packing)

    def pack_in_calls(self) -> None:
        """Have kernels pack the weights of each call, in the step's memory: the same panels as
        `pack` makes.
        """
        spec, hidden = self.spec, self.hidden
        units = spec.units
        gates, biases = spec.gates, spec.gates + (spec.cell == "gru_after")
        first_of_r = gates - (spec.cell == "gru")  # the new gate waits for the others
        for d in range(len(self.walks)):
            places: list[Operand] = []
            for number, first, count, total, width, inner in (
                (0, 0, gates, gates, units, self.inputs),
                (1, 0, first_of_r, gates, units, hidden),
                (1, first_of_r, gates - first_of_r, gates, spec.wide, hidden),
                (_BIASES, 0, gates, biases, units, 1),
                (_BIASES, gates, biases - gates, biases, units, 1),
            ):
                if not count:
                    places.append(0)
                    continue
                block = spec.block if spec.parts and number != _BIASES else 0
                panels, source = (
                    PanelsOfWeights(count, width, spec.size, block),
                    In(
                        self._first_weights + number,
                        (d * total + first) * hidden * inner * spec.size,
                    ),
                )
                many, target = spec.padded(hidden) // width, Scratch(self.packed_bytes)
                self.packing.append(
                    panels(weights=source, inner=inner, hidden=hidden, panels=many, target=target)
                )
                places.append(target)
                self.packed_bytes += whole_lines(panels.bytes(many, inner))
            self.weights.append(places)

    def rows(self, d: int, first: SizeLike, count: SizeLike, scratch: SizeLike) -> KernelCall:
        """The call of the kernel for one direction of some rows of the batch."""
        return self.spec(**self._operands(d, first, count, scratch))

    def _operands(
        self, d: int, first: SizeLike, count: SizeLike, scratch: SizeLike
    ) -> dict[str, Operand]:
        """The operands of that call."""
        spec, directions, steps = self.spec, len(self.walks), self.steps
        row = self.hidden * spec.size
        at, state_row = (first * directions + d) * row, directions * row
        has_cell, state = spec.cell == "lstm", 0 if self.states_only else 1
        each: Operand = 0
        if spec.lengths:
            size = ElementType.parse(spec.lengths).dtype.itemsize
            each = In(self._lengths_input, first * size)
        step = (
            self.inputs * spec.size
            if self.lookup is None
            else ElementType.parse(spec.lookup).dtype.itemsize
        )
        weights = zip(("w", "r", "r_new", "bias", "inner_bias"), self.weights[d], strict=True)
        return {
            "x": In(0, first * steps * step),
            "x_row": steps * step,
            "x_step": step,
            "h0": In(1, at),
            "h0_row": state_row,
            "c0": In(2, at) if has_cell else 0,
            "c0_row": state_row if has_cell else 0,
            "lengths": each,
            "y": Scratch(scratch + self._y_at(count)) if self.states_only else Out(0, at * steps),
            "y_row": 0 if self.states_only else steps * state_row,
            "ho": Out(state, at),
            "ho_row": state_row,
            "co": Out(state + 1, at) if has_cell else 0,
            "co_row": state_row if has_cell else 0,
            **dict(weights),
            "batch": count,
            "steps": steps,
            "inputs": self.inputs,
            "hidden": self.hidden,
            "padded": spec.padded(self.hidden),
            "backward": int(self.walks[d]),
            "clip": self.clip,
            "ahead": ahead_steps(
                spec,
                most_of_pass(count, self.pass_rows),
                steps,
                self.multiplied,
                self.hidden,
            ),
            "pass_rows": self.pass_rows or count,
            "workspace": Scratch(scratch),
        }

    def split(self, threads: int) -> Stages:
        """The stages in which so many threads share the work."""
        directions = range(len(self.walks))
        members = threads // len(directions)
        by_team = replace(self, pass_rows=0)
        if (
            members > 1
            and self.yields
            and _suits_team(self.spec, self.batch, self.multiplied, self.hidden, members)
        ):
            return by_team._by_team(members)
        by_rows = self._by_rows(threads)
        if (
            members > 1
            and self.yields
            and isinstance(self.batch, Size)
            and _suits_team(self.spec, 1, self.multiplied, self.hidden, members)
        ):
            return self._by_team_or_rows(
                self.batch,
                by_team._by_team(members),
                by_rows,
                _team_rows(self.spec, self.hidden, members),
            )
        return by_rows

    def _by_rows(self, threads: int) -> Stages:
        """The stages in which every thread does rows of its own."""
        directions = range(len(self.walks))
        calls: list[KernelCall] = []
        scratch: SizeLike = self.packed_bytes
        for d in directions:
            for first, count in shares(self.batch, -(-threads // len(directions))):
                calls.append(self.rows(d, first, count, scratch))
                scratch += self.workspace(count)
        return Stages([*([call] for call in self.packing), calls], scratch)

    def _by_team_or_rows(self, batch: Size, by_team: Stages, by_rows: Stages, limit: int) -> Stages:
        """The stages of the team where there are fewer rows than the limit, else those by rows."""
        packing = by_rows.stages[: len(self.packing)]
        few, many = (replace(by, stages=by.stages[len(packing) :]) for by in (by_team, by_rows))
        few, many = (
            few.only(AtLeast(batch, limit, otherwise=True)),
            many.only(AtLeast(batch, limit)),
        )
        return joined([Stages(packing, 0), few, many])

    def _by_team(self, members: int) -> Stages:
        """The stages in which so many threads run every direction and share its units."""
        spec = replace(self.spec, team=True)
        stages: list[list[KernelCall]] = [[call] for call in self.packing]
        calls: list[KernelCall] = []
        scratch: SizeLike = self.packed_bytes
        for d in range(len(self.walks)):
            lines = scratch + self.workspace(self.batch)
            operands = self._operands(d, 0, self.batch, scratch)
            team = {"members": members, "lines": Scratch(lines), "let_run": ReleaseGil()}
            first, *others = [
                spec(**operands, **team, member=member) for member in range(-1, members)
            ]
            stages.append([first])
            calls += others
            scratch = lines + 2 * LINE * members
        return Stages([*stages, calls], scratch)


def _packed_arrays(
    spec: Recurrent, w: Array, r: Array, b: Array, table: Array | None
) -> list[Array]:
    """The arrays of `pack` in the order of the kernel's arguments; with a table, its products with
    W take the place of W.
    """
    made = pack(spec, w if table is None else w[:, :0], r, b)
    return [
        made.w if table is None else projected_table(spec, table, w, b),
        made.r,
        made.r_new,
        made.bias,
        made.inner_bias,
    ]
