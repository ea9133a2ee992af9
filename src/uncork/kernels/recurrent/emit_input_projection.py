"""The input projection of a sequence: products with X, biases included, some time steps ahead."""

from __future__ import annotations

from uncork.kernels.codegen.emit import INDEX_TYPES, Value, Variable
from uncork.kernels.codegen.thread_team import ThreadTeam
from uncork.kernels.recurrent.emit_epilogue import GateEpilogues
from uncork.kernels.recurrent.emit_frame import Frame
from uncork.kernels.recurrent.emit_microkernels import Microkernels, each
from uncork.kernels.recurrent.emit_rows import RowsByLength


class InputProjection:
    """Products of the rows of X with W; with `Recurrent.lookup` rows of a table that has them
    already.
    """

    def __init__(self, frame: Frame, rows: RowsByLength, microkernels: Microkernels) -> None:
        self.f, self.k, self.a, self.p, self.spec = frame, frame.k, frame.a, frame.p, frame.spec
        self.rows = rows
        extra = ("target", "target_row", "bias", *(("low",) if frame.spec.parts == 2 else ()))
        self.products = microkernels.make(
            "products", frame.gate_vectors, extra, GateEpilogues(frame.spec, frame.vector).products
        )

    def check_ids(self) -> None:
        """Refuse ids that are outside, also those of steps that no row runs."""
        k, a = self.k, self.a
        with k.loop(0, a["batch"]) as row, k.loop(0, a["steps"]) as step:
            k.stop_unless(self._id(row, step).below(a["inputs"]), k.integer(1))

    def project(self, first: Value, last: Value, live: Variable, team: ThreadTeam | None) -> None:
        """The products for all live rows of some steps: one row of gates after the other. `live`
        becomes the rows of the last step.
        """
        k = self.k
        if self.spec.lookup:
            if team is None:
                self._look_up(first, last, live)
                return
            before = live.get()
            with k.loop(first, last) as t:
                self.rows.leave(live, t)
            team.phase(k.integer(1), lambda _: self._look_up(first, last, k.variable(before)))
            return
        if team is None:
            rows = self._sources(first, last, live)
        else:
            before, rows = live.get(), k.variable(k.integer(0))
            with k.loop(first, last) as t:
                self.rows.leave(live, t)
                rows.set(rows.get() + live.get())
            team.phase(
                k.integer(1),
                lambda _: self._sources(first, last, k.variable(before)).set(rows.get()),
            )
        self._multiply(rows, team)

    def _id(self, row: Value, step: Value) -> Value:
        """The row of the table that a step of a row takes; outside of it where there is none."""
        k, a, spec = self.k, self.a, self.spec
        place = a["x"] + row * a["x_row"] + step * a["x_step"]
        return k.index_at(place, INDEX_TYPES[spec.lookup], a["inputs"], spec.wraps)

    def _look_up(self, first: Value, last: Value, live: Variable) -> None:
        """Copy the products from the table, in the order of rows and steps."""
        k, a, p, spec = self.k, self.a, self.p, self.spec
        target = k.variable(p["products"])
        with k.loop(first, last) as t:
            self.rows.leave(live, t)
            with k.loop(0, live.get()) as row:
                index = self._id(self.rows.original(row), self.rows.time(row, t))
                source = (
                    a["w"]
                    + k.select(index.below(a["inputs"]), index, a["inputs"]) * self.f.ahead_row
                )
                with k.loop(0, self.f.ahead_row, self.f.vector) as offset:
                    k.store(k.load(source + offset, self.f.type, spec.lanes), target.get() + offset)
                target.set(target.get() + self.f.ahead_row)

    def _multiply(self, rows: Variable, team: ThreadTeam | None) -> None:
        """Multiply the rows that the table of sources names by W, panel by panel."""
        k, a, p, f = self.k, self.a, self.p, self.f
        width = f.gate_vectors * f.vector

        def multiply(panel: Value) -> None:
            self.products.multiply_rows(
                k,
                p["table_x"],
                a["w"] + panel * f.inputs * (width * max(1, self.spec.parts)),
                f.inputs,
                rows.get(),
                lambda row: {
                    "target": p["products"] + row * f.ahead_row + panel * width,
                    "target_row": f.ahead_row,
                    "bias": a["bias"] + panel * width,
                    "low": f.inputs * 4,
                    "source_row": f.inputs * (4 * self.spec.parts),
                    "sums": f.sums,
                },
            )

        each(k, f.ahead_row // width, multiply, team)

    def _sources(self, first: Value, last: Value, live: Variable) -> Variable:
        """Make the table of the rows of X that some steps take, one after the other; with bf16 the
        rows are rounded. The result is how many there are.
        """
        k, a, p, f = self.k, self.a, self.p, self.f
        rows = k.variable(k.integer(0))
        with k.loop(first, last) as t:
            self.rows.leave(live, t)
            with k.loop(0, live.get()) as row:
                source = (
                    a["x"]
                    + self.rows.original(row) * a["x_row"]
                    + self.rows.time(row, t) * a["x_step"]
                )
                if self.spec.parts:
                    rounded = p["pairs_x"] + rows.get() * (f.inputs * (4 * self.spec.parts))
                    f.round(source, rounded, a["inputs"], f.inputs * 2, f.inputs * 4)
                    source = rounded
                k.store(source, p["table_x"] + rows.get() * 8)
                rows.set(rows.get() + 1)
        return rows
