"""`python -m benchmarks startup`: from the start of a process to its first result, each time in a
fresh process.

A warm run finds compiled kernels (OpenVINO: a compiled model) of an earlier run in its cache, a
cold one finds an empty home. Files are in the system's page cache in both. A compiled file was made
before (`uncork compile`), and its process finds an empty home.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import uncork
from benchmarks.goals import STARTUP_COLD, STARTUP_WARM
from benchmarks.models import EXAMPLES, Recorded, example_call, recorded_calls
from benchmarks.options import Options
from benchmarks.processes import READY, Run, command, environment, timed
from benchmarks.report import Report, markdown_table

_PROGRAM = f"""
import sys
import numpy
stored = numpy.load(sys.argv[2])
inputs = [stored[str(i)] for i in range(len(stored.files))]
results = run(load(sys.argv[1], inputs), inputs)
{READY}
if len(sys.argv) > 3:
    numpy.savez(sys.argv[3], **{{str(i): numpy.asarray(a) for i, a in enumerate(results)}})
"""


@dataclass(frozen=True)
class _Way:
    """A system and what it finds in its cache."""

    name: str
    system: str
    cache: str = ""  # a folder that OpenVINO keeps compiled models in
    cold: bool = False
    fixed: bool = False
    #: A compiled file in place of the model.
    compiled: str = ""

    def command(self, options: Options) -> list[str]:
        return command(self.system, _PROGRAM, options.threads, self.cache, self.fixed)


@dataclass(frozen=True)
class _Result:
    model: str
    way: str
    min_s: float
    median_s: float
    peak_mb: float
    runs: int


def _models(options: Options) -> Iterator[tuple[str, Path, Recorded]]:
    for name in ("textclass_embeddingbag_sum", "gru4rec_ml100k"):
        path = options.models / name / "model.xml"
        if path.exists() and options.wants(name):
            yield name, path, recorded_calls(path.parent)[0]
    for path in sorted(EXAMPLES.glob("*/model.xml")):
        if options.wants(path.parent.name) and any(
            path.parent.glob("*.npz")
        ):  # others come without inputs
            yield path.parent.name, path, example_call(path)


def main(options: Options) -> int:
    """All models that are there."""
    results: list[_Result] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, path, recorded in _models(options):
            folder = Path(scratch) / name
            folder.mkdir()
            results += _measure(name, path.resolve(), recorded, options, folder, notes)
    if not results:
        print("no such model is there")
        return 2
    report = Report("startup", options)
    rows = [
        [r.model, r.way, f"{r.min_s:.3f}", f"{r.median_s:.3f}", f"{r.peak_mb:.0f}", str(r.runs)]
        for r in results
    ]
    page = [
        markdown_table(
            ["model", "contender", "minimum, s", "median, s", "peak memory, MB", "runs"], rows
        ),
        _verdicts(results),
    ]
    report.write(
        {"startup": [asdict(r) for r in results], "notes": notes},
        "\n\n".join([*page, *(f"- {note}" for note in notes)]),
    )
    report.say()
    return 1 if any("uncork" in note for note in notes) else 0


def _measure(
    name: str, path: Path, recorded: Recorded, options: Options, folder: Path, notes: list[str]
) -> list[_Result]:
    given = folder / "inputs.npz"
    stored: dict[str, Any] = {str(i): a for i, a in enumerate(recorded.inputs)}
    np.savez(given, **stored)
    ways = [
        _Way("Python and NumPy alone", "nothing"),
        _Way("uncork, warm", "uncork"),
        _Way("uncork, cold", "uncork", cold=True),
    ]
    compiled = folder / "model.uncork"
    try:
        uncork.compile_to(path, compiled, threads=options.threads)
        ways.append(_Way("uncork, compiled file", "uncork", cold=True, compiled=str(compiled)))
    except uncork.UncorkError as error:
        notes.append(f"{name}, compiled file: {error}")
    if options.peers.get("openvino"):
        for fixed in (False, True):
            called = "openvino, fixed shapes" if fixed else "openvino"
            ways.append(_Way(called, "openvino", fixed=fixed))
            ways.append(
                _Way(
                    f"{called}, model cache",
                    "openvino",
                    str(folder / f"openvino{fixed}"),
                    fixed=fixed,
                )
            )
    runs: dict[_Way, list[Run]] = {}
    for way in list(ways):
        try:  # the first run fills the caches, and tells whether the result is right
            made = folder / "outputs.npz"
            timed(
                [*way.command(options), way.compiled or str(path), str(given), str(made)],
                _home(way, folder, options),
                folder,
            )
            problem = "" if way.system == "nothing" else _wrong(made, recorded)
        except RuntimeError as error:
            problem = str(error)
        if problem:
            notes.append(f"{name}, {way.name}: {problem}")
            ways.remove(way)
        else:
            runs[way] = []
    for number in range(3 if options.quick else 15):
        for turn in range(len(ways)):
            way = ways[(turn + number) % len(ways)]
            runs[way].append(
                timed(
                    [*way.command(options), way.compiled or str(path), str(given)],
                    _home(way, folder, options),
                    folder,
                )
            )
    return [
        _Result(
            name,
            way.name,
            min(run.seconds for run in done),
            statistics.median(run.seconds for run in done),
            statistics.median(run.peak_bytes for run in done) / 1e6,
            len(done),
        )
        for way, done in runs.items()
    ]


def _home(way: _Way, folder: Path, options: Options) -> dict[str, str]:
    home = folder / ("cold" if way.cold else "warm")
    if way.cold:
        shutil.rmtree(home, ignore_errors=True)
    home.mkdir(exist_ok=True)
    return environment(home, options.threads)


def _wrong(made: Path, recorded: Recorded) -> str:
    """What is wrong with the results in a file, or nothing."""
    with np.load(made) as stored:
        results = [stored[str(i)] for i in range(len(stored.files))]
    for got, expected in zip(results, recorded.outputs, strict=True):
        if got.shape != expected.shape or not np.allclose(got, expected, rtol=1e-3, atol=1e-4):
            return "wrong result, not measured"
    return ""


def _verdicts(results: list[_Result]) -> str:
    lines = []
    for model in dict.fromkeys(r.model for r in results):
        found = {r.way: r.min_s for r in results if r.model == model}
        if "uncork, warm" in found:
            line = f"{model}: warm {_judged(found['uncork, warm'], STARTUP_WARM)}"
            if "uncork, cold" in found:
                line += f", cold {_judged(found['uncork, cold'], STARTUP_COLD)}"
            others = [seconds for way, seconds in found.items() if way.startswith("openvino")]
            if others:
                line += f"; OpenVINO's best / ours, warm: {min(others) / found['uncork, warm']:.2f}"
                if "uncork, compiled file" in found:
                    share = found["uncork, compiled file"] / min(others)
                    line += f", compiled file / OpenVINO's best: {share:.2f}"
            lines.append(line)
    return "\n\n".join(lines)


def _judged(seconds: float, goal: float) -> str:
    return f"{seconds:.3f} s ({'<=' if seconds <= goal else '**misses**'} {goal} s)"
