"""A kernel that reads and writes where it is told to, between fences: `python -m
tests.kernels._outside INPUT OUTPUT ROOM SIDE WRITES`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tests.kernels._fences import run_fenced, spec
from uncork.kernels.codegen.emit import I8, Kernel
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Scratch
from uncork.kernels.runtime.target import Target

ARGUMENTS = ("input", "output", "room", "input_at", "output_at", "room_at")


@dataclass(frozen=True)
class Outside:
    """`writes`: what it writes to besides its output and its room."""

    emitter: ClassVar[str] = "tests.kernels._outside:emit"
    name: ClassVar[str] = "outside"
    writes: str


def emit(kernel: Outside, target: Target) -> str:
    k = Kernel(kernel.name, ARGUMENTS, target)
    a = dict(zip(ARGUMENTS, k.arguments, strict=True))
    value = k.load(a["input"] + a["input_at"], I8)
    k.store(value, a["output"] + a["output_at"])
    k.store(value, a["room"] + a["room_at"])
    if kernel.writes == "input":
        k.store(value, a["input"])
    k.finish()
    return k.text()


def main(*words: str) -> None:
    *given, side, writes = words
    places = [int(word) for word in given]
    array = spec(np.arange(10, dtype=np.int8))
    native = KernelPlan(
        "outside", [(Outside(writes), [In(0), Out(0), Scratch(), *places])], scratch=64
    )
    print(run_fenced(native, [array], [array], side == "first")[0].tolist()[places[1]])


if __name__ == "__main__":
    main(*sys.argv[1:])
