"""`python -m benchmarks peak --models DIR`: the most memory that a process ever had which loads a
network, makes its recorded calls, and does nothing else; ours and OpenVINO's.

Kernels lie on disk already: a first process, which is not measured, compiled them. Each number is
the least of some processes. It has Python, NumPy and the inputs in it, which `alone` shows, and the
pages of the model's file that were read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.options import Options
from benchmarks.processes import READY, command, environment, timed
from benchmarks.report import Report, markdown_table
from benchmarks.timing import geometric_mean

_PROGRAM = f"""
import sys
import numpy
stored = numpy.load(sys.argv[2])
calls = [[]]
for name in stored.files:
    call = int(name.split("/")[0][3:])
    calls += [[] for _ in range(call + 1 - len(calls))]
    calls[call].append(stored[name])
loaded = load(sys.argv[1], calls[0])
for inputs in calls:
    run(loaded, inputs)
{READY}
"""
_ALONE = "nothing"


@dataclass(frozen=True)
class _Peak:
    """Bytes by system, or why a system has none."""

    model: str
    file: int
    peaks: dict[str, int]
    failed: dict[str, str]

    @property
    def ratio(self) -> float | None:
        """OpenVINO's peak / ours."""
        both = self.peaks.get("openvino"), self.peaks.get("uncork")
        return both[0] / both[1] if both[0] and both[1] else None


def main(options: Options) -> int:
    """All networks that are there."""
    results: list[_Peak] = []
    report = Report("peak", options)
    for folder in _folders(options):
        results.append(_measured(folder, options))
        print(_line(results[-1]), flush=True)
        report.write({"peak": [asdict(r) for r in results]}, _page(results))
    if not results:
        print("no such model is there")
        return 2
    report.say()
    return 1 if any("uncork" in r.failed for r in results) else 0


def _folders(options: Options) -> Iterator[Path]:
    for path in sorted(options.models.glob("*/model.xml")):
        if (path.parent / "inputs.npz").exists() and options.wants(path.parent.name):
            yield path.parent


def _measured(folder: Path, options: Options) -> _Peak:
    systems = [_ALONE, "uncork", *(["openvino"] if options.peers.get("openvino") else [])]
    weights = folder / "model.bin"
    size = weights.stat().st_size if weights.exists() else 0
    result = _Peak(folder.name, size, {}, {})
    files = [str((folder / name).resolve()) for name in ("model.xml", "inputs.npz")]
    with tempfile.TemporaryDirectory() as home:
        variables = environment(Path(home), options.threads)
        for system in systems:
            program = [*command(system, _PROGRAM, options.threads), *files]
            try:
                if system == "uncork":
                    timed(program, variables, Path(home))
                runs = [
                    timed(program, variables, Path(home)) for _ in range(1 if options.quick else 2)
                ]
                result.peaks[system] = min(run.peak_bytes for run in runs)
            except RuntimeError as error:
                result.failed[system] = str(error)
    return result


def _cells(result: _Peak) -> list[str]:
    told = [f"{result.file / 1e6:.0f}"]
    for system in (_ALONE, "uncork", "openvino"):
        peak = result.peaks.get(system)
        told.append(f"{peak / 1e6:.0f}" if peak else result.failed.get(system, "-"))
    return [*told, f"{result.ratio:.2f}" if result.ratio else "-"]


_HEAD = ("model.bin, MB", "alone, MB", "uncork, MB", "openvino, MB", "openvino/ours")


def _line(result: _Peak) -> str:
    return f"{result.model}  " + "  ".join(
        f"{h} {c}" for h, c in zip(_HEAD, _cells(result), strict=True)
    )


def _page(results: Sequence[_Peak]) -> str:
    rows = [[r.model, *_cells(r)] for r in results]
    ratios = {r.model: r.ratio for r in results if r.ratio}
    lines = [markdown_table(["network", *_HEAD], rows)]
    if ratios:
        worse = sorted(
            (name for name, ratio in ratios.items() if ratio < 1), key=ratios.__getitem__
        )
        lines.append(
            f"Geometric mean of openvino/ours: {geometric_mean(ratios.values()):.2f}. "
            + (f"We need more for {', '.join(worse)}." if worse else "We need less for every one.")
        )
    return "\n\n".join(lines)
