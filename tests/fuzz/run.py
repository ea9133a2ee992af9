"""Changes models at random and tries each: it must run, or be refused by an UncorkError that says
what is wrong and where.

    python -m tests.fuzz.run --count 5000 --seed 1 [--keep FOLDER] [--models REGEX] [--only NUMBER]

Some cases have a pipe, a device, a folder or the like in place of one of the files. Everything else
(another exception, a warning, a crash, a hang, two backends that disagree) is a finding. Each case
depends on the seed and its number alone: `--only` repeats one. `--keep` saves the files of every
finding.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import random
import re
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.models import Seed, seeds
from tests.fuzz.mutate import Mutation
from tests.processes._strange import KINDS

#: Of so many cases one of the files is no ordinary one.
_STRANGE = 0.03
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Finding:
    """A case that neither ran nor was refused as it should be."""

    number: int
    seed: str
    outcome: str
    detail: str
    place: str
    log: list[str]
    traceback: str = ""

    def __str__(self) -> str:
        changes = "\n    ".join(self.log)
        return (
            f"case {self.number} of {self.seed}: {self.outcome} {self.place} {self.detail}\n "
            f"   {changes}"
        )


@dataclass
class Report:
    """What came of all cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(
        self, number: int, seed: str, answer: dict[str, Any], log: list[str], progress: bool
    ) -> Finding | None:
        """Take a worker's answer; the finding that it is, when it is one."""
        outcome = answer["outcome"]
        self.outcomes[outcome] += 1
        finding = None
        if outcome not in ("ran", "refused"):
            finding = Finding(
                number,
                seed,
                outcome,
                answer["detail"],
                answer.get("place", ""),
                log,
                answer.get("traceback", ""),
            )
            self.findings.append(finding)
        if progress and finding:
            print(finding, flush=True)
        if progress and (number + 1) % 250 == 0:
            print(f"{number + 1} cases: {dict(self.outcomes)}", flush=True)
        return finding


@functools.cache
def heap_checks() -> dict[str, str]:
    """The environment in which glibc looks behind each piece of memory when that is given back, and
    ends the process where something was written there; empty where the C library is another one.
    """
    name = "libc_malloc_debug.so.0"
    try:
        ctypes.CDLL(name)
    except OSError:
        return {}
    preload = " ".join(filter(None, (name, os.environ.get("LD_PRELOAD"))))
    return {"LD_PRELOAD": preload, "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}


class Worker:
    """The process that tries the files, under checks of its heap where there are such."""

    def __init__(self, memory: int, seconds: float, module: str = "tests.fuzz.worker") -> None:
        self.memory, self.seconds, self.module = memory, seconds, module
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the worker)

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        if self.process is None:
            command = [sys.executable, "-m", self.module, str(self.memory)]
            one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            environment = {**os.environ, **one, **heap_checks()}
            self.errors.seek(0)
            self.errors.truncate()
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self.errors,
                text=True,
                cwd=ROOT,
                env=environment,
            )
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.seconds)
        line = process.stdout.readline() if ready else ""
        if line:
            return dict(json.loads(line))
        if ready:
            process.wait()
            self.close()
            self.errors.seek(0)
            return {
                "outcome": "crash",
                "detail": f"exit {process.returncode}",
                "traceback": self.errors.read()[-3000:],
            }
        self.close()
        return {"outcome": "hang", "detail": f"not done after {self.seconds} s"}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
            self.process = None


def cases(
    all_seeds: Sequence[Seed], seed: int, numbers: Sequence[int]
) -> Iterator[tuple[int, Seed, Mutation]]:
    for number in numbers:
        generator = random.Random(f"{seed}:{number}")
        chosen = generator.choice(all_seeds)
        mutation = Mutation(chosen.xml, chosen.weights, generator)
        mutation.apply()
        own = random.Random(f"{seed}:{number}:file")
        if own.random() < _STRANGE and hasattr(os, "mkfifo"):
            mutation.strange = own.choice(("xml", "weights")), own.choice(sorted(KINDS))
            mutation.log.append("file: {} becomes a {}".format(*mutation.strange))
        yield number, chosen, mutation


def place(path: Path, data: bytes, kind: str | None) -> None:
    """Write a file, or make something else in its place."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    if kind is None:
        path.write_bytes(data)
    else:
        KINDS[kind](path)


def fuzz(
    all_seeds: Sequence[Seed],
    seed: int,
    numbers: Sequence[int],
    *,
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
            xml, weights = Path(folder, "model.xml"), Path(folder, "model.bin")
            for number, chosen, mutation in cases(all_seeds, seed, numbers):
                which, kind = mutation.strange
                place(xml, mutation.xml, kind if which == "xml" else None)
                place(weights, mutation.weights, kind if which == "weights" else None)
                answer = worker.run(
                    {
                        "model": str(xml),
                        "weights": str(weights),
                        "seed": number,
                        "backends": list(backends),
                    }
                )
                if answer["outcome"] == "refused":
                    report.refusals[kind_of(answer["detail"])] += 1
                finding = report.add(number, chosen.name, answer, mutation.log, progress)
                if finding is not None and keep is not None:
                    _keep(keep, finding, mutation)
    finally:
        worker.close()
        worker.errors.close()
    return report


def kind_of(message: str) -> str:
    """A refusal without what is particular in it."""
    return re.sub(r"'[^']*'|\S*/\S*|-?\d[\d,.]*|\[[^]]*\]", "#", message)[:110]


def _keep(folder: Path, finding: Finding, mutation: Mutation) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{finding.outcome}_{finding.number}"
    stem.with_suffix(".xml").write_bytes(mutation.xml)
    stem.with_suffix(".bin").write_bytes(mutation.weights)
    stem.with_suffix(".txt").write_text(f"{finding}\n\n{finding.traceback}")


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
    parser.add_argument(
        "--models", default="", help="only seeds whose name this regular expression finds"
    )
    parser.add_argument("--seconds", type=float, default=30, help="the time that one case may take")
    parser.add_argument(
        "--memory", type=int, default=4096, help="the memory that one case may take, in MB"
    )
    parser.add_argument(
        "--backend", action="append", choices=["reference", "cpu"], help="default: both, compared"
    )
    options = parser.parse_args(arguments)
    chosen = seeds(pattern=options.models)
    if not chosen:
        parser.error(f"no seed is called like {options.models!r}")
    numbers = (
        [options.only]
        if options.only is not None
        else range(options.start, options.start + options.count)
    )
    report = fuzz(
        chosen,
        options.seed,
        numbers,
        keep=options.keep,
        memory=options.memory << 20,
        seconds=options.seconds,
        backends=options.backend or ("reference", "cpu"),
        progress=True,
    )
    print(
        f"\n{sum(report.outcomes.values())} cases of {len(chosen)} models: {dict(report.outcomes)}"
    )
    for kind, number in report.refusals.most_common(25):
        print(f"{number:6} refused: {kind}")
    places = Counter(
        (f.outcome, f.place, re.sub(r"\d+", "#", f.detail)[:90]) for f in report.findings
    )
    for (outcome, place, detail), number in places.most_common():
        print(f"{number:6} {outcome} {place} {detail}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
