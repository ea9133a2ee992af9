"""`python -m tools.profiles MODELS..`: profiles models, and fails where one cannot be.

Each of MODELS is a folder with `model.xml` and `inputs.npz` (`run0/0`, `run0/1`, ..), or a zip file
of folders with `model.xml` and `case.npz` (`in_0`, `in_1`, ..). Of a zip file, one model with each
set of operation types is taken. What a call refuses has no profile. Times are not looked at, so
they are short.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import uncork
from uncork.compiler import measured_steps
from uncork.types import Array

#: What is profiled: a name, the model and its inputs.
Case = tuple[str, uncork.Model, list[Array]]


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a model that can be called has no profile, or none can be called."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.profiles", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("models", nargs="+", type=Path, help="folders of models, or zip files")
    options = parser.parse_args(words)
    measured_steps._SECONDS = 0.0
    profiled = failed = 0
    for path in options.models:
        for name, model, inputs in _zipped(path) if path.suffix == ".zip" else _folder(path):
            try:
                compiled = uncork.compile_model(model)
                compiled(*inputs)
            except uncork.UncorkError:
                continue
            profiled += 1
            try:
                str(compiled.profile(*inputs))
            except Exception:
                failed += 1
                print(f"{path.name} {name}:")
                traceback.print_exc(limit=-4, file=sys.stdout)
    print(f"{profiled} models profiled, {failed} could not be")
    return 1 if failed or not profiled else 0


def _folder(path: Path) -> Iterator[Case]:
    with np.load(path / "inputs.npz") as given:
        yield "model.xml", uncork.read_model(path / "model.xml"), _numbered(given, "run0/")


def _zipped(path: Path) -> Iterator[Case]:
    seen: set[frozenset[str]] = set()
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as scratch:
        names = set(archive.namelist())
        for name in sorted(names):
            case, _, file = name.rpartition("/")
            if file != "model.xml" or f"{case}/case.npz" not in names:
                continue
            place = Path(scratch) / str(len(seen))
            place.mkdir(exist_ok=True)
            for part in ("model.xml", "model.bin"):
                (place / part).unlink(missing_ok=True)
                if f"{case}/{part}" in names:
                    (place / part).write_bytes(archive.read(f"{case}/{part}"))
            try:
                model = uncork.read_model(place / "model.xml")
            except uncork.UncorkError:
                continue
            kinds = frozenset(node.type_name for node in model.nodes)
            if kinds in seen:
                continue
            seen.add(kinds)
            with np.load(io.BytesIO(archive.read(f"{case}/case.npz"))) as given:
                yield case, model, _numbered(given, "in_")


def _numbered(given: Mapping[str, Array], prefix: str) -> list[Array]:
    """The arrays that are called by a prefix and a number, in order."""
    return [given[f"{prefix}{n}"] for n in range(sum(key.startswith(prefix) for key in given))]


if __name__ == "__main__":
    sys.exit(main())
