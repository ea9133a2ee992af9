"""Changes ONNX models at random and opens, writes and calls each, as `run` does with IR.

    python -m tests.fuzz.run_onnx --count 5000 --seed 1 [--keep FOLDER] [--models REGEX]

The models are those that the package onnx ships for its tests of operators, and a few of our own.
`--loose` lists refusals in Python's words, which say less than they could.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.fuzz.onnx_mutate import OnnxMutation
from tests.fuzz.run import Report, Worker, kind_of

_LARGEST = 1 << 16


@cache
def seeds() -> tuple[tuple[str, bytes], ...]:
    """Models by name."""
    from onnx.backend.test.case.node import collect_testcases

    from tests.onnx._models import bodies, linear, told
    from tests.onnx.microsoft_cases import CASES

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(case.name, case.model.SerializeToString()) for case in collect_testcases(None)]
    found += [
        ("linear", linear().SerializeToString()),
        ("bodies", bodies().SerializeToString()),
        ("told", told().SerializeToString()),
    ] * 20
    found += [(case.name, case.model().SerializeToString()) for case in CASES]
    return tuple(sorted((name, data) for name, data in found if len(data) < _LARGEST))


def cases(
    seed: int, numbers: Sequence[int], pattern: str = ""
) -> Iterator[tuple[int, str, OnnxMutation]]:
    """The numbered models, changed."""
    chosen = [each for each in seeds() if re.search(pattern, each[0])]
    for number in numbers:
        generator = random.Random(f"onnx{seed}:{number}")
        name, data = generator.choice(chosen)
        mutation = OnnxMutation(data, generator)
        mutation.apply()
        yield number, name, mutation


def fuzz(
    seed: int,
    numbers: Sequence[int],
    *,
    pattern: str = "",
    keep: Path | None = None,
    memory: int = 4 << 30,
    seconds: float = 30,
    backends: Sequence[str] = ("reference", "cpu"),
    progress: bool = False,
) -> Report:
    """Try the numbered cases."""
    report = Report()
    worker = Worker(memory, seconds)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            for number, name, mutation in cases(seed, numbers, pattern):
                path.write_bytes(mutation.data)
                job = {
                    "model": str(path),
                    "weights": None,
                    "seed": number,
                    "backends": list(backends),
                }
                answer = worker.run(job)
                if answer["outcome"] == "refused":
                    report.refusals[kind_of(answer["detail"])] += 1
                finding = report.add(number, name, answer, mutation.log, progress)
                if finding is not None and keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    stem = keep / f"{finding.outcome}_{number}"
                    stem.with_suffix(".onnx").write_bytes(mutation.data)
                    stem.with_suffix(".txt").write_text(f"{finding}\n\n{finding.traceback}")
    finally:
        worker.close()
        worker.errors.close()
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="try this case and no other")
    parser.add_argument("--keep", type=Path, help="folder for the files of findings")
    parser.add_argument("--models", default="", help="models whose name this expression finds")
    parser.add_argument("--loose", action="store_true", help="list refusals in Python's words")
    parser.add_argument("--backend", action="append", choices=["reference", "cpu"])
    options = parser.parse_args(arguments)
    numbers = (
        [options.only]
        if options.only is not None
        else range(options.start, options.start + options.count)
    )
    report = fuzz(
        options.seed,
        numbers,
        pattern=options.models,
        keep=options.keep,
        backends=options.backend or ("reference", "cpu"),
        progress=True,
    )
    print(f"\n{sum(report.outcomes.values())} cases: {dict(report.outcomes)}")
    for kind, number in report.refusals.most_common(None if options.loose else 25):
        if not options.loose or "does not fit its operator" in kind:
            print(f"{number:6} refused: {kind}")
    places = Counter(
        (f.outcome, f.place, re.sub(r"\d+", "#", f.detail)[:90]) for f in report.findings
    )
    for (outcome, place, detail), number in places.most_common():
        print(f"{number:6} {outcome} {place} {detail}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
