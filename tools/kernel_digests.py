"""Digests of the LLVM text of kernels, for fixed processors that nobody needs to own.

    python -m tools.kernel_digests --out before.txt        # before a change that only moves code
    python -m tools.kernel_digests --compare before.txt    # after it: exit 1 and the differences

The kernels are those that are selected for the samples of all operations, for the sizes around the
edges of blocks that tests/kernels/_fences.py has, for the models of tests/compiler/test_plans.py
and of examples/, and for every model under the folders of `--models` (each with its inputs.npz).
LLVM is not run: the text is what the emitters write. Names inside the text are numbered, so that a
digest changes when code changes and not when a value is renamed.

A line is: processor, source, case, what was selected. A selection shows the digest of each kernel
that it calls and one of the calls themselves: operands, sizes, packed weights, shares of threads.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kernel_recorder import TARGETS, Recorder

ROOT = Path(__file__).resolve().parent.parent


def lines_of(target: str, folders: Sequence[Path]) -> Iterator[str]:
    """All lines of one processor, from this process, which must not have selected a kernel yet."""
    from tools import kernel_cases

    recorder = Recorder(TARGETS[target])
    for source, case, selected in kernel_cases.everything(recorder, folders):
        yield f"{target} | {source} | {case} | {selected}"
    for name, digest in recorder.made():
        yield f"{target} | kernels | {name} | {digest}"


def collect(targets: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """The lines of several processors, each from a process of its own, all at the same time."""
    command = [sys.executable, "-m", "tools.kernel_digests", *(f"--models={f}" for f in folders)]
    running = [
        subprocess.Popen([*command, "--only", target], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for target in targets
    ]
    found: list[str] = []
    for target, process in zip(targets, running, strict=True):
        text, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"the process for {target} failed with status {process.returncode}")
        found += text.splitlines()
    return found


def summary(lines: Sequence[str]) -> list[str]:
    """One digest for each processor and source, with the number of its lines."""
    parts: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        target, source, _ = line.split(" | ", 2)
        parts.setdefault((target, source), []).append(line)
    return [
        f"{target:<16}{source:<28}{len(own):>6}  "
        + hashlib.sha256("\n".join(own).encode()).hexdigest()[:16]
        for (target, source), own in parts.items()
    ]


def compare(before: Sequence[str], after: Sequence[str]) -> int:
    """Print how two runs differ; the exit status."""
    if list(before) == list(after):
        print(f"equal: {len(after)} lines")
        return 0
    different = [
        line
        for line in difflib.unified_diff(before, after, "before", "after", lineterm="", n=0)
        if not line.startswith("@@")
    ]
    print("\n".join(different[:200]))
    print(f"{len(different) - 2} lines differ", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=[*TARGETS], help="default: all")
    parser.add_argument("--models", action="append", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--out", type=Path, help="write the lines to a file")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="lines that must be the same")
    parser.add_argument("--only", choices=[*TARGETS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        for line in lines_of(options.only, options.models):
            print(line)
        return 0
    targets = [target for target in TARGETS if target in (options.target or TARGETS)]
    lines = collect(targets, [folder.resolve() for folder in options.models])
    print("\n".join(summary(lines)))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if options.compare:
        before = options.compare.read_text(encoding="utf-8").splitlines()
        return compare([line for line in before if line.split(" | ")[0] in targets], lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
