"""Runs models by the kernels that come with uncork, and counts what was missing.

    python -m tools.kernel_hits FOLDER [FOLDER ..]      # each with model.xml and inputs.npz

Exit 1 where a layer that has a kernel ran by its reference because it was not to be had.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import uncork
from uncork.kernels.runtime.kernel_cache import STORE


def missing_of(folder: Path) -> tuple[int, list[str]]:
    """How many steps the plan of a model has, and which of them lack a kernel."""
    compiled = uncork.load(folder / "model.xml", threads=1)
    with np.load(folder / "inputs.npz") as file:
        first = min(key.split("/")[0] for key in file.files)
        given = [file[f"{first}/{number}"] for number in range(len(compiled.inputs))]
    compiled(*given)
    steps = list(compiled.plan.steps)
    return len(steps), [
        f"{step.layer}: {step.reason}"
        for step in steps
        if step.kernel == "reference" and "come with uncork" in (step.reason or "")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    lacking = 0
    for folder in parser.parse_args().folders:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", uncork.UncorkWarning)
            steps, missing = missing_of(folder)
        lacking += bool(missing)
        print(f"{folder.name}: {steps} steps, {len(missing)} lack a kernel", *missing, sep="\n  ")
    print(f"{len(STORE._functions)} functions of kernels, llvmlite {'llvmlite' in sys.modules}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
