"""The results of a sequence: every new state to Y, and the last one of each row to Ho, for LSTM
also to Co.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, Value
from uncork.kernels.recurrent.emit_frame import Frame
from uncork.kernels.recurrent.emit_rows import RowsByLength
from uncork.kernels.runtime.target import LINE


class Output:
    """Writes states to where the caller wants them."""

    def __init__(self, frame: Frame, rows: RowsByLength) -> None:
        self.f, self.rows = frame, rows

    def ask(self, t: Value, rows: Value) -> None:
        """Ask for the lines of Y that a step will write: those of several rows lie far apart."""
        k, f = self.f.k, self.f
        row_bytes = f.a["hidden"] * f.spec.size
        with k.if_(rows > 1), k.loop(0, rows) as row:
            y = self._y(t, row)
            with k.loop(y, y + row_bytes, LINE) as line:
                k.prefetch(line)

    def _y(self, t: Value, row: Value) -> Value:
        """Where a row's new state is to lie in Y."""
        a, size = self.f.a, self.f.spec.size
        time = self.rows.time(row, t)
        return a["y"] + self.rows.original(row) * a["y_row"] + time * a["hidden"] * size

    def give(
        self, t: Value, rows: Value, new: Value, first: Value | None = None, units: int = 0
    ) -> None:
        """Write new states to Y and, where a row ends, to Ho and Co: all units, or some of a
        panel.
        """
        k, a, p, f = self.f.k, self.f.a, self.f.p, self.f
        start, count = k.integer(0), a["hidden"]
        if first is not None:
            start, count = (
                first * f.spec.size,
                k.maximum(k.minimum(a["hidden"] - first, k.integer(units)), k.integer(0)),
            )
        with k.loop(0, rows) as row:
            original = self.rows.original(row)
            offset = row * f.row + start
            f.copy(
                new + offset,
                self._y(t, row) + start,
                count,
            )
            with k.if_(k.load(p["lengths"] + row * 8, I64).equals(t + 1)):
                f.copy(new + offset, a["ho"] + original * a["ho_row"] + start, count)
                if f.spec.cell == "lstm":
                    f.copy(p["extra"] + offset, a["co"] + original * a["co_row"] + start, count)
