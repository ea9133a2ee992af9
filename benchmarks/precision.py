"""`python -m benchmarks precision --models DIR`: networks in f32 and in bf16, beside OpenVINO in
f32 and in its default precision, which is bf16 on processors that have it.

Errors are the root mean square of the difference from OpenVINO's f32, over that of its result: of
all results of the first recorded call, the largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.timing import Contender, geometric_mean, measure
from benchmarks.zoo import recorded
from uncork import load
from uncork.errors import UncorkError
from uncork.types import Array

WAYS = ("openvino f32", "openvino default", "uncork f32", "uncork bf16")
#: A ratio of more counts as this much in the mean: one network must not stand for others.
_MOST = 2.0


@dataclass(frozen=True)
class _Result:
    """Seconds of a call, minimum and median, and errors, by the way of running a network."""

    model: str
    seconds: dict[str, tuple[float, float]]
    errors: dict[str, float]

    @property
    def ratio(self) -> float:
        """OpenVINO's default / uncork's bf16."""
        return self.seconds["openvino default"][0] / self.seconds["uncork bf16"][0]


def main(options: Options) -> int:
    """All networks that are there."""
    openvino = options.peers.get("openvino")
    if not openvino:
        print("errors are those against OpenVINO, which is not installed")
        return 2
    results: list[_Result] = []
    notes: list[str] = []
    report = Report("precision", options)
    for folder in _folders(options):
        try:
            results.append(_measured(folder, openvino, options))
            print(_line(results[-1]), flush=True)
        except UncorkError as error:
            notes.append(f"{folder.name}: {error}")
        report.write(
            {"precision": [asdict(r) for r in results], "notes": notes}, _page(results, notes)
        )
    if not results and not notes:
        print("no such network is there: --models names a folder of them")
        return 2
    report.say()
    return 1 if notes else 0


def _folders(options: Options) -> Iterator[Path]:
    for path in sorted(options.models.glob("*/model.xml")):
        if (path.parent / "expected.npz").exists() and options.wants(path.parent.name):
            yield path.parent


def _measured(folder: Path, openvino: Any, options: Options) -> _Result:
    path, inputs = folder / "model.xml", recorded(folder)[0].inputs

    def theirs(name: str, **settings: object) -> Contender:
        given = {"INFERENCE_NUM_THREADS": options.threads, "NUM_STREAMS": 1, **settings}
        request = openvino.Core().compile_model(path, "CPU", given).create_infer_request()

        def call(_: int) -> list[Array]:
            made = request.infer(inputs, share_inputs=True, share_outputs=True)
            return list(made.values())

        return Contender(name, "openvino", "call", call, list)

    def ours(name: str, precision: Any) -> Contender:
        compiled = load(path, threads=options.threads, precision=precision)
        return Contender(
            name, "uncork", "call", lambda _: compiled(*inputs), lambda made: list(made.values())
        )

    contenders = [
        theirs(WAYS[0], INFERENCE_PRECISION_HINT="f32"),
        theirs(WAYS[1]),
        ours(WAYS[2], "f32"),
        ours(WAYS[3], "bf16"),
    ]
    made = {c.name: [np.array(array) for array in c.results(c.call(0))] for c in contenders}
    errors = {name: relative_error(made[name], made[WAYS[0]]) for name in WAYS[1:]}
    samples = measure(contenders, 1, options.seconds)
    seconds = {name: (samples[name].minimum, samples[name].median) for name in WAYS}
    return _Result(folder.name, seconds, errors)


def relative_error(results: Sequence[Array], expected: Sequence[Array]) -> float:
    """The root mean square of the difference, over that of what is expected: of all results the
    largest.
    """
    worst = 0.0
    for got, right in zip(results, expected, strict=True):
        if right.dtype.kind == "f" and right.size:
            difference = got.astype(np.float64) - right
            size = float(np.sqrt(np.mean(right.astype(np.float64) ** 2)))
            worst = max(worst, float(np.sqrt(np.mean(difference**2))) / (size or 1.0))
    return worst


def _cells(result: _Result) -> list[str]:
    times = [
        f"{result.seconds[name][0] * 1e3:.2f} ({result.seconds[name][1] * 1e3:.2f})"
        for name in WAYS
    ]
    errors = [f"{result.errors[name]:.1e}" for name in WAYS[1:]]
    return [*times, f"{result.ratio:.2f}", *errors]


_HEAD = (
    *(f"{name}, ms" for name in WAYS),
    "default / bf16",
    *(f"error, {name}" for name in WAYS[1:]),
)


def _line(result: _Result) -> str:
    return f"{result.model}  " + "  ".join(
        f"{h} {c}" for h, c in zip(_HEAD, _cells(result), strict=True)
    )


def _page(results: Sequence[_Result], notes: Sequence[str]) -> str:
    lines = ["Milliseconds of a call, minimum (median); every contender by turns in one process."]
    lines.append(markdown_table(["network", *_HEAD], [[r.model, *_cells(r)] for r in results]))
    if results:
        mean = geometric_mean(min(r.ratio, _MOST) for r in results)
        slower = sorted(r.model for r in results if r.ratio < 1)
        lines.append(
            f"Geometric mean of default / bf16, each ratio cut at {_MOST:g}: {mean:.2f}. "
            + (f"OpenVINO is faster at {', '.join(slower)}." if slower else "None is below 1.")
        )
    return "\n\n".join([*lines, *(f"- {note}" for note in notes)])
