"""Programs: tables of kernels that one native call walks through."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.emit import F32, Kernel
from uncork.kernels.program import Address, Call, Program, Size, native_entry
from uncork.kernels.store import STORE


def doubling() -> int:
    """target[i] = 2 * source[i]; refuses negative numbers."""
    kernel = Kernel("doubling", ["source", "target", "count"])
    source, target, count = kernel.arguments
    with kernel.loop(0, count) as i:
        x = kernel.load(source + i * 4, F32)
        kernel.stop_unless(x >= 0, i + 1)
        kernel.store(x * 2.0, target + i * 4)
    kernel.finish()
    return STORE.function("doubling", "test", kernel.text)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_steps_run_in_order(release: bool, native: bool) -> None:
    step = doubling()
    program = Program([Call(step, (Address(0, 4), Address(1), 3)), Call(step, (Address(1), Address(1), Size(1, 0)))], release)
    run = program.run if native else program.run_by_ctypes
    source, target = np.array([9, 1, 2, 3], np.float32), np.zeros(3, np.float32)
    assert run(source, target) == -1
    np.testing.assert_array_equal(target, [4, 8, 12])
    source[2] = -1
    assert run(source, target) == 0, "the first step refuses"


def test_the_step_that_refuses_is_named() -> None:
    step = doubling()
    minus = np.array([-1], np.float32)
    program = Program([Call(step, (Address(0), Address(0), 1)), Call(step, (minus.ctypes.data, minus.ctypes.data, 1))])
    assert program.run(np.ones(1, np.float32)) == 1


def test_a_program_may_be_empty() -> None:
    assert Program([]).run() == -1


def test_this_interpreter_has_the_native_entry() -> None:
    assert native_entry(), "CPython with a GIL: calls should not go through ctypes"
