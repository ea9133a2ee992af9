"""What the cases share. Expected values come from the pages of Intel's manual, worked by hand, or
from integers that are exact in any order; they hold for a processor with AVX512-BF16 as they do for
the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.kernels import _bf16
from tests.kernels.avx512_bf16.steps import Registers, use_folder

Case = Callable[[], None]
#: By their names.
CASES: dict[str, Case] = {}
#: In this process; empty where the processor itself has the instructions.
emulators: list[_bf16.Emulator] = []
random = np.random.default_rng(7)
#: The letter of registers of each size in bytes.
LETTERS = {16: "x", 32: "y", 64: "z"}


def case(function: Case) -> Case:
    assert function.__name__ not in CASES
    CASES[function.__name__] = function
    return function


def enter(folder: Path) -> None:
    """Build in this folder."""
    use_folder(folder)


def bf16(number: float) -> int:
    """The bits of a number that is a bf16."""
    bits = int(np.float32(number).view(np.uint32))
    assert not bits & 0xFFFF, "not a bf16"
    return bits >> 16


def pair(even: float, odd: float) -> int:
    """Two numbers in a word: the even one is in the lower half."""
    return bf16(odd) << 16 | bf16(even)


def filled() -> Registers:
    """Each f32 and each bf16 of the registers is a small integer; the masks are random."""
    registers = Registers()
    numbers = random.integers(-8, 9, (32, 32)).astype(np.float32)
    registers.halves[:] = numbers.view(np.uint32) >> 16
    registers.k[:] = random.integers(0, 1 << 63, 8, dtype=np.uint64)
    return registers


def check(
    after: Registers, before: Registers, number: int, expected: np.ndarray, note: str
) -> None:
    """A register holds these bytes and zeros behind them; nothing else has changed."""
    wanted = before.copy()
    wanted.v[number] = 0
    wanted.v[number, : expected.nbytes] = np.ascontiguousarray(expected).reshape(-1).view(np.uint8)
    found = np.flatnonzero(wanted.memory != after.memory)
    assert not len(found), f"{note}: bytes {found[:8]}: {after.memory[found[:8]]}"
