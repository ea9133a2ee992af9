"""Models by way of compiled files, held against expected answers and against the model itself.

    python -m tests.fuzz.compiled --corpus CORPUS.zip --limit 300
    python -m tests.fuzz.compiled --graphs 300 --seed 1
    python -m tests.fuzz.compiled --mutants 3000 --seed 1

A case of a corpus is compiled to a file, loaded and called: the answer must be the expected one, or
the file was refused when it was compiled, in an error that names a layer. Random graphs must give
what they give without a file, or an error. Mutants of a file must be refused when they are loaded,
or load: none is called, for a file is code.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import uncork
from tests.fuzz.graph_worker import difference
from tests.fuzz.graphs import case
from uncork.compiler.image import format

Array = np.ndarray[Any, Any]


class Outcomes:
    """What came of the cases, and what was wrong."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.wrong: list[str] = []

    def refused(self, error: uncork.UncorkError) -> None:
        """Count a model that cannot be compiled."""
        self.counts["refused"] += 1
        self.reasons[str(error).rpartition(": ")[2][:80]] += 1

    def __str__(self) -> str:
        lines = [", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))]
        lines += [f"  refused {count}: {reason}" for reason, count in self.reasons.most_common(12)]
        lines += [f"WRONG {text}" for text in self.wrong[:20]]
        return "\n".join(lines)


def corpus(path: Path, limit: int, seed: int) -> Outcomes:
    """Every case of a corpus, or so many of them."""
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        names = sorted({name.split("/")[0] for name in archive.namelist()})
        random.Random(seed).shuffle(names)
        for name in names[:limit]:
            meta = json.loads(archive.read(f"{name}/meta.json"))
            if meta.get("expect") == "error" or meta.get("feed") == "names":
                continue
            for file in ("model.xml", "model.bin"):
                target = Path(folder) / file
                target.unlink(missing_ok=True)
                if f"{name}/{file}" in archive.namelist():
                    target.write_bytes(archive.read(f"{name}/{file}"))
            _attempt(outcomes, name, Path(folder), list(_calls(archive, name, meta)), meta)
    return outcomes


def _calls(archive: Any, name: str, meta: dict[str, Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The inputs and expected results of the calls of a case."""
    first = np.load(io.BytesIO(archive.read(f"{name}/case.npz")))
    count = {kind: sum(k.startswith(f"{kind}_") for k in first.files) for kind in ("in", "out")}
    yield tuple([first[f"{kind}_{i}"] for i in range(count[kind])] for kind in ("in", "out"))  # type: ignore[misc]
    if meta.get("calls"):
        more = np.load(io.BytesIO(archive.read(f"{name}/calls.npz")))
        for number in range(1, meta["calls"]):
            yield tuple(
                [more[f"{kind}_{number}_{i}"] for i in range(count[kind])] for kind in ("in", "out")
            )  # type: ignore[misc]


def _attempt(
    outcomes: Outcomes,
    name: str,
    folder: Path,
    calls: Sequence[tuple[list[Array], list[Array]]],
    meta: dict[str, Any],
) -> None:
    file = folder / "model.uncork"
    try:
        uncork.compile_to(folder / "model.xml", file, threads=1)
    except uncork.UnsupportedError as error:
        return outcomes.refused(error)
    try:
        compiled = uncork.load(file)
        for inputs, expected in calls:
            results = compiled(*inputs)
            for number, wanted in enumerate(expected):
                got = np.asarray(results[number])
                close = got.shape == wanted.shape and (
                    bool((got == wanted).all())
                    if wanted.dtype.kind not in "fc"
                    else np.allclose(
                        got.astype(np.float64),
                        wanted.astype(np.float64),
                        meta.get("rtol", 1e-3),
                        meta.get("atol", 1e-5),
                        equal_nan=True,
                    )
                )
                if not close:
                    outcomes.wrong.append(f"{name}: result {number} differs")
                    return None
    except uncork.InputError as error:
        outcomes.counts["call refused"] += 1
        outcomes.reasons[f"call: {str(error)[:100]}"] += 1
        return None
    outcomes.counts["well"] += 1
    return None


def graphs(count: int, seed: int) -> Outcomes:
    """Random graphs, with the calls that come with each."""
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.uncork"
        for number in range(count):
            made = case(f"{seed}:{number}")
            try:
                uncork.compile_to(made.model, file, threads=1)
            except uncork.UncorkError as error:
                outcomes.refused(error)
                continue
            both = uncork.load(file), uncork.compile_model(made.model, threads=1)
            for call, inputs in enumerate(made.calls):
                answers = [_answer(each, inputs) for each in both]
                if isinstance(answers[0], str):
                    outcomes.counts["calls refused"] += 1
                    if not isinstance(answers[1], str):
                        outcomes.reasons[f"call: {answers[0].partition('so: ')[2][:100]}"] += 1
                    break
                outcomes.counts["calls"] += 1
                if isinstance(answers[1], str):
                    outcomes.wrong.append(f"graph {number}, call {call}: {answers[1][:200]}")
                elif found := difference(answers[1], answers[0]):
                    outcomes.wrong.append(f"graph {number}, call {call}: {found}")
            else:
                outcomes.counts["well"] += 1
    return outcomes


def _answer(compiled: uncork.CompiledModel, inputs: list[Array]) -> list[Array] | str:
    try:
        return list(compiled(*inputs))
    except uncork.UncorkError as error:
        return f"{type(error).__name__}: {error}"


def mutants(model: uncork.Model, count: int, seed: int) -> Outcomes:
    """Copies of a file with changed bytes, some with digests that fit: each loads or is refused."""
    outcomes, chance = Outcomes(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.uncork"
        uncork.compile_to(model, file, threads=1)
        whole = file.read_bytes()
        for number in range(count):
            data = bytearray(whole)
            _, _, _, _, offset, size = format.HEAD.unpack_from(data, 0)
            where = chance.choice(["anywhere", "head", "description", "description", "cut"])
            if where == "cut":
                del data[chance.randrange(len(data)) :]
            for _ in range(chance.choice([1, 1, 2, 8])):
                if not data:
                    break
                ranges = {
                    "head": (0, min(format.HEAD.size, len(data))),
                    "description": (offset, offset + size),
                }
                first, end = ranges.get(where, (0, len(data)))
                data[chance.randrange(first, end)] = chance.randrange(256)
            if where != "cut" and chance.random() < 0.7:
                _with_digest(data)
            file.write_bytes(data)
            try:
                uncork.load(file)
                outcomes.counts["loaded"] += 1
            except (uncork.ReadError, uncork.UnsupportedError):
                outcomes.counts["refused"] += 1
            except Exception as error:
                outcomes.wrong.append(f"mutant {number}: {type(error).__name__}: {error}")
    return outcomes


def _with_digest(data: bytearray) -> None:
    """Write the digest of what is there now, as somebody who means harm would."""
    try:
        digest = format.digest_of(memoryview(bytes(data)))
    except uncork.ReadError:
        return
    data[format.HEAD.size : format.HEAD.size + len(digest)] = digest


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--limit", type=int, default=1 << 30)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    read = parser.parse_args(arguments)
    os.umask(0o022)
    wrong = 0
    runs = [
        (path.name, lambda path=path: corpus(path, read.limit, read.seed)) for path in read.corpus
    ]
    if read.graphs:
        runs.append(("graphs", lambda: graphs(read.graphs, read.seed)))
    if read.mutants:
        made = case(f"{read.seed}:3").model
        runs.append(("mutants", lambda: mutants(made, read.mutants, read.seed)))
    for name, run in runs:
        outcomes = run()
        wrong += len(outcomes.wrong)
        print(f"{name}: {outcomes}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
