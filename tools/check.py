"""`python -m tools.check`: what to run before every commit, in under a minute on an idle machine.

Lint and format, then the tests that are quick for what they find: rules of the layout, the worked
examples of every operation where one may have changed, reading, writing and the calls of a model;
at the end the types.
Whatever changed since `main` brings the tests in that hold it (`tools/tests_of.py`):
`src/uncork/score/source.py` brings `tests/score/test_source.py`, a kernel or a lowering the worked
examples of its operations, run by it. They come first, since they know most of the change, and the
first test that fails ends the check. Tests that take minutes are left to `pytest`.

    python -m tools.check            # all of it
    python -m tools.check --durations 10
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.test_layers import LAYERS

from tools.tests_of import LONG, ROOT, lowered, tests_of, types_of

SOURCE = "src/uncork/"
#: What runs an export.
RUNS = {"onnx": "onnxruntime", "torch": "torch"}
#: Tests of everything, a little of each.
QUICK = (
    "tests/test_layers.py",
    "tests/test_errors.py",
    "tests/compiler/test_arguments.py",
    "tests/ir/test_read.py",
)
EVERY_OPERATION = "tests/ops/test_every_op.py"
#: The parts that operations do not import.
ABOVE_OPERATIONS = set().union(*LAYERS[LAYERS.index({"ops"}) + 1 :])
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
    return [
        ("lint", ["ruff", "check", "."]),
        ("format", ["ruff", "format", "--check", "."]),
        (
            "tests",
            [*run_of_tests(list(files)), "-x", f"--durations={durations}", "--durations-min=1"],
        ),
        ("types", ["mypy"]),
    ]


def run_of_tests(files: Sequence[str]) -> list[str]:
    """The command that runs all tests, since each start of pytest imports everything in each of its
    processes: first those that know most of the change.
    """
    named, chosen = named_tests(files), examples(files)
    asked = dict.fromkeys([*chosen, *named, *QUICK])
    if not files or any(map(concerns_operations, files)):
        asked[EVERY_OPERATION] = None
        chosen[EVERY_OPERATION] = "test_sample or test_refusal or test_inference_of_sample"
    narrowed = [
        f"(not ({Path(file).parent.name} and {Path(file).name}) or ({which}))"
        for file, which in chosen.items()
        if file not in named
    ]
    return ["pytest", "-n", "2", *asked, "-k", " and ".join(narrowed)]


def concerns_operations(file: str) -> bool:
    """Whether the references of operations may have changed with a file: not by texts, and not by
    parts of uncork, or tests of them, that operations do not import.
    """
    part = Path(file.removeprefix(SOURCE).removeprefix("tests/")).parts[:1]
    inner = file.startswith((SOURCE, "tests/")) and {Path(*part).stem} <= ABOVE_OPERATIONS
    return not file.endswith(".md") and not inner


def examples(files: Iterable[str]) -> dict[str, str]:
    """The files of worked examples that run what has changed, each with those of its tests, as `-k`
    takes them, that are for the types of operations concerned.
    """
    modules = [file.removeprefix(SOURCE) for file in files if file.startswith(SOURCE)]
    found: dict[str, str] = {}
    kernels = sorted({name for module in modules for name in types_of(module)})
    if kernels:
        found["tests/kernels/test_every_kernel.py"] = f"test_sample and ({_any_of(kernels)})"
    for target, system in RUNS.items():
        begin = f"export/{target}/"
        types = sorted({n for m in modules if m.startswith(begin) for n in lowered(m)})
        if types and importlib.util.find_spec(system) is not None:
            found[f"tests/{begin}test_samples.py"] = _any_of(types)
    return found


def _any_of(types: Iterable[str]) -> str:
    return " or ".join(f"{name}-" for name in types)


def changed(base: str) -> list[str]:
    """Files that differ from where the branch left `base`, those that are not committed included;
    none where git cannot tell.
    """
    command = ["git", "diff", "--name-only", "--merge-base", base]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def named_tests(files: Iterable[str]) -> list[str]:
    """The tests that are changed, and those that hold what is changed (see `tests_of`)."""
    found: list[str] = []
    for file in files:
        path = Path(file)
        if path.parts[:1] == ("tests",) and path.name.startswith("test_"):
            found += [file] if (ROOT / path).is_file() else []
        elif file.startswith(SOURCE) and file.endswith(".py"):
            found += tests_of(file.removeprefix(SOURCE))
    return [test for test in dict.fromkeys(found) if not test.startswith(LONG)]


if __name__ == "__main__":
    sys.exit(main())
