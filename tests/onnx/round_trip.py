"""Whole models to ONNX and back: the same answers, and the same plan.

    python -m tests.onnx.round_trip [--plans] FOLDER...

A folder has model.xml and inputs.npz, as for `tests.export.round_trip`. The model is exported, its
ONNX file is opened, and a model.onnx beside it too. Exit status 1 when an answer differs. Models
with state are called once: opened from ONNX, states begin as they do in the IR, and stay. `--plans`
shows the kernels that one of the two plans has and the other has not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import uncork
from tests.export.round_trip import arrays, same
from uncork.types import Array


def kernels(compiled: uncork.CompiledModel) -> Counter[str]:
    """What runs in a call, by how often."""
    return Counter(step.kernel or step.reason for step in compiled.plan.steps)


def difference(found: Sequence[Array], wanted: Sequence[Array]) -> str:
    """What is not the same in two lists of results."""
    for i, (a, b) in enumerate(zip(found, wanted, strict=False)):
        if a.dtype != b.dtype or not same(a, b):
            return f"output {i} differs"
    return ""


def compared(model: Path, other: Path, runs: Sequence[Sequence[Array]]) -> tuple[str, str]:
    """What is wrong with the results of the other file, and how the plans differ."""
    ours, theirs = uncork.load(model), uncork.load(other)
    wrong = ""
    for run in runs[: 1 if ours.query_state() else None]:
        count = len(theirs.inputs)
        expected = [np.array(a) for a in ours(*run)]
        found = theirs(*run[:count])
        wrong = wrong or difference(list(found), expected)
    mine, its = kernels(ours), kernels(theirs)
    lines = [f"    IR only:   {n} x {k}" for k, n in sorted((mine - its).items())]
    lines += [f"    ONNX only: {n} x {k}" for k, n in sorted((its - mine).items())]
    return wrong, "\n".join(lines)


def check(folder: Path) -> tuple[list[str], str]:
    """What is wrong of a model, and the differences of plans."""
    runs = arrays(folder / "inputs.npz")
    path, own = folder / "model.xml", folder / "model.onnx"
    wrong, plans = [], ""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "model.onnx")
        uncork.write_onnx(path, made)
        for name, file in (("exported", made), ("model.onnx", own)):
            if file.exists():
                found, lines = compared(path, file, runs)
                wrong += [f"{name}: {found}"] if found else []
                plans += f"  {name}:\n{lines}\n" if lines else ""
    return wrong, plans


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--plans", action="store_true", help="show where plans differ")
    options = parser.parse_args(arguments)
    failed = 0
    for folder in options.folders:
        try:
            wrong, plans = check(folder)
        except Exception:  # whatever is raised: the other models are tried, too
            wrong, plans = [traceback.format_exc()], ""
        print(f"{folder.name:30} {'; '.join(wrong) or 'the same'}", flush=True)
        if options.plans:
            print(plans or "  the same plan", flush=True)
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
