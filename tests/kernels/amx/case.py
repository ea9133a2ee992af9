"""What the cases share: the process they run in, and matrices as tiles hold them.

Expected numbers are small integers, which are exact in any order, sums in double precision, or
worked by hand from the pages of Intel's manual. They hold for a processor with AMX as they do for
the emulator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.kernels import _bf16
from tests.kernels.amx.machine_code import Steps, configuration, machine_code

Case = Callable[[], None]
#: By their names.
CASES: dict[str, Case] = {}
#: All tiles as large as they can be.
FULL = configuration(*[(16, 64)] * 8)
random = np.random.default_rng(5)
_code: list[ctypes.CDLL] = []
#: In this process; empty where the processor itself has AMX.
emulators: list[_bf16.Emulator] = []


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def start(folder: Path, handled_before: bool = False) -> None:
    """Make this process one that runs tile instructions. `handled_before`: somebody handles SIGILL
    already.
    """
    _code.append(machine_code(folder))
    if handled_before:
        code().handle_before()
    emulator = _bf16.enable(folder)
    emulators.extend([] if emulator is None else [emulator])


def code() -> ctypes.CDLL:
    return _code[0]


def steps() -> Steps:
    return Steps(code())


def bits_of(numbers: np.ndarray) -> np.ndarray:
    """bf16 numbers as their bits."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any(), "not a bf16"
    return (bits >> 16).astype(np.uint16)


def paired(numbers: np.ndarray) -> np.ndarray:
    """The right factor as tiles hold it: rows 2k and 2k + 1 by turns, in one row."""
    rows, columns = numbers.shape
    return np.ascontiguousarray(
        bits_of(numbers).reshape(rows // 2, 2, columns).transpose(0, 2, 1)
    ).reshape(rows // 2, 2 * columns)


def integers(rows: int, columns: int) -> np.ndarray:
    return random.integers(-8, 9, (rows, columns)).astype(np.float32)
