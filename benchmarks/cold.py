"""`python -m benchmarks cold --models DIR`: networks on a machine that has never seen them, beside
OpenVINO.

Every run is a fresh process with an empty home, so all kernels are compiled. Told are the seconds
from `load` to the first result, after the imports, on the clock and of the processor; OpenVINO's
are those of reading, compiling and the first inference.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.options import Options
from benchmarks.processes import command, environment
from benchmarks.report import Report, markdown_table

#: Times OpenVINO's processor time that a first result may take, and seconds that none may pass.
TIMES, MOST = 2.0, 3.0
THREADS = (1, 2)
_PROGRAM = """
import json, sys, time
import numpy
stored = numpy.load(sys.argv[2])
inputs = [stored[f"run0/{i}"] for i in range(sum(key.startswith("run0/") for key in stored.files))]
wall, work = time.perf_counter(), time.process_time()
results = run(load(sys.argv[1], inputs), inputs)
print(json.dumps([time.perf_counter() - wall, time.process_time() - work]))
"""
_SYSTEMS = ("uncork", "openvino")


@dataclass(frozen=True)
class _Result:
    """Seconds of all runs of a network by a system."""

    model: str
    system: str
    threads: int
    wall: list[float]
    work: list[float]


def main(options: Options) -> int:
    """All networks that are there."""
    found = [
        path
        for path in sorted(options.models.glob("*/model.xml"))
        if options.wants(path.parent.name) and (path.parent / "inputs.npz").exists()
    ]
    if not found:
        print("no such network is there: --models names a folder of them")
        return 2
    systems = [s for s in _SYSTEMS if s == "uncork" or options.peers.get(s)]
    results: list[_Result] = []
    notes: list[str] = []
    report = Report("cold", replace(options, threads=1))
    with tempfile.TemporaryDirectory() as scratch:
        for path in found:
            results += _measure(path.resolve(), systems, options, Path(scratch), notes)
            report.write(
                {"cold": [asdict(r) for r in results], "notes": notes}, _page(results, notes)
            )
    report.say()
    return 1 if any("uncork" in note for note in notes) else 0


def _measure(
    path: Path, systems: Iterable[str], options: Options, scratch: Path, notes: list[str]
) -> list[_Result]:
    name = path.parent.name
    ways = {
        (system, threads): _Result(name, system, threads, [], [])
        for threads in THREADS
        for system in systems
    }
    for _ in range(1 if options.quick else 3):
        for (system, threads), result in list(ways.items()):
            try:
                wall, work = _first_result(path, system, threads, scratch)
            except RuntimeError as error:
                notes.append(f"{name}, {system}: {error}")
                del ways[system, threads]
                continue
            result.wall.append(wall)
            result.work.append(work)
    return list(ways.values())


def _first_result(path: Path, system: str, threads: int, scratch: Path) -> tuple[float, float]:
    """(seconds on the clock, seconds of the processor) of a fresh process with an empty home."""
    home = scratch / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    program = command(system, _program_for(system, threads), threads)
    done = subprocess.run(
        [*program, str(path), str(path.parent / "inputs.npz")],
        env=environment(home, threads),
        cwd=home,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    wall, work = json.loads(done.stdout.splitlines()[-1])
    return float(wall), float(work)


def _program_for(system: str, threads: int) -> str:
    """The program; of uncork with a number of threads that `load` is told."""
    if system != "uncork":
        return _PROGRAM
    given = f"def load(path, inputs):\n    return uncork.load(path, threads={threads})\n"
    return given + _PROGRAM


def _page(results: Sequence[_Result], notes: Sequence[str]) -> str:
    head = ["network", "threads", "system", "minimum, s", "median, s"]
    head += ["of the processor: minimum, s", "median, s"]
    rows = [
        [
            r.model,
            str(r.threads),
            r.system,
            f"{min(r.wall):.2f}",
            f"{statistics.median(r.wall):.2f}",
            f"{min(r.work):.2f}",
            f"{statistics.median(r.work):.2f}",
        ]
        for r in results
    ]
    lines = [markdown_table(head, rows), _verdict(results), *(f"- {note}" for note in notes)]
    return "\n\n".join(line for line in lines if line)


def _verdict(results: Sequence[_Result]) -> str:
    """How many networks are within both goals, by processor time on one thread, and which are
    not.
    """
    alone = {(r.model, r.system): min(r.work) for r in results if r.threads == 1}
    models = list(dict.fromkeys(r.model for r in results))
    slow = [m for m in models if alone.get((m, "uncork"), 0.0) > MOST]
    ratios = {
        m: alone[m, "uncork"] / alone[m, "openvino"]
        for m in models
        if (m, "uncork") in alone and (m, "openvino") in alone
    }
    over = [m for m, ratio in ratios.items() if ratio > TIMES]
    said = [f"Above {MOST:g} s on one thread: {', '.join(slow) or 'none'}."]
    if ratios:
        told = ", ".join(f"{m} {ratios[m]:.1f}" for m in sorted(over, key=lambda m: -ratios[m]))
        said.append(
            f"At most {TIMES:g} times OpenVINO's processor time: {len(ratios) - len(over)} of "
            f"{len(ratios)}; median {statistics.median(ratios.values()):.1f} times. "
            f"**Misses**: {told or 'none'}."
        )
    return "\n\n".join(said)
