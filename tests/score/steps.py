"""Ends a scoring run at its n-th step on the file system, for every n, and looks at what is left.

Run by `test_every_step.py` in a process of its own, which has no threads: each run is a fork of it.
It ends by SIGKILL, by Ctrl-C or by an error of the disk, before the step is taken (`tests._steps`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import uncork
from tests._steps import count_steps, end, in_a_fork
from uncork.errors import UncorkError
from uncork.score.columns import RowError
from uncork.score.engine import write_unit
from uncork.score.sink import Sink
from uncork.score.source import Unit
from uncork.score.summary import Summary
from uncork.score.target import finished_note
from uncork.score.unit import Job, UnitScorer


class Here:
    """An engine without workers."""

    workers, replaced = 1, 0

    def __init__(self, *_: Any, units: int | None = None) -> None:
        self.units = units

    def score_units(
        self, job: Job, units: Sequence[Unit], sink: Sink, progress: Callable[[int], None]
    ) -> list[RowError]:
        scorer, faults = UnitScorer(job), list[RowError]()
        for number, unit in enumerate(units):
            if number == self.units:
                raise UncorkError("enough")
            finished, found = write_unit(scorer, unit, sink.folder, progress)
            sink.done(finished)
            faults += found
        return faults

    def close(self) -> None:
        """There is nothing to end."""


def score(folder: Path, output: str, rejects: str | None, **options: Any) -> Summary:
    """Rows 3 and 13 of twenty have an id that the model has no row for."""
    uncork.score.__dict__["_engine"] = Here
    on_error = {} if rejects is None else {"on_error": "reject", "rejects": rejects}
    source = folder / ("rows.parquet" if rejects else "good.parquet")
    common: dict[str, Any] = {
        "rows_per_part": 10,
        "batch_size": 5,
        "backend": "reference",
        **on_error,
        **options,
    }
    return uncork.score(folder / "model.xml", source, output, **common)


class Case:
    """A kind of run: what is written, and whether something is there before."""

    def __init__(self, folder: Path, output: str, rejects: str | None, overwrite: bool) -> None:
        self.folder, self.overwrite = folder, overwrite
        self.output = str(folder / output)
        self.rejects = None if rejects is None else os.path.join(folder, rejects)
        self.rows = (
            list(range(20)) if rejects is None else [i for i in range(20) if i not in (3, 13)]
        )

    def prepare(self) -> None:
        """Leave the folder as it is before the run: with an old output of other rows, or
        without.
        """
        elsewhere = self.elsewhere()
        for path in [*self.folder.iterdir(), *(elsewhere.iterdir() if elsewhere else ())]:
            if path.name not in (
                "model.xml",
                "model.bin",
                "rows.parquet",
                "good.parquet",
                "elsewhere",
            ):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.overwrite:
            assert not in_a_fork(lambda: score(self.folder, self.output, self.rejects, limit=4))

    def elsewhere(self) -> Path | None:
        """The folder of the rejects, when it is another."""
        folder = None if self.rejects is None else Path(self.rejects).parent
        return None if folder == self.folder else folder

    def run(self, resume: bool, overwrite: bool | None = None) -> Summary:
        overwrite = self.overwrite if overwrite is None else overwrite
        return score(self.folder, self.output, self.rejects, resume=resume, overwrite=overwrite)

    def hurt(self, number: int, how: str) -> None:
        def ends(taken: int) -> None:
            # A disk that is full stays full; the others happen once.
            if taken == number or (how == "full" and taken > number):
                end(how)

        expected = {"killed": (), "interrupted": KeyboardInterrupt}.get(how, UncorkError)
        count_steps(ends)
        with contextlib.suppress(expected):
            self.run(False)

    def steps(self) -> int:
        """How many there are in a whole run."""
        self.prepare()
        file = self.folder / "steps"
        last = [0]

        def body() -> None:
            count_steps(lambda taken: last.__setitem__(0, taken))
            self.run(False)
            os.write(os.open(file, os.O_CREAT | os.O_WRONLY), str(last[0]).encode())

        assert in_a_fork(body) == 0
        number = int(file.read_text())
        file.unlink()
        return number

    # ---- what must hold

    def look(self) -> None:
        """The output and the rejects are whole, old or new, or not there."""
        old = self.rows[: self.rows.index(4)] if self.overwrite else None
        target = Path(self.output)
        if target.exists():
            assert finished_note(target) is not None
            rows = pq.read_table(target)["row"].to_pylist()
            assert rows in (old, self.rows), rows
        elif self.overwrite:  # between two renames the old one has another name
            assert pq.read_table(target.with_name(f".{target.name}.old"))["row"].to_pylist() == old
        if self.rejects is not None and os.path.exists(self.rejects):
            rejected = pq.read_table(self.rejects)["reject_row"].to_pylist()
            assert rejected in ([3], [3, 13]) if self.overwrite else rejected == [3, 13]

    def resume(self) -> None:
        """Without --resume, a clear refusal or a whole output; with it, always the whole output."""
        self.look()
        try:
            self.run(False, overwrite=False)
        except UncorkError as error:
            message = str(error)
            assert (
                "is there already: choose another name, or overwrite it (--overwrite)" in message
                or "--resume" in message
            ), message
        self.look()
        summary = self.run(True)
        assert (summary.counts.rows, summary.counts.rejected) == (20, 20 - len(self.rows))
        assert pq.read_table(self.output)["row"].to_pylist() == self.rows
        self.look()
        self.nothing_else()
        again = self.run(True)
        assert again.already_finished and again.counts == summary.counts

    def nothing_else(self) -> None:
        """Nothing but the output stays."""
        names = {path.name for path in self.folder.iterdir()}
        names -= {"model.xml", "model.bin", "rows.parquet", "good.parquet", "elsewhere"}
        wanted = {os.path.basename(self.output)}
        if self.rejects is not None and self.elsewhere() is None:
            wanted.add(os.path.basename(self.rejects))
        elif self.rejects is not None:
            assert os.listdir(os.path.dirname(self.rejects)) == [os.path.basename(self.rejects)]
        assert names == wanted, names
        if os.path.isdir(self.output):
            parts = {f"part-{i:05d}.parquet" for i in range(2)}
            assert set(os.listdir(self.output)) == {"_SUCCESS", *parts}


def main(case: Case, how: str) -> None:
    """All steps of a kind of run; prints how many there were."""
    number, failed = case.steps(), []
    for step in range(1, number + 1):
        case.prepare()
        status = in_a_fork(lambda step=step: case.hurt(step, how))  # type: ignore[misc]
        assert status == (-signal.SIGKILL if how == "killed" else 0), (step, status)
        if in_a_fork(case.resume):
            failed.append(step)
    print(json.dumps({"steps": number, "failed": failed}))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Case(Path(words[0]), words[1], words[2] or None, words[3] == "overwrite"), words[4])
