"""Whole models there and back: to ONNX, to torch, and from torch's weights to the IR again.

python -m tests.export.round_trip FOLDER...

A folder has model.xml and inputs.npz (`run<k>/<input>`, in the order of the inputs). The runs of
a model with variables follow each other. Exit status 1 when an answer differs from uncork's by more
than a thousandth of the largest value: onnxruntime leaves roundings to f16 out.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import uncork
from uncork.types import Array

#: Answers of the runs, by what gives them: called with the inputs of one after the other.
Answers = Callable[[Sequence[Array]], Sequence[Array]]


def arrays(path: Path) -> list[list[Array]]:
    """The runs of a file."""
    with np.load(path) as file:
        runs = sorted({name.split("/")[0] for name in file.files}, key=lambda run: int(run[3:]))
        return [
            [
                file[f"{run}/{i}"]
                for i in range(sum(name.startswith(f"{run}/") for name in file.files))
            ]
            for run in runs
        ]


def by_uncork(model: uncork.Model | Path) -> Answers:
    compiled = (
        uncork.compile_model(model) if isinstance(model, uncork.Model) else uncork.load(model)
    )
    return lambda inputs: [np.array(value) for value in compiled(*inputs)]


def by_onnx(path: Path, folder: Path) -> Answers:
    import onnxruntime

    uncork.write_onnx(path, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    states = json.loads(session.get_modelmeta().custom_metadata_map.get("uncork.states", "[]"))
    optional = {port.name for port in session.get_overridable_initializers()} | {
        state["input"] for state in states
    }
    inputs = [port.name for port in session.get_inputs() if port.name not in optional]
    outputs = [port.name for port in session.get_outputs()]
    kept: dict[str, Any] = {}

    def answer(given: Sequence[Array]) -> Sequence[Array]:
        found = dict(
            zip(
                outputs,
                session.run(None, {**dict(zip(inputs, given, strict=True)), **kept}),
                strict=True,
            )
        )
        for state in states:
            kept[state["input"]] = found.pop(state["output"])
            if "is_set" in state:
                kept[state["is_set"]] = np.array(True)
        return list(found.values())

    return answer


def by_torch(path: Path) -> tuple[Answers, Any]:
    import torch

    module = uncork.to_torch(path).eval()

    def answer(given: Sequence[Array]) -> Sequence[Array]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(np.array(array)) for array in given))
        return [tensor.numpy() for tensor in (found if isinstance(found, tuple) else (found,))]

    return answer, module


def same(found: Array, wanted: Array) -> bool:
    if found.shape != wanted.shape or wanted.dtype.kind != "f":
        return np.array_equal(found, wanted)
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
    return np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * largest, equal_nan=True)


def differs(
    name: str,
    answers: Answers,
    inputs: Sequence[Sequence[Array]],
    expected: Sequence[Sequence[Array]],
) -> str:
    for run, (given, wanted) in enumerate(zip(inputs, expected, strict=True)):
        found = answers(given)
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if a.dtype != b.dtype or not same(a, b):
                return f"{name}: output {i} of run {run} differs"
    return ""


def check(folder: Path) -> list[str]:
    """What is wrong of a model."""
    path = folder / "model.xml"
    inputs = arrays(folder / "inputs.npz")
    ours = by_uncork(path)
    expected = [ours(given) for given in inputs]
    with tempfile.TemporaryDirectory() as scratch:
        there, module = by_torch(path)
        state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        uncork.write_model(uncork.with_constants(path, state), Path(scratch, "back.xml"))
        found = [
            differs("onnx", by_onnx(path, Path(scratch)), inputs, expected),
            differs("torch", there, inputs, expected),
            differs("back", by_uncork(Path(scratch, "back.xml")), inputs, expected),
        ]
    return [reason for reason in found if reason]


def main(folders: Sequence[str]) -> int:
    failed = 0
    for folder in map(Path, folders):
        try:
            wrong = check(folder)
        except Exception:  # whatever a system raises: the other models are tried, too
            wrong = [traceback.format_exc()]
        print(
            f"{folder.name:30} {'; '.join(wrong) or 'onnx, torch and back: the same'}", flush=True
        )
        failed += bool(wrong)
    return 1 if failed or not folders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
