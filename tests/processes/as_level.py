"""Run a command as on another processor, with all Python processes that it starts.

    python -m tests.processes.as_level x86-64-v3 python -m tests.fuzz.run_graphs --count 100

LEVEL is one of uncork's levels, of which this processor has every instruction, or `vectors` or
`tiles`: the level with AVX512-BF16, or the one with AMX as well, whose instructions the emulator
executes where they are not here (of pytest, with `-p no:faulthandler`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Variables that name the level, and the folder that keeps the emulator.
LEVEL, FOLDER = "UNCORK_TESTS_LEVEL", "UNCORK_TESTS_FOLDER"


def take(level: str, folder: str) -> None:
    """Let this process, which has no kernel yet, take the processor for one of a level."""
    if level in ("vectors", "tiles"):
        from tests.kernels import _bf16

        _bf16.enable_kernels(Path(folder), tiles=level == "tiles")
        return
    from benchmarks.targets import run_as

    if why_not := run_as(level):
        raise SystemExit(why_not)


def main(level: str, *command: str) -> int:
    """The command line."""
    first = [str(Path(__file__).with_name("level")), str(ROOT)]
    path = os.pathsep.join([*first, *filter(None, [os.environ.get("PYTHONPATH")])])
    program, *arguments = command
    program = sys.executable if program == "python" else program
    with tempfile.TemporaryDirectory() as folder:
        take(level, folder)  # what cannot be is said here
        told = {"PYTHONPATH": path, LEVEL: level, FOLDER: folder}
        return subprocess.call([program, *arguments], env={**os.environ, **told})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
