"""`python -m benchmarks zoo --models DIR`: well-known networks with recorded inputs, beside
OpenVINO; with `--from onnx` as ONNX files, beside onnxruntime too.

A folder holds model.xml and model.bin, `inputs.npz` (run<k>/<input>), `expected.npz`
(run<k>/<output>, OpenVINO's results in f32), and `origin.json` with "stateful" where runs follow
each other. Such a model is one case: all its runs after a reset. A model.onnx may lie beside it;
else it is exported from the IR. Models with state are left out of ONNX, which has none.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contenders_onnxruntime, contenders_openvino, contenders_uncork
from benchmarks.cases import Case, Prepared
from benchmarks.models import Recorded
from benchmarks.ops import run_cases
from benchmarks.options import Options
from benchmarks.timing import Contender, Expected
from uncork.compiler.compile import compile_model
from uncork.export.onnx.files import write_onnx
from uncork.types import Array

#: Of the largest number of a result: networks add up rounding over their layers, and OpenVINO
#: rounds quantized values otherwise.
_TOLERANCE, _QUANTISED = 1e-4, 0.1
#: What a file of a quantized network has.
_MARKS = ('type="FakeQuantize"', 'element_type="i4"', 'element_type="u4"')
GROUP = "zoo"
_FOLDERS: list[Any] = []


def recorded(folder: Path) -> list[Recorded]:
    """All recorded calls, in order."""
    found: list[Recorded] = []
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "expected.npz") as outputs:

        def run(stored: Any, number: int) -> list[Array]:
            return [
                stored[f"run{number}/{i}"]
                for i in range(sum(key.startswith(f"run{number}/") for key in stored.files))
            ]

        while f"run{len(found)}/0" in inputs.files:
            found.append(Recorded(run(inputs, len(found)), run(outputs, len(found))))
    return found


def cases(models: Path, source: str = "ir") -> Iterator[Case]:
    """Every network that is there, each of its runs."""
    for path in sorted(models.glob("*/model.xml")) if models.is_dir() else ():
        folder = path.parent
        if not (folder / "expected.npz").exists():
            continue
        origin = folder / "origin.json"
        if origin.exists() and json.loads(origin.read_text(encoding="utf-8")).get("stateful"):
            if source == "onnx":
                continue
            yield Case(GROUP, folder.name, partial(prepare_stateful, folder), quick=True)
            continue
        calls = recorded(folder)
        for number, call in enumerate(calls):
            name = folder.name if len(calls) == 1 else f"{folder.name}, inputs {number}"
            yield Case(GROUP, name, partial(prepare, folder, call), quick=number == 0)


def _prepared(folder: Path, outputs: list[Array], about: dict[str, Any]) -> Prepared:
    tolerance = _QUANTISED if _has(folder, *_MARKS) else _TOLERANCE
    expected = [
        Expected(output, max(1.0, float(np.abs(output).max(initial=0.0))))
        for output in _comparable(folder, outputs)
    ]
    origin = folder / "origin.json"
    told = json.loads(origin.read_text(encoding="utf-8")) if origin.exists() else {}
    return Prepared(
        sets=1,
        expect=lambda i: expected,
        tolerance=tolerance,
        about={"network": told.get("about", ""), **about},
    )


def _has(folder: Path, *marks: str) -> bool:
    text = (folder / "model.xml").read_text(encoding="utf-8")
    return any(mark in text for mark in marks)


def _comparable(folder: Path, results: Sequence[Array]) -> list[Array]:
    """The results; of detectors their numbers in order, for boxes whose scores differ by rounding
    change places.
    """
    return (
        [np.sort(array, axis=None) for array in results]
        if _has(folder, 'type="NonMaxSuppression"')
        else list(results)
    )


def _compared(folder: Path, contenders: list[Contender]) -> list[Contender]:
    def wrapped(contender: Contender) -> Contender:
        return replace(
            contender, results=lambda made: _comparable(folder, list(contender.results(made)))
        )

    return [wrapped(contender) for contender in contenders]


def prepare(folder: Path, call: Recorded, options: Options) -> Prepared:
    """One recorded call."""
    path = folder / "model.xml" if options.source == "ir" else as_onnx(folder)
    prepared = _prepared(
        folder, call.outputs, {"inputs": [[a.dtype.name, list(a.shape)] for a in call.inputs]}
    )
    prepared.add(
        "uncork",
        lambda: _compared(
            folder, contenders_uncork.of_model(str(path), [call.inputs], options.threads)
        ),
    )
    openvino = options.peers.get("openvino")
    if openvino:

        def theirs() -> list[Contender]:
            model = openvino.Core().read_model(path)
            return _compared(
                folder,
                contenders_openvino.of_model(openvino, model, [call.inputs], options.threads),
            )

        prepared.add("openvino", theirs)
    runtime = options.peers.get("onnxruntime") if options.source == "onnx" else None
    if runtime:
        prepared.add(
            "onnxruntime",
            lambda: _compared(
                folder,
                contenders_onnxruntime.of_model(runtime, str(path), [call.inputs], options.threads),
            ),
        )
    return prepared


@cache
def as_onnx(folder: Path) -> Path:
    """The network's ONNX file: its own, or one that is exported and kept as long as the process."""
    own = folder / "model.onnx"
    if own.exists():
        return own
    made = tempfile.TemporaryDirectory()
    _FOLDERS.append(made)
    path = Path(made.name, f"{folder.name}.onnx")
    write_onnx(folder / "model.xml", path)
    return path


def prepare_stateful(folder: Path, options: Options) -> Prepared:
    """All recorded calls after a reset."""
    path = str(folder / "model.xml")
    calls = recorded(folder)
    outputs = [output for call in calls for output in call.outputs]
    prepared = _prepared(folder, outputs, {"calls": len(calls)})

    def ours() -> list[Contender]:
        compiled = compile_model(path, threads=options.threads)

        def run(_: int) -> list[Array]:
            compiled.reset_state()
            return [np.asarray(value) for call in calls for value in compiled(*call.inputs)]

        return [Contender("uncork call", "uncork", "call", run, list)]

    prepared.add("uncork", ours)
    openvino = options.peers.get("openvino")

    def theirs() -> list[Contender]:
        settings = {
            "INFERENCE_NUM_THREADS": options.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()

        def run(_: int) -> list[Array]:
            request.reset_state()
            return [
                np.array(value)
                for call in calls
                for value in request.infer(call.inputs, share_inputs=True).values()
            ]

        return [Contender("openvino call", "openvino", "call", run, list)]

    if openvino:
        prepared.add("openvino", theirs)
    return prepared


def main(options: Options) -> int:
    """All networks that are there."""
    name = "zoo" if options.source == "ir" else f"zoo-{options.source}"
    return run_cases(name, cases(options.models, options.source), options)
