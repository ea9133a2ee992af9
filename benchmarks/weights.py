"""`python -m benchmarks weights`: single products with weights stored in few bits, in every mode,
beside OpenVINO in f32 and in its default precision.

Errors are the root mean square of the difference from the product that the references compute in
f64 of the numbers that the layers make in f32, over that of the product.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.stored_weights import Form
from benchmarks.timing import Contender, geometric_mean, measure
from uncork import Builder, compile_model, load, write_model
from uncork.types import Array

FORMS = (
    *(Form("u4", group) for group in (32, 64, 128)),
    *(Form("i4", group) for group in (32, 64, 128)),
    *(Form("u8"), Form("i8"), Form("nf4", 64), Form("f8e4m3"), Form("f4e2m1", 32)),
    *(Form("u6", 64), Form("u3", 64), Form("u2", 64), Form("cb4", 64)),
)
SIZES = ((896, 4864), (4096, 4096))
ROWS = (1, 2, 4, 8, 16, 32, 128)
#: Ours by the name of the mode: options of `load`.
MODES: Mapping[str, Mapping[str, Any]] = {
    "as written": {},
    "f32": {"decompression": "f32"},
    "i16": {"decompression": "f32", "activations": "i16"},
    "i8": {"decompression": "f32", "activations": "i8"},
}
#: OpenVINO's by the name of the mode: properties.
THEIRS: Mapping[str, Mapping[str, Any]] = {
    "openvino f32": {"INFERENCE_PRECISION_HINT": "f32"},
    "openvino": {},
}


@dataclass(frozen=True)
class _Result:
    """Seconds of a call, minimum and median, and errors, by the way of computing a product."""

    form: str
    inner: int
    columns: int
    rows: int
    seconds: dict[str, tuple[float, float]]
    errors: dict[str, float]


def main(options: Options) -> int:
    """All forms, sizes and numbers of rows."""
    openvino = options.peers.get("openvino")
    results: list[_Result] = []
    notes: list[str] = []
    report = Report("weights", options)
    for form in FORMS:
        for inner, columns in SIZES[:1] if options.quick else SIZES:
            if options.wants(f"{form.name} {inner}x{columns}"):
                try:
                    for result in _measured(form, inner, columns, openvino, options):
                        results.append(result)
                        print(_line(result), flush=True)
                except RuntimeError as error:  # what OpenVINO cannot compile
                    notes.append(f"{form.name}: {str(error).strip().splitlines()[-1]}")
                page = _page(results, notes)
                report.write({"weights": [asdict(r) for r in results], "notes": notes}, page)
    if not results:
        print("no such product is measured")
        return 2
    report.say()
    return 0


def contenders(
    path: Path,
    openvino: Any,
    threads: int,
    call: Callable[[Any, bool], Callable[[int], list[Array]]],
    modes: Mapping[str, Mapping[str, Any]] = MODES,
) -> list[Contender]:
    """Ours in every mode, which are options of `load`, and OpenVINO's. `call(compiled, theirs)`
    makes a call.
    """

    def result(made: Any) -> Sequence[Array]:
        return [np.asarray(array) for array in made]

    found = [
        Contender(
            name, "uncork", "call", call(load(path, threads=threads, **options), False), result
        )
        for name, options in modes.items()
    ]
    for name, settings in THEIRS.items() if openvino else ():
        given = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, **settings}
        request = openvino.Core().compile_model(path, "CPU", given).create_infer_request()
        found.append(Contender(name, "openvino", "call", call(request, True), result))
    return found


def _measured(
    form: Form, inner: int, columns: int, openvino: Any, options: Options
) -> Iterator[_Result]:
    builder = Builder("product")
    x = builder.parameter("x", "f32", [None, inner])
    matrix = form.matrix(builder, inner, columns)
    builder.result(builder.add("MatMul", 1, x, matrix, transpose_b=True)[0], "y")
    alone = Builder("matrix")
    alone.result(form.matrix(alone, inner, columns), "matrix")
    weights = compile_model(alone.model(), backend="reference")()[0].astype(np.float64)
    generator = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        write_model(builder.model(), path)
        for rows in (1, 16) if options.quick else ROWS:
            data = generator.standard_normal((rows, inner)).astype(np.float32)

            def call(compiled: Any, theirs: bool, data: Array = data) -> Callable[[int], Any]:
                if theirs:
                    return lambda _: compiled.infer([data], share_inputs=True).to_tuple()
                return lambda _: compiled(data).values()

            ways = contenders(path, openvino, options.threads, call)
            expected = data.astype(np.float64) @ weights.T
            errors = {}
            for way in ways:
                (made,) = way.results(way.call(0))
                difference = np.sqrt(np.mean((made - expected) ** 2))
                errors[way.name] = float(difference / np.sqrt(np.mean(expected**2)))
            samples = measure(ways, 1, options.seconds)
            seconds = {way.name: samples[way.name][:2] for way in ways}
            yield _Result(form.name, inner, columns, rows, seconds, errors)


def _cells(result: _Result) -> list[str]:
    def time(name: str) -> str:
        return f"{result.seconds[name][0] * 1e6:.0f}" if name in result.seconds else "-"

    def error(name: str) -> str:
        return f"{result.errors[name]:.0e}" if name in result.errors else "-"

    ways = (*MODES, *THEIRS)
    return [*map(time, ways), *map(error, (*MODES, "openvino"))]


_HEAD = (
    *(f"{name}, us" for name in (*MODES, *THEIRS)),
    *(f"error, {name}" for name in (*MODES, "openvino")),
)


def _line(result: _Result) -> str:
    told = "  ".join(f"{h} {c}" for h, c in zip(_HEAD, _cells(result), strict=True))
    return f"{result.form} {result.inner}x{result.columns} {result.rows} rows  {told}"


def ratios(times: Sequence[Mapping[str, tuple[float, float]]], mode: str) -> str:
    """OpenVINO's default / ours in a mode: the geometric mean, and the least."""
    found = [t["openvino"][0] / t[mode][0] for t in times if "openvino" in t]
    return f"{geometric_mean(found):.2f} ({min(found):.2f})" if found else "-"


def _page(results: Sequence[_Result], notes: Sequence[str]) -> str:
    head = ["form", "matrix", "rows", *_HEAD]
    rows = [[r.form, f"{r.inner}x{r.columns}", str(r.rows), *_cells(r)] for r in results]
    summary = [
        [str(n), *(ratios([r.seconds for r in results if r.rows == n], mode) for mode in MODES)]
        for n in sorted({r.rows for r in results})
    ]
    lines = [
        "Microseconds of a call, minimum; every contender by turns in one process.",
        "OpenVINO's default / ours, geometric mean over all forms (least):",
        markdown_table(["rows", *MODES], summary),
        markdown_table(head, rows),
    ]
    return "\n\n".join([*lines, *(f"- {note}" for note in notes)])
