"""`python -m tools.check`: what to run before every commit, in under a minute on an idle machine.

Lint, format and types, then the tests that are quick for what they find: rules of the layout, one
worked example of every operation, reading, writing and the calls of a model. Whatever changed since
`main` and has tests of its own name is added: `src/uncork/score/source.py` brings in
`tests/score/test_source.py`, and `score/batch.py`, which has none of its own,
`tests/score/test_score.py`. Tests that take minutes are left to `pytest`.

    python -m tools.check            # all of it
    python -m tools.check --durations 10
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Tests of everything, a little of each.
QUICK = (
    "tests/test_layers.py",
    "tests/test_errors.py",
    "tests/compiler/test_arguments.py",
    "tests/ir/test_read.py",
)
#: Tests that kill, fork and wait: they take minutes, and `pytest` runs them.
LONG = (
    "tests/processes/",
    "tests/fuzz/",
    "tests/score/test_faults.py",
    "tests/score/test_every_step.py",
    "tests/score/test_ray",
)
#: Seconds that all of it should take; more is said, and fails nothing: machines differ.
BUDGET = 60.0


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 0 when every step passed. The first that fails ends the check."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.check", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--base", default="main", help="what changes are counted from (main)")
    parser.add_argument(
        "--durations", type=int, default=5, help="how many of the slowest tests are shown (5)"
    )
    options = parser.parse_args(words)
    began = time.monotonic()
    for name, command in steps(changed(options.base), options.durations):
        before = time.monotonic()
        status = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        print(
            f"== {name}: {'passed' if status == 0 else 'FAILED'} in "
            f"{time.monotonic() - before:.1f} s",
            flush=True,
        )
        if status:
            return 1
    seconds = time.monotonic() - began
    over = f", more than the {BUDGET:.0f} it should take" if seconds > BUDGET else ""
    print(f"== all passed in {seconds:.0f} s{over}")
    return 0


def steps(files: Iterable[str], durations: int) -> list[tuple[str, list[str]]]:
    """The commands, as arguments of Python, with a name for each."""
    named = [path for path in named_tests(files) if not path.startswith(LONG)]
    tests = list(dict.fromkeys([*QUICK, *named]))
    shown = [f"--durations={durations}", "--durations-min=1"]
    return [
        ("lint", ["ruff", "check", "."]),
        ("format", ["ruff", "format", "--check", "."]),
        ("types", ["mypy"]),
        (
            "every operation",
            [
                "pytest",
                "-n",
                "2",
                "tests/ops/test_every_op.py",
                "-k",
                "test_sample or test_refusal",
                *shown,
            ],
        ),
        ("tests", ["pytest", "-n", "2", *tests, *shown]),
    ]


def changed(base: str) -> list[str]:
    """Files that differ from where the branch left `base`, those that are not committed included;
    none where git cannot tell.
    """
    command = ["git", "diff", "--name-only", "--merge-base", base]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n") if done.returncode == 0 else []


def named_tests(files: Iterable[str]) -> list[str]:
    """The test files that are changed, or named as a changed file is, or else as its folder."""
    found: list[str] = []
    for file in map(Path, files):
        if file.parts[:1] == ("tests",):
            wanted = [file] if file.name.startswith("test_") else []
        elif file.parts[:2] == ("src", "uncork"):
            folder, name = Path("tests", *file.parts[2:-1]), file.stem.strip("_")
            own = folder / f"test_{name}.py"
            wanted = [own if (ROOT / own).is_file() else folder / f"test_{folder.name}.py"]
        else:
            wanted = []
        found += [str(path) for path in wanted if (ROOT / path).is_file()]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    sys.exit(main())
