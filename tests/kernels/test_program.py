"""Programs: tables of kernels that one native call walks through."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.codegen.emit import F32, Kernel
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.program import OTHERS, WELL, Address, Call, Is, Like, Program, Size, native_entry


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


@pytest.mark.parametrize("native", [False, True])
def test_arrays_that_are_not_as_told_are_not_touched(native: bool) -> None:
    f32 = np.dtype("f")
    likes = [Like(f32, (None, 2)), Like(f32, (None,), same=0), Like(f32, (3,), written=True)]
    program = Program([Call(doubling(), (Address(0), Address(2), 3))], likes=likes)
    run = program.run if native else program.run_by_ctypes
    x, y, out = np.ones((2, 2), np.float32), np.ones(2, np.float32), np.zeros(3, np.float32)
    assert run(x, y, out) == WELL
    np.testing.assert_array_equal(out, [2, 2, 2])
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    others = {
        "too few": (x, y),
        "no array": (None, y, out),
        "a list": ([1.0, 1.0], y, out),
        "a subclass": (np.ma.masked_array(x), y, out),
        "another type": (x.astype(np.float64), y, out),
        "swapped bytes": (x.astype(">f4"), y, out),
        "another rank": (x.reshape(4), y, out),
        "another size": (np.ones((2, 3), np.float32), y, out),
        "not the same length": (x, np.ones(3, np.float32), out),
        "not in C order": (np.ones((4, 2), np.float32)[::2], y, out),
        "not to be written": (x, y, frozen),
    }
    for what, arrays in others.items():
        assert run(*arrays) == OTHERS, what
    assert run(np.ones((5, 2), np.float32), np.ones(5, np.float32), out) == WELL, "an open length"


def test_what_a_program_works_with_lives_as_long_as_its_entry() -> None:
    import gc
    import weakref

    class Kept:
        pass

    kept = Kept()
    gone = weakref.ref(kept)
    likes = [Like(np.dtype("f"), (3,))]
    run = Program([Call(doubling(), (Address(0), Address(1), 3))], likes=likes, results=[((3,), np.dtype("f"))], keep=kept).run
    del kept
    gc.collect()
    assert gone() is not None
    (result,) = run(np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(result, [2, 4, 6])
    del run, result
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("native", [False, True])
def test_results_are_made_and_given(native: bool) -> None:
    likes = [Is(None), Like(np.dtype("f"), (None,)), Is("a word")]
    program = Program([Call(doubling(), (Address(1), Address(3), Size(1, 0)))], likes=likes, results=[((3,), np.dtype("f"))])
    run = program.run if native else program.run_by_ctypes
    given = np.array([1, 2, 3], np.float32)
    first, second = run(None, given, "a word"), run(None, given, "a word")
    assert first[0] is not second[0] and first[0].flags.owndata and first[0].flags.writeable
    np.testing.assert_array_equal(first[0], [2, 4, 6])
    assert run(0, given, "a word") == OTHERS
    assert run(None, -given, "a word") == 0
    before = sys.getrefcount(np.dtype("f"))
    for _ in range(1000):
        run(None, given, "a word")
        run(None, -given, "a word")
    assert sys.getrefcount(np.dtype("f")) < before + 100
