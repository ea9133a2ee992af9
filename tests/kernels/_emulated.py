"""Run a program in a process that has instructions on bf16, natively or by the emulator.

    python -m tests.kernels._emulated FOLDER vectors|tiles MODULE ARGUMENT...

is `python -m MODULE ARGUMENT...`, and uncork's target there is the level with AVX512-BF16, or the
one with AMX as well. The last line tells how many instructions of each kind the emulator has
executed, or that the processor did. FOLDER keeps the emulator for further processes.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.kernels import _bf16


def main(folder: str, level: str, module: str, *arguments: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=level == "tiles")
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if emulator is None:
            print("executed natively")
        else:
            counts = emulator.counts().items()
            print("executed", ", ".join(f"{count} of {kind}" for kind, count in counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
