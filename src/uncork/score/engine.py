"""The base of engines: they hand units to workers and tell the sink of each that is done.

`write_unit` is what a worker does with a unit when it can write into the folder of the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from uncork.errors import UncorkError
from uncork.score.columns import RowError
from uncork.score.journal import Finished
from uncork.score.parts import PartWriter, part_path, rejects_path
from uncork.score.sink import Sink
from uncork.score.source import Unit
from uncork.score.target import NOTE
from uncork.score.unit import Counts, Job, UnitScorer

#: Faults that a unit reports as examples; the rejects have all.
EXAMPLES = 5


class Engine(Protocol):
    """An engine: it brings units to workers, and what they report to the sink.

    An engine may be made before there is a job, so that its workers start meanwhile. It is closed
    whatever happens.
    """

    @property
    def workers(self) -> int:
        """How many units can be scored at a time."""

    @property
    def replaced(self) -> int:
        """The number of workers that died, and whose units were scored by another."""

    def score_units(
        self, job: Job, units: Sequence[Unit], sink: Sink, progress: Callable[[int], None]
    ) -> list[RowError]:
        """Score the units, call `sink.done` once for each, and return some of their faults, by row.

        The parts of a unit must be in `sink.folder`, whole and durable, before `sink.done`.
        `progress` is told how many rows are scored, those of `sink` before the run included. Raises
        what a worker raised; a unit whose worker died is scored again.
        """

    def close(self) -> None:
        """End all workers. May be called twice."""


def at_once(commit: Callable[[], None]) -> None:
    """Commit a part, so that it is durable before anything else is done."""
    commit()


def write_unit(
    scorer: UnitScorer,
    unit: Unit,
    folder: Path,
    progress: Callable[[int], None],
    when: Callable[[Callable[[], None]], None] = at_once,
) -> tuple[Finished, list[RowError]]:
    """Score a unit into its part, a batch at a time, and its rejected rows into theirs.

    `progress` is told the rows of each batch. Returns what the journal keeps and the first faults;
    `when` is given the last step of each part, which takes a disk and no processor: the parts are
    there when these have been taken. What fails leaves no part.
    """
    writers: list[PartWriter] = []
    try:
        result = _written(scorer, unit, folder, progress, writers)
    except BaseException:
        for writer in writers:
            writer.abandon()
        raise
    for writer in writers:
        when(writer.commit)
    return result


def _written(
    scorer: UnitScorer,
    unit: Unit,
    folder: Path,
    progress: Callable[[int], None],
    writers: list[PartWriter],
) -> tuple[Finished, list[RowError]]:
    """Score a unit into `writers`, which are finished and wait to be committed."""
    counts = Counts()
    faults: list[RowError] = []
    examples: list[RowError] = []
    job = scorer.job
    writers.append(PartWriter(part_path(folder, unit.number), job.schema, job.plain_columns))
    for scored in scorer.batches(unit):
        writers[0].write(scored.table)
        counts = counts.with_batch(scored)
        examples.extend(scored.faults[: EXAMPLES - len(examples)])
        if job.on_error == "reject":
            faults.extend(scored.faults)
        progress(scored.rows)
    counts.check(unit.rows, f"rows {unit.first_row} to {unit.first_row + unit.rows - 1}")
    writers[0].note(NOTE, job.note(counts))
    size, rejects = writers[0].finish(), 0
    if faults:
        writers.append(PartWriter(rejects_path(folder, unit.number), job.reject_schema))
        for batch in scorer.rejects(unit, faults).to_batches():
            writers[1].write(batch)
        rejects = writers[1].finish()
    return Finished(unit.number, counts, size, rejects), examples


def error_of_worker(error: Exception) -> UncorkError:
    """The UncorkError for an error that a worker met, worded for whoever asked for the scores."""
    if isinstance(error, UncorkError):
        return error
    if isinstance(error, MemoryError):
        return UncorkError(
            f"not enough memory: {error}: fewer workers or a smaller batch take less"
        )
    if isinstance(error, OSError):
        return UncorkError(f"{error.strerror or error}", error.filename or "worker")
    told = "".join(traceback.format_exception(error))
    return UncorkError(f"failed in a way that nobody thought of:\n{told}", "worker")
