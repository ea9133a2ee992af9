"""Makes random graphs (see `graphs`), exports each to ONNX and torch, and calls both beside the
references: with open sizes of several lengths, none among them, with infinities, NaN and huge
numbers, and with ids beyond 2**32.

    python -m tests.fuzz.run_exports --count 2000 --seed 1

A refusal, by the export or by what runs it, is no finding; another answer is. Each case depends on
the seed and its number alone: `--only` repeats one and prints its graph.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.fuzz.run import Report, Worker


def fuzz(
    seed: int,
    numbers: Iterable[int],
    *,
    seconds: float = 60,
    memory: int = 16 << 30,
    progress: bool = False,
) -> Report:
    """Try the numbered graphs. `outcomes` also counts calls and refusals of each kind."""
    report = Report()
    worker = Worker(memory, seconds, "tests.fuzz.export_worker")
    try:
        for number in numbers:
            answer = worker.run({"seed": f"exports{seed}:{number}"})
            report.outcomes.update(answer.get("counts", {}))
            report.refusals.update(re.sub(r"\d+", "#", r) for r in answer.get("refusals", ()))
            report.add(number, "exports", answer, [], progress)
    finally:
        worker.close()
        worker.errors.close()
    return report


def _until(seconds: float, numbers: Iterable[int]) -> Iterable[int]:
    """The numbers, as long as there is time."""
    end = time.monotonic() + seconds
    for number in numbers:
        if time.monotonic() > end:
            return
        yield number


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first graph")
    parser.add_argument("--only", type=int, help="try this graph and no other, and print it")
    parser.add_argument("--refusals", action="store_true", help="list what was refused")
    options = parser.parse_args(arguments)
    numbers: Iterable[int] = range(options.start, options.start + options.count)
    if options.only is not None:
        numbers = [options.only]
    report = fuzz(options.seed, _until(options.seconds, numbers), progress=True)
    print(dict(report.outcomes))
    if options.only is not None and report.findings:
        print(report.findings[0].traceback)
    if options.refusals:
        for text, number in report.refusals.most_common(60):
            print(f"{number:6} {text}")
    for kind, number in Counter(
        (f.outcome, f.place, re.sub(r"\d+", "#", f.detail)[:110]) for f in report.findings
    ).most_common():
        print(f"{number:6} {' '.join(kind)}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
