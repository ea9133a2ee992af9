"""One time step of all rows that are still in the batch: products with R, and from their sums to
the new states.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import Value
from uncork.kernels.codegen.thread_team import ThreadTeam
from uncork.kernels.recurrent.emit_epilogue import GateEpilogues
from uncork.kernels.recurrent.emit_frame import Frame
from uncork.kernels.recurrent.emit_microkernels import Microkernels, each
from uncork.kernels.recurrent.emit_output import Output


class StepMicrokernels:
    """The microkernels of a step. "gru" has two, since its new gate needs the state that the other
    gates have reset.
    """

    def __init__(self, frame: Frame, microkernels: Microkernels, output: Output) -> None:
        self.f, self.k, self.a, self.p, self.spec = frame, frame.k, frame.a, frame.p, frame.spec
        self.output = output
        spec, ends = frame.spec, GateEpilogues(frame.spec, frame.vector)
        common = (
            "ahead",
            "ahead_row",
            "unit",
            "new",
            "old",
            "row",
            "clip",
            *(("pairs",) if spec.parts else ()),
            *(("low",) if spec.parts == 2 else ()),
        )
        if spec.cell == "gru":
            self.first = microkernels.make("reset", 2, (*common, "extra", "reset"), ends.gru_reset)
            self.second = microkernels.make("new", 2, (*common, "extra"), ends.gru_new)
        elif spec.cell == "gru_after":
            self.first = microkernels.make("step", 3, (*common, "inner_bias"), ends.gru_after)
        elif spec.cell == "lstm":
            self.first = microkernels.make("step", 4, (*common, "extra"), ends.lstm)
        else:
            self.first = microkernels.make("step", 2, common, ends.rnn)

    def take(self, t: Value, rows: Value, products: Value, team: ThreadTeam | None) -> None:
        """Run step `t` of so many rows: from one of the two states to the other, then out to Y.
        `products` are those with X.
        """
        k, a, p, f = self.k, self.a, self.p, self.f
        odd = (t & 1).equals(1)
        old_table = k.select(odd, p["table_b"], p["table_a"])
        old, new = (
            k.select(odd, p["state_b"], p["state_a"]),
            k.select(odd, p["state_a"], p["state_b"]),
        )
        pairs = k.select(odd, p["pairs_a"], p["pairs_b"]) if self.spec.parts else new

        def given(
            row: Value, panel: Value, units: int, gates: int, pairs: Value = pairs
        ) -> dict[str, Value]:
            """The extra arguments of a block of rows: its part of the products, its units, where
            its new state goes.
            """
            offset = row * f.row
            return {
                "ahead": products + row * f.ahead_row + panel * (units * gates * self.spec.size),
                "ahead_row": f.ahead_row,
                "unit": panel * (units * self.spec.size),
                "new": new + offset,
                "row": f.row,
                "clip": a["clip"],
                "extra": p["extra"] + offset,
                "reset": p["reset"] + offset,
                "old": old + offset,
                "inner_bias": a["inner_bias"] + panel * (units * self.spec.size),
                "pairs": pairs + row * f.pairs_row,
                "low": f.row >> 1,
                "source_row": f.pairs_row,
                "sums": f.sums,
            }

        units, wide = self.spec.units, self.spec.wide
        parts = max(1, self.spec.parts)
        reset = p["pairs_reset"] if self.spec.cell == "gru" and self.spec.parts else pairs
        width = 2 * f.vector if self.spec.cell == "gru" else f.gate_vectors * f.vector

        def first(panel: Value) -> None:
            self.first.multiply_rows(
                k,
                old_table,
                a["r"] + panel * f.factors * (width * parts),
                f.factors,
                rows,
                lambda row: given(row, panel, units, self.spec.gates, reset),
            )
            self._fill(rows, panel, units, reset)
            if team is not None and self.spec.cell != "gru":
                self.output.give(t, rows, new, panel * units, units)

        def second(panel: Value) -> None:
            self.second.multiply_rows(
                k,
                p["table_reset"],
                a["r_new"] + panel * f.factors * (wide * self.spec.size * parts),
                f.factors,
                rows,
                lambda row: given(row, panel, wide, 3),
            )
            self._fill(rows, panel, wide, pairs)
            if team is not None:
                self.output.give(t, rows, new, panel * wide, wide)

        if team is None:
            self.output.ask(t, rows)
        # In odd steps panels are read the other way round, so that what the cache still holds comes
        # first.
        each(k, a["padded"] // units, first, team, odd)
        if self.spec.cell == "gru":
            each(k, a["padded"] // wide, second, team, odd)
        if team is None:
            self.output.give(t, rows, new)

    def _fill(self, rows: Value, panel: Value, units: int, pairs: Value) -> None:
        """Make the factors of a panel that fill the last block of a row zeros. They are multiplied
        by zeros, but units that do not exist are NaN behind an infinite factor.
        """
        if not self.spec.parts:
            return
        k, f, hidden = self.k, self.f, self.a["hidden"]
        first = k.maximum(hidden, panel * units)
        end = k.minimum(f.factors * 2, (panel + 1) * units)
        with k.if_(first < end, likely=False), k.loop(0, rows) as row:
            f.fill(pairs + row * f.pairs_row, first, end, f.row >> 1)
