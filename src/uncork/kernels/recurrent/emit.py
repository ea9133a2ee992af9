"""GRU, LSTM and RNN sequences in f32, one direction a call, on one microkernel.

The microkernel multiplies up to 8 rows by a panel of the weights: all gates of as many units as a
vector has lanes, so that the gates of a unit meet in registers and the step ends there, without a
buffer of gates in memory. Rows are sorted by length, longest first, and leave the batch when they
end: the cost is the sum of the lengths. Many rows make several passes, so that the states of one
stay in the first cache. The products with X are made for some time steps ahead by the same
microkernel, as many as stay in the second-level cache.

Weights lie as `pack.pack` puts them: panel by panel, and in a panel step by step of the inner
product.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.thread_team import ThreadTeam
from uncork.kernels.gemm import microkernel_amx as tiles
from uncork.kernels.recurrent.emit_frame import Frame
from uncork.kernels.recurrent.emit_input_projection import InputProjection
from uncork.kernels.recurrent.emit_microkernels import Microkernels
from uncork.kernels.recurrent.emit_output import Output
from uncork.kernels.recurrent.emit_rows import RowsByLength
from uncork.kernels.recurrent.emit_step import StepMicrokernels
from uncork.kernels.recurrent.spec import Recurrent


@emitter
def emit_recurrent(k: Kernel, spec: Recurrent) -> None:
    """The LLVM text of one direction of a sequence."""
    _Driver(Frame(k, spec)).emit()


class _Driver:
    """The emitter of one direction: rows in order of length, the products with X ahead, then step
    by step.
    """

    def __init__(self, frame: Frame) -> None:
        self.f, self.k, self.spec = frame, frame.k, frame.spec
        self.microkernels = Microkernels(frame)
        self.rows = RowsByLength(frame)
        self.input_projection = InputProjection(frame, self.rows, self.microkernels)
        self.step = StepMicrokernels(frame, self.microkernels, Output(frame, self.rows))

    def emit(self) -> None:
        k, a = self.k, self.f.a
        team = self._begin()
        self._configure_tiles()
        done = k.variable(k.integer(0))
        with k.while_(lambda: done.get() < a["batch"]):
            rows = self.f.most_rows(a["batch"] - done.get())
            self.f.pass_from(done.get())
            self._pass(rows, team)
            done.set(done.get() + rows)
        if self.spec.tiles:
            tiles.release(k)

    def _pass(self, rows: Value, team: ThreadTeam | None) -> None:
        """Emit all steps of so many rows."""
        k, a = self.k, self.f.a
        longest = k.load(self.f.p["lengths"], I64)
        live = k.variable(rows)  # rows still in the batch at the step that is being prepared
        running = k.variable(rows)  # and at the step that runs
        ahead = a["ahead"]
        chunks = (longest + ahead - 1) // ahead
        with k.loop(0, chunks) as chunk:
            first = chunk * ahead
            last = k.minimum(first + ahead, longest)
            if self.spec.tiles:
                tiles.configure(k, self.f.tiles_ahead)
            self.input_projection.project(first, last, live, team)
            if self.spec.tiles == "all":
                tiles.configure(k, self.f.tiles_step)
            self._steps(first, last, running, team)

    def _begin(self) -> ThreadTeam | None:
        """Emit what comes before all steps; member -1 of a team does it for the others."""
        k, a = self.k, self.f.a
        if not self.spec.team:
            self._prepare()
            return None
        with k.if_(a["member"] < 0):
            self._prepare()
            ThreadTeam.clear(k, a["members"], a["lines"])
            k.return_(k.integer(0))
        return ThreadTeam(k, a["member"], a["members"], a["lines"], a["let_run"])

    def _prepare(self) -> None:
        self.rows.sort()
        if self.spec.strict:
            self.input_projection.check_ids()
        self.rows.begin()

    def _configure_tiles(self) -> None:
        if self.spec.tiles:
            k, layout = self.k, self.microkernels.layout
            layout.write(k, self.f.tiles_ahead, k.integer(tiles.ROWS))
            layout.write(k, self.f.tiles_step, k.minimum(self.f.a["batch"], k.integer(tiles.ROWS)))

    def _steps(self, first: Value, last: Value, running: Variable, team: ThreadTeam | None) -> None:
        """Emit the steps whose products with X are there."""
        base = self.k.variable(self.f.p["products"])
        with self.k.loop(first, last) as t:
            self.rows.leave(running, t)
            self.step.take(t, running.get(), base.get(), team)
            base.set(base.get() + running.get() * self.f.ahead_row)
