"""`python -m benchmarks startup`: from the start of a process to its first result, each time in a
fresh process.

A warm run finds compiled kernels (OpenVINO: a compiled model) of an earlier run in its cache, a
cold one finds an empty home. Files are in the system's page cache in both. A compiled file was made
before (`uncork compile`), and its process finds an empty home; so was a program in C, where there
is a compiler (`uncork compile --c`), whose time is until its end.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
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
from benchmarks.processes import READY, Run, command, ended, environment, timed
from benchmarks.report import Report, markdown_table
from benchmarks.zoo import recorded
from uncork.compiler.image.c.write import write_c
from uncork.types import Array

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
    #: A program with the model inside, and what it is told of the inputs.
    program: tuple[str, ...] = ()

    def run(self, path: Path, given: Path, folder: Path, options: Options, made: str = "") -> Run:
        """A process that makes one call, and writes the results into a file where it has a name."""
        home = _home(self, folder, options)
        if self.program:
            return ended([*self.program, *(["-o", made] if made else [])], home, folder)
        words = command(self.system, _PROGRAM, options.threads, self.cache, self.fixed)
        model = self.compiled or str(path)
        return timed([*words, model, str(given), *([made] if made else [])], home, folder)


@dataclass(frozen=True)
class _Result:
    model: str
    way: str
    min_s: float
    median_s: float
    peak_mb: float | None
    runs: int


def _models(options: Options) -> Iterator[tuple[str, Path, Recorded]]:
    for path in sorted(options.models.glob("*/model.xml")):
        if options.wants(path.parent.name) and (path.parent / "inputs.npz").exists():
            ours = (path.parent / "outputs.npz").exists()
            yield path.parent.name, path, (recorded_calls if ours else recorded)(path.parent)[0]
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
        [r.model, r.way, f"{r.min_s:.3f}", f"{r.median_s:.3f}", _megabytes(r), str(r.runs)]
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
        program = _program(compiled, folder / "c", recorded.inputs)
        if program:
            ways.append(_Way("uncork, program in C", "C", cold=True, program=program))
    except uncork.UncorkError as error:
        notes.append(f"{name}, compiled: {error}")
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
            made = folder / ("outputs" if way.program else "outputs.npz")
            way.run(path, given, folder, options, str(made))
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
            runs[way].append(way.run(path, given, folder, options))
    return [
        _Result(
            name,
            way.name,
            min(run.seconds for run in done),
            statistics.median(run.seconds for run in done),
            _peak_mb(done),
            len(done),
        )
        for way, done in runs.items()
    ]


def _peak_mb(runs: list[Run]) -> float | None:
    known = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return statistics.median(known) / 1e6 if known else None


def _megabytes(result: _Result) -> str:
    return "-" if result.peak_mb is None else f"{result.peak_mb:.0f}"


def _program(compiled: Path, folder: Path, inputs: list[Array]) -> tuple[str, ...]:
    """A program in C that makes this call; none where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return ()
    write_c(compiled, folder)
    parts = [f"parts/{path.name}" for path in (folder / "parts").iterdir()]
    words = ["-O2", "-I.", "-o", "main", "main.c", "runtime.c", "image.c", *parts, "-lpthread"]
    subprocess.run([compiler, *words], cwd=folder, check=True)
    given = []
    for number, array in enumerate(inputs):
        array.tofile(folder / f"in{number}.bin")
        given.append(f"{','.join(map(str, array.shape))}:{folder / f'in{number}.bin'}")
    return str(folder / "main"), *given


def _home(way: _Way, folder: Path, options: Options) -> dict[str, str]:
    home = folder / ("cold" if way.cold else "warm")
    if way.cold:
        shutil.rmtree(home, ignore_errors=True)
    home.mkdir(exist_ok=True)
    return environment(home, options.threads)


def _wrong(made: Path, recorded: Recorded) -> str:
    """What is wrong with the results in a file, or nothing."""
    if made.suffix:
        with np.load(made) as stored:
            results = [stored[str(i)] for i in range(len(stored.files))]
    else:  # of a program in C
        results = [
            np.fromfile(f"{made}{i}.bin", output.dtype).reshape(output.shape)
            for i, output in enumerate(recorded.outputs)
        ]
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
                for way in ("compiled file", "program in C"):
                    if f"uncork, {way}" in found:
                        share = found[f"uncork, {way}"] / min(others)
                        line += f", {way} / OpenVINO's best: {share:.2f}"
            lines.append(line)
    return "\n\n".join(lines)


def _judged(seconds: float, goal: float) -> str:
    return f"{seconds:.3f} s ({'<=' if seconds <= goal else '**misses**'} {goal} s)"
