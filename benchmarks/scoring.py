"""`python -m benchmarks scoring`: rows per second of `uncork score` with one and two workers, and
of a loop of OpenVINO's calls.

Everything is timed from outside, as whole commands that find compiled kernels in their cache. A
command on one batch of rows says how long it takes to the first row; rows per second are of the
rows beyond these, in the time beyond that. The first and last rows of every output are held against
the references before a figure is kept.
"""

from __future__ import annotations

import importlib.util
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import scoring_memory
from benchmarks.options import Options
from benchmarks.processes import environment
from benchmarks.report import Report, markdown_table
from benchmarks.scoring_tables import BATCH, Work, works
from uncork import score as scoring
from uncork.score import prepare_score
from uncork.score.options import ScoreOptions

#: Rows per second of each worker, in those of OpenVINO's loop; and what two workers do, in those of
#: one.
GOAL, GOAL_TWO = 2.0, 1.8
_ROOT = Path(__file__).resolve().parent.parent
_JUDGED = 32
#: A light and a heavy model: starting Ray takes longer than scoring.
_BY_RAY = ("dlrm", "word_language")
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Way:
    """A contender: the words of its command but for the table and the output."""

    name: str
    system: str
    workers: int
    command: Callable[[Path, Path], list[str]]


@dataclass(frozen=True)
class Result:
    """Seconds of whole commands: the best of `runs`."""

    work: str
    way: str
    system: str
    workers: int
    rows: int
    batch: int
    seconds: float
    first_s: float
    runs: int

    @property
    def rate(self) -> float:
        """Rows per second beyond the first batch. A table too small to tell has the rate of the
        whole.
        """
        beyond = self.seconds - self.first_s
        return (self.rows - self.batch) / beyond if beyond > 0 else self.rows / self.seconds


def main(options: Options) -> int:
    """All models that are there, then memory."""
    results: list[Result] = []
    notes: list[str] = []
    memory: list[scoring_memory.Shared] = []
    with tempfile.TemporaryDirectory() as scratch:
        for work in works(options.models, options.quick):
            if options.wants(work.name):
                folder = Path(scratch) / work.name
                folder.mkdir()
                results += measure(work, options, folder, notes)
                shutil.rmtree(folder)
        if options.wants("memory") and Path("/proc/self/smaps_rollup").exists():
            memory = scoring_memory.measure(Path(scratch), options.quick)
    if results and not _ray():
        notes.append("Ray is not measured: it is not installed, or this version has no such engine")
    if not results and not memory:
        print("no such model is there" if not notes else "\n".join(notes))
        return 1 if notes else 2
    report = Report("scoring", options)
    data = {
        "scoring": [asdict(r) | {"rows_per_second": round(r.rate, 1)} for r in results],
        "memory": [asdict(m) for m in memory],
        "notes": notes,
    }
    parts = [page(results), scoring_memory.page(memory), "\n".join(f"- {note}" for note in notes)]
    report.write(data, "\n\n".join(part for part in parts if part))
    report.say()
    return 1 if any(", uncork" in note for note in notes) else 0


def ways_of(work: Work, options: Options, folder: Path) -> list[Way]:
    """Who scores this table here. OpenVINO's job is settled by uncork, and so are its rows and
    columns.
    """

    def ours(workers: int, *more: str) -> Callable[[Path, Path], list[str]]:
        words = [f"--input={name}={what}" for name, what in work.inputs.items()]
        words += ["--keep=number", f"--batch-size={BATCH}", f"--workers={workers}", *more]
        return lambda table, output: [
            sys.executable,
            "-m",
            "uncork",
            "score",
            str(work.model),
            str(table),
            str(output),
            *words,
        ]

    def loop(shapes: str) -> Callable[[Path, Path], list[str]]:
        def command(table: Path, output: Path) -> list[str]:
            stored = folder / f"{table.stem}.pickle"
            if not stored.exists():
                prepared = prepare_score(
                    work.model,
                    table,
                    ScoreOptions(inputs=work.inputs, keep=["number"], batch_size=BATCH),
                )
                stored.write_bytes(pickle.dumps((prepared.job, prepared.units)))
            return [
                sys.executable,
                "-m",
                "benchmarks.scoring_loop",
                str(stored),
                str(output),
                shapes,
            ]

        return command

    ways = [Way(f"uncork, {n} worker{'s' * (n > 1)}", "uncork", n, ours(n)) for n in (1, 2)]
    if _ray() and work.name in _BY_RAY:
        ways.append(Way("uncork, Ray, 2 workers", "ray", 2, ours(2, "--engine=ray")))
    if options.peers.get("openvino"):
        ways += [
            Way(f"openvino, {shapes} shapes", "openvino", 1, loop(shapes))
            for shapes in ("dynamic", "fixed")
        ]
    return ways


def _ray() -> bool:
    return all(importlib.util.find_spec(name) for name in ("ray", "uncork.score.ray_engine"))


def measure(work: Work, options: Options, folder: Path, notes: list[str]) -> list[Result]:
    """Run every contender on both tables by turns; of a contender that is wrong there is a note and
    no figure.
    """
    env = environment(folder, 1)
    one, all_rows = (
        work.write(folder / "one.parquet", 1),
        work.write(folder / "all.parquet", work.batches),
    )
    expected = _expected(work, all_rows, folder)
    seconds: dict[Way, list[tuple[float, float]]] = {}
    for way in ways_of(work, options, folder):
        try:  # the first run fills the caches, and tells whether the results are right
            _timed(way, one, folder, env)
            first, whole = (
                _timed(way, one, folder, env),
                _timed(way, all_rows, folder, env, expected),
            )
            seconds[way] = [(first, whole)]
        except (RuntimeError, OSError) as error:
            notes.append(f"{work.name}, {way.name}: {error}")
    # Of OpenVINO's two ways the slower one has been measured enough.
    theirs = sorted(
        (way for way in seconds if way.system == "openvino"), key=lambda way: seconds[way][0][1]
    )
    again = [way for way in seconds if way.system == "uncork"] + theirs[:1]
    for number in range(0 if options.quick else 2):
        for turn in range(len(again)):
            way = again[(turn + number) % len(again)]
            seconds[way].append((_timed(way, one, folder, env), _timed(way, all_rows, folder, env)))
    rows = work.batches * BATCH
    return [
        Result(
            work.name,
            w.name,
            w.system,
            w.workers,
            rows,
            BATCH,
            min(s for _, s in done),
            min(s for s, _ in done),
            len(done),
        )
        for w, done in seconds.items()
    ]


def _timed(
    way: Way, table: Path, folder: Path, env: dict[str, str], expected: pa.Table | None = None
) -> float:
    """Seconds of a whole command. Raises RuntimeError when it fails, or when its output is not the
    expected one.
    """
    output = folder / "output"
    command = way.command(table, output)
    start = time.perf_counter()
    made = subprocess.run(command, env=env, cwd=_ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    try:
        if made.returncode:
            raise RuntimeError(
                (made.stderr.strip().splitlines() or ["it ended without a word"])[-1][:300]
            )
        if expected is not None and (
            problem := wrong(output, expected, pq.ParquetFile(table).metadata.num_rows)
        ):
            raise RuntimeError(problem)
    finally:
        shutil.rmtree(output, ignore_errors=True)
    return seconds


def _expected(work: Work, table: Path, folder: Path) -> pa.Table:
    """The scores of the first and last rows by the references."""
    rows = pq.read_table(table)
    some = pa.concat_tables([rows.slice(0, _JUDGED), rows.slice(rows.num_rows - _JUDGED)])
    pq.write_table(some, folder / "judged.parquet")
    made = folder / "expected.parquet"
    scoring(
        work.model,
        folder / "judged.parquet",
        made,
        inputs=work.inputs,
        keep=["number"],
        workers=1,
        backend="reference",
    )
    return pq.read_table(made)


def wrong(output: Path, expected: pa.Table, rows: int) -> str:
    """What is wrong with a folder of parts, or nothing: the number of rows, and those at both
    ends.
    """
    parts = sorted(output.glob("part-*.parquet"))
    count = sum(pq.ParquetFile(part).metadata.num_rows for part in parts)
    if count != rows:
        return f"{count} rows of {rows}"
    half = expected.num_rows // 2
    first, last = pq.read_table(parts[0]).slice(0, half), pq.read_table(parts[-1])
    got = pa.concat_tables([first, last.slice(last.num_rows - half)])
    if got["number"].to_pylist() != expected["number"].to_pylist():
        return "rows are not in order, not measured"
    for name in expected.column_names[1:]:
        one, other = (
            np.asarray(pa.compute.list_flatten(c) if pa.types.is_nested(c.type) else c)
            for c in (got[name], expected[name])
        )
        if one.shape != other.shape or not np.allclose(
            one, other, rtol=_TOLERANCE, atol=_TOLERANCE
        ):
            return "wrong results, not measured"
    return ""


def page(results: Sequence[Result]) -> str:
    """Rows per second of each contender beside the best of OpenVINO's."""
    if not results:
        return ""
    head = [
        "table",
        "contender",
        "rows",
        "rows/s",
        "of each worker / OpenVINO",
        "/ one worker",
        "whole command, s",
        "to the first batch, s",
    ]
    lines: list[list[str]] = []
    for r in results:
        same = [other for other in results if other.work == r.work]
        theirs = max((other.rate for other in same if other.system == "openvino"), default=None)
        alone = next(
            (other.rate for other in same if other.system == "uncork" and other.workers == 1), None
        )
        ratio = (
            "-"
            if theirs is None or r.system == "openvino"
            else _judged(r.rate / r.workers / theirs, GOAL if r.system == "uncork" else None)
        )
        two = (
            "-"
            if alone is None or r.workers == 1
            else _judged(r.rate / alone, GOAL_TWO if r.system == "uncork" else None)
        )
        lines.append(
            [
                r.work,
                r.way,
                f"{r.rows:,}",
                f"{r.rate:,.0f}",
                ratio,
                two,
                f"{r.seconds:.2f}",
                f"{r.first_s:.2f}",
            ]
        )
    return f"Batches of {BATCH:,} rows; all scores are written.\n\n" + markdown_table(head, lines)


def _judged(value: float, goal: float | None) -> str:
    return f"{value:.2f}" + (
        "" if goal is None else f" (>= {goal})" if value >= goal else f" (**misses** {goal})"
    )
