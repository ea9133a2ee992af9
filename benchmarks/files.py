"""`python -m benchmarks files --models DIR`: models by way of compiled files, beside the same
models compiled here: whether answers are the same, bit by bit, the sizes of files, and times of
calls.

A folder holds model.xml, model.bin and `inputs.npz` (run<k>/<input>); runs of a model with state
follow each other. A model that cannot be compiled is shown with the reason.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import uncork
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table, number
from benchmarks.timing import Contender, Sample, geometric_mean, measure
from uncork.compiler.image import format
from uncork.types import Array

#: How much larger a file may be than the weights, and how much slower its calls.
SIZE_GOAL, TIME_GOAL = 1.2, 1.03


@dataclass(frozen=True)
class _Result:
    model: str
    weights_bytes: int
    refused: str = ""
    same: bool = False
    file_bytes: int = 0
    constants_bytes: int = 0
    here: Sample | None = None
    file: Sample | None = None


def main(options: Options) -> int:
    """All models that are there. 1 where answers differ."""
    results = [
        _measure(path, options)
        for path in sorted(options.models.glob("*/model.xml"))
        if options.wants(path.parent.name) and (path.parent / "inputs.npz").exists()
    ]
    if not results:
        print("no such model is there")
        return 2
    report = Report("files", options)
    head = ["model", "MB of weights", "file / weights", "constants / weights", "here, us"]
    page = [markdown_table([*head, "file, us", "file / here"], [_row(r) for r in results])]
    page += [f"- {r.model} is refused: {r.refused}" for r in results if r.refused]
    page += [f"- {r.model}: **answers differ**" for r in results if not r.refused and not r.same]
    page.append(_verdict(results))
    report.write({"files": [asdict(r) for r in results]}, "\n\n".join(page))
    report.say()
    return 1 if any(not r.refused and not r.same for r in results) else 0


def _calls(folder: Path) -> Iterator[list[Array]]:
    with np.load(folder / "inputs.npz") as stored:
        for run in range(len(stored.files)):
            found = [key for key in stored.files if key.startswith(f"run{run}/")]
            if not found:
                return
            yield [stored[f"run{run}/{i}"] for i in range(len(found))]


def _measure(path: Path, options: Options) -> _Result:
    weights = path.with_suffix(".bin").stat().st_size
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", uncork.UncorkWarning)
        file = Path(scratch) / "model.uncork"
        try:
            uncork.compile_to(path, file, threads=options.threads)
        except uncork.UncorkError as error:
            return _Result(path.parent.name, weights, str(error))
        calls = list(_calls(path.parent))
        models = uncork.load(path, threads=options.threads), uncork.load(file)
        here, there = (_after_reset(model, calls) for model in models)
        same = len(here) == len(there) and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in zip(here, there, strict=True)
        )
        times = measure(
            [
                Contender(name, "uncork", "call", lambda _, m=model: _after_reset(m, calls), list)
                for name, model in zip(("here", "file"), models, strict=True)
            ],
            1,
            options.seconds,
        )
        constants = format.read(file)[0].constants.bytes
        size = file.stat().st_size
        return _Result(
            path.parent.name, weights, "", same, size, constants, times["here"], times["file"]
        )


def _after_reset(model: uncork.CompiledModel, calls: list[list[Array]]) -> list[Array]:
    """The results of all calls, as they follow each other."""
    model.reset_state()
    return [np.asarray(value) for inputs in calls for value in model(*inputs)]


def _row(result: _Result) -> list[str]:
    row = [result.model, f"{result.weights_bytes / 1e6:.2f}"]
    if result.here is None or result.file is None:
        return [*row, *["-"] * 5]
    return [
        *row,
        f"{result.file_bytes / result.weights_bytes:.3f}",
        f"{result.constants_bytes / result.weights_bytes:.3f}",
        *(
            f"{number(sample.minimum * 1e6)} / {number(sample.median * 1e6)}"
            for sample in (result.here, result.file)
        ),
        f"{result.file.minimum / result.here.minimum:.3f}",
    ]


def _verdict(results: list[_Result]) -> str:
    run = [r for r in results if r.same and r.here and r.file]
    larger = [r.model for r in run if r.file_bytes > SIZE_GOAL * r.weights_bytes]
    ratios = {r.model: r.file.minimum / r.here.minimum for r in run if r.here and r.file}
    slower = [name for name, ratio in ratios.items() if ratio > TIME_GOAL]
    text = f"{len(run)} of {len(results)} models run from the file, bit by bit as here."
    if ratios:
        mean = geometric_mean(ratios.values())
        text += f" Time of calls, file / here: geometric mean {mean:.3f}."
    text += f" Files above {SIZE_GOAL} times the weights: {', '.join(larger) or 'none'}."
    return f"{text} Calls above {TIME_GOAL} times: {', '.join(slower) or 'none'}."
