"""The rows of a sequence's batch: sorted by length, begun with their initial states, and gone when
they end.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I64, INDEX_TYPES, Value, Variable
from uncork.kernels.recurrent.emit_frame import Frame


class RowsByLength:
    """The rows of the batch in the order of their lengths, longest first."""

    def __init__(self, frame: Frame) -> None:
        self.f, self.k, self.a, self.p, self.spec = frame, frame.k, frame.a, frame.p, frame.spec

    def sort(self) -> None:
        """Order the rows by length (a counting sort, so equal lengths keep their order); refuse bad
        lengths.
        """
        k, a, p = self.k, self.a, self.p
        steps = a["steps"]
        if not self.spec.lengths:  # all alike
            with k.loop(0, a["batch"]) as b:
                k.store(b, p["order"] + b * 8)
                k.store(steps, p["lengths"] + b * 8)
            return
        type_ = INDEX_TYPES[self.spec.lengths]
        with k.loop(0, steps + 1) as i:
            k.store(k.integer(0), p["counts"] + i * 8)
        with k.loop(0, a["batch"]) as b:
            length = k.load(a["lengths"] + b * type_.bytes, type_).to(I64)
            k.stop_unless(length.below(steps + 1), b + 1)
            place = p["counts"] + (steps - length) * 8
            k.store(k.load(place, I64) + 1, place)
        before = k.variable(k.integer(0))
        with k.loop(0, steps + 1) as i:
            count = k.load(p["counts"] + i * 8, I64)
            k.store(before.get(), p["counts"] + i * 8)
            before.set(before.get() + count)
        with k.loop(0, a["batch"]) as b:
            length = k.load(a["lengths"] + b * type_.bytes, type_).to(I64)
            place = p["counts"] + (steps - length) * 8
            position = k.load(place, I64)
            k.store(position + 1, place)
            k.store(b, p["order"] + position * 8)
            k.store(length, p["lengths"] + position * 8)

    def begin(self) -> None:
        """Bring initial states into order, make tables of addresses, and write zeros where Y and Ho
        have no step.
        """
        k, a, p, f = self.k, self.a, self.p, self.f
        hidden = a["hidden"] * self.spec.size
        with k.loop(0, a["batch"]) as row:
            original = k.load(p["order"] + row * 8, I64)
            length = k.load(p["lengths"] + row * 8, I64)
            for table, states, pairs in (
                ("table_a", "state_a", "pairs_a"),
                ("table_b", "state_b", "pairs_b"),
                ("table_reset", "reset", "pairs_reset"),
            ):
                factors = (
                    p[pairs] + row * f.pairs_row if self.spec.parts else p[states] + row * f.row
                )
                k.store(factors, p[table] + row * 8)
            f.copy(a["h0"] + original * a["h0_row"], p["state_a"] + row * f.row)
            if self.spec.parts:
                # The last pair may reach past H, and what lies there is a factor of a weight that
                # is 0: it must be a number.
                for states in ("state_a", "extra"):
                    with k.loop(a["hidden"], a["padded"]) as i:
                        k.store(k.constant(0.0, F32), p[states] + row * f.row + i * 4)
                rounded = p["pairs_a"] + row * f.pairs_row
                f.round(
                    a["h0"] + original * a["h0_row"],
                    rounded,
                    a["hidden"],
                    f.factors * 2,
                    f.row >> 1,
                )
            if self.spec.cell == "lstm":
                f.copy(a["c0"] + original * a["c0_row"], p["extra"] + row * f.row)
            y = a["y"] + original * a["y_row"]
            with k.loop(length, a["steps"]) as t:
                f.copy(None, y + t * hidden)
            with k.if_(length.equals(0), likely=False):
                f.copy(None, a["ho"] + original * a["ho_row"])
                if self.spec.cell == "lstm":
                    f.copy(None, a["co"] + original * a["co_row"])

    def leave(self, live: Variable, t: Value) -> None:
        """Rows that have no step t leave the batch; they are the last ones."""
        k, p = self.k, self.p
        with k.while_(
            lambda: (
                (live.get() > 0)
                & (k.load(p["lengths"] + k.maximum(live.get() - 1, k.integer(0)) * 8, I64) <= t)
            )
        ):
            live.set(live.get() - 1)

    def time(self, row: Value, t: Value) -> Value:
        """The time step that a row is at: backwards each row begins at its own end."""
        length = self.k.load(self.p["lengths"] + row * 8, I64)
        return t + self.a["backward"] * (length - 1 - t - t)

    def original(self, row: Value) -> Value:
        """The number of a row in the batch."""
        return self.k.load(self.p["order"] + row * 8, I64)
