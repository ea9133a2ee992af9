"""The summary of a run: progress on a terminal or in a log, and figures at its end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from uncork.progress import on_terminal
from uncork.score.columns import RowError
from uncork.score.unit import Counts

#: From one line to the next, where there is no terminal.
_LINE_SECONDS = 30.0


@dataclass(frozen=True)
class Summary:
    """The result of a run.

    `counts.rows` is all rows of the source: `counts.scored + counts.rejected`.

    `resumed_rows` of them were scored by an earlier run; `seconds` is this one's time and
    `rows_per_second` its own rows in it.
    """

    output: str
    rejects: str | None
    counts: Counts
    resumed_rows: int
    parts: int
    seconds: float
    workers: int
    replaced_workers: int
    on_error: str
    faults: tuple[RowError, ...]
    #: An earlier run had finished the output: this one found it, and did nothing.
    already_finished: bool = False

    @staticmethod
    def of_finished(
        output: str, rejects: str | None, note: dict[str, Any], parts: int, on_error: str
    ) -> Summary:
        """The summary of a run that was finished before; `note` is what its output says of it."""
        known = Counts.__dataclass_fields__  # another version may count more
        counts = Counts(**{name: count for name, count in note["counts"].items() if name in known})
        return Summary(output, rejects, counts, counts.rows, parts, 0.0, 0, 0, on_error, (), True)

    @property
    def rows_per_second(self) -> float:
        return (self.counts.rows - self.resumed_rows) / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON in the form `uncork-score-1`."""
        return {
            "schema": "uncork-score-1",
            "output": self.output,
            "rejects": self.rejects,
            "rows": self.counts.rows,
            "scored": self.counts.scored,
            "rejected": self.counts.rejected,
            "negative_ids": self.counts.negative_ids,
            "resumed_rows": self.resumed_rows,
            "parts": self.parts,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "workers": self.workers,
            "replaced_workers": self.replaced_workers,
            "already_finished": self.already_finished,
            "faults": [asdict(fault) for fault in self.faults],
        }

    def __str__(self) -> str:
        counts = self.counts
        lines = [
            f"{counts.rows:,} rows in = {counts.scored:,} scored + {counts.rejected:,} rejected"
        ]
        if self.already_finished:
            lines.append("finished by an earlier run: there was nothing to do")
            lines.append(self._places())
            return "\n".join(lines)
        if counts.negative_ids:
            lines.append(
                f"{counts.negative_ids:,} negative ids were counted from the end of their table"
                " (--no-negative-ids, negative_ids=False: such rows are rejected)"
            )
        own = f" ({self.resumed_rows:,} rows by an earlier run)" if self.resumed_rows else ""
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        replaced = f", {self.replaced_workers} replaced" if self.replaced_workers else ""
        lines.append(
            f"{self.seconds:.1f} s, {self.rows_per_second:,.0f} rows/s, {workers}{replaced}{own}"
        )
        lines.extend(f"  {fault}" for fault in self.faults)
        if counts.rejected > len(self.faults):
            lines.append(f"  and {counts.rejected - len(self.faults):,} more")
        if counts.rejected and self.on_error == "null":
            lines.append("rejected rows are in the output, without results")
        lines.append(self._places())
        return "\n".join(lines)

    def _places(self) -> str:
        rejects = f"; rejected rows: {self.rejects}" if self.rejects else ""
        return f"output: {self.output}{rejects}"


@contextlib.contextmanager
def progress_bar(total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar as a context, which gives a function to be told how many rows are done.

    It shows them, rows/s and the time left: in place on a terminal, and else as a line of standard
    error every half a minute, for logs.
    """
    if not show or sys.stderr is None:
        yield lambda rows: None
        return
    if not on_terminal():
        yield progress_lines(total, time.monotonic)
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield progress_lines(total, time.monotonic)
        return
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rows", total=total, speed="")

        def show_rows(rows: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=rows, speed=f"{speed:,.0f} rows/s" if speed else "")

        yield show_rows


def progress_lines(total: int, clock: Callable[[], float]) -> Callable[[int], None]:
    """A function that is told how many rows are done, and prints a line now and then."""
    start = said = clock()
    before: int | None = None

    def say(rows: int) -> None:
        nonlocal said, before
        now = clock()
        if before is None:  # those of earlier runs are no work of this one
            before = rows
        if now - said < _LINE_SECONDS:
            return
        said = now
        speed = (rows - before) / (now - start)
        left = f", {(total - rows) / speed:,.0f} s left" if speed else ""
        print(f"{rows:,} of {total:,} rows, {speed:,.0f} rows/s{left}", file=sys.stderr, flush=True)

    return say
