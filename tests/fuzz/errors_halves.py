"""Errors of networks in bf16: `python -m tests.kernels._emulated FOLDER vectors
tests.fuzz.errors_halves NETWORK...`, where the processor has no products of bf16 either.

A network is a folder with model.xml, inputs.npz (run<k>/<input>) and what OpenVINO makes of them in
f32, expected.npz or outputs.npz (run<k>/<output>). The error is the root mean square of the
difference over that of the result: of the first call's results the largest.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from benchmarks.precision import relative_error

from uncork import load
from uncork.types import Array


def main(*folders: str) -> None:
    for folder in map(Path, folders):
        inputs, expected = _first(folder / "inputs.npz"), _expected(folder)
        errors = [
            relative_error(
                list(load(folder / "model.xml", precision=one)(*inputs).values()), expected
            )
            for one in ("f32", "bf16")
        ]
        print(f"| {folder.name} | {errors[0]:.1e} | {errors[1]:.1e} |", flush=True)


def _expected(folder: Path) -> list[Array]:
    path = folder / "expected.npz"
    return _first(path if path.exists() else folder / "outputs.npz")


def _first(path: Path) -> list[Array]:
    """The arrays of the first call."""
    with np.load(path) as stored:
        count = sum(key.startswith("run0/") for key in stored.files)
        return [stored[f"run0/{number}"] for number in range(count)]


if __name__ == "__main__":
    main(*sys.argv[1:])
