"""The models of corpora in bf16, held against the references of the model that runs: of the same
layers, rounded at the same places.

    python -m tests.fuzz.corpus_halves ZIP.. [--limit N]

A ZIP has a folder for each case: `model.xml`, `model.bin`, and the inputs `in_0`, `in_1`, .. in
`case.npz`. All that may be rounded is, whether it pays or not. What may differ is the order of sums
before a number is rounded, which then goes to the neighbouring one, and what kernels round within a
layer: Winograd's tiles their data and filters, recurrent layers these and the state of each step.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np

import uncork
from tests.fuzz.halves import everything_pays, off_by
from uncork.compiler.execute import kernel_target
from uncork.errors import UncorkError
from uncork.ir.interpret import interpret
from uncork.ir.model import Model
from uncork.ir.reshape import reshaped
from uncork.ir.symbols import infer_symbolic
from uncork.passes import pipeline
from uncork.types import Array

#: The step of bf16: the largest error, as a share of the results' root mean square. And the steps
#: of recurrent layers.
_STEP, _RECURRENT = 2.0**-7, 2


def planned(model: Model, inputs: Sequence[Array]) -> Model:
    """The model that is run in bf16 on these inputs, after all passes."""
    options = pipeline.Options(kernel_target(), "bf16")
    model = reshaped(model, model.inputs, {n: array.shape for n, array in enumerate(inputs)})
    model = pipeline.apply_passes(pipeline.AS_READ, model, options)
    model = pipeline.apply_passes(pipeline.ON_LOAD, model, options)
    return pipeline.apply_passes(pipeline.WITH_SIZES, infer_symbolic(model)[0], options)


def finding(path: Path, inputs: Sequence[Array]) -> tuple[str, bool]:
    """What is wrong with a model, empty where nothing is; and whether any of its tensors was held
    as bf16.
    """
    # Layers go over blocks, too, whatever that brings.
    with everything_pays(), mock.patch("uncork.passes.block_choice.TURNED", 1e9):
        compiled = uncork.compile_model(path, precision="bf16", threads=1)
        results = list(compiled(*inputs).values())
        model = planned(uncork.read_model(path), inputs)
        expected = interpret(model, inputs)
    recurrent = any(node.type_name.endswith(("Sequence", "Cell")) for node in model.nodes)
    most = _STEP * (_RECURRENT if recurrent else 1)
    for number, (got, right) in enumerate(zip(results, expected, strict=True)):
        if got.dtype.kind != "f":
            continue
        if got.shape != right.shape or got.dtype != right.dtype:
            return f"result {number}: {got.dtype}{got.shape}", True
        finite = np.isfinite(right)
        if not np.array_equal(finite, np.isfinite(got)):
            return f"result {number}: other numbers are finite", True
        error, size = off_by(got[finite], right[finite])
        if not error <= most * size + 1e-6:
            return f"result {number}: {error / size:.1e}", True
    return "", "bf16[" in str(compiled.plan)


def cases(archive: zipfile.ZipFile) -> Iterator[tuple[str, list[Array]]]:
    """The names of the cases and their inputs."""
    for name in archive.namelist():
        case, _, file = name.partition("/")
        if file == "case.npz":
            with np.load(io.BytesIO(archive.read(name))) as arrays:
                count = sum(key.startswith("in_") for key in arrays)
                yield case, [arrays[f"in_{n}"] for n in range(count)]


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=1 << 30, help="cases of an archive at most")
    options = parser.parse_args(words)
    run = held = wrong = refused = 0
    for place in options.archives:
        with zipfile.ZipFile(place) as archive, tempfile.TemporaryDirectory() as folder:
            for case, inputs in [*cases(archive)][: options.limit]:
                for file in ("model.xml", "model.bin"):
                    if f"{case}/{file}" in archive.namelist():
                        archive.extract(f"{case}/{file}", folder)
                try:
                    found, halves = finding(Path(folder) / case / "model.xml", inputs)
                except UncorkError:
                    refused += 1  # a case that is an error, or calls that the archive alone tells
                    continue
                run, held, wrong = run + 1, held + halves, wrong + bool(found)
                if found:
                    print(f"{place.name}: {case}: {found}", flush=True)
    print(f"{run} models, {held} with tensors of bf16, {wrong} wrong; {refused} were refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
