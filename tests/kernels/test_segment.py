"""Segments: runs of kernel calls that one native call makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.codegen.emit import F32, Kernel
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.entry_method import native_entry
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.layout import BUSY, HEAD, OK, OTHER_ARGUMENTS
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    ArrayGuard,
    Bind,
    IdentityGuard,
    MadeResult,
    SegmentPlan,
    Slot,
    Step,
)


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


def segment(*steps: Step, binds: Sequence[Bind] = (), slots: int = 0, **options: Any) -> Segment:
    """A segment of these steps in memory of its own."""
    return Segment(SegmentPlan(steps, tuple(binds)), Context([0] * slots, 0), 0, **options)


def at(argument: int, offset: int = 0) -> ArgumentAddress:
    return ArgumentAddress(argument, offset)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_steps_run_in_order(release: bool, native: bool) -> None:
    step = doubling()
    steps = Step(step, (at(0, 4), at(1), 3)), Step(step, (at(1), at(1), Slot(0)))
    made = segment(
        *steps, binds=[Bind(Slot(0), 1)], slots=1, release_cost=-1 if release else 1 << 62
    )
    run = made.run if native else made.run_by_ctypes
    source, target = np.array([9, 1, 2, 3], np.float32), np.zeros(3, np.float32)
    assert run(source, target) == -1
    np.testing.assert_array_equal(target, [4, 8, 12])
    source[2] = -1
    assert run(source, target) == 0, "the first step refuses"


def test_the_step_that_refuses_is_named() -> None:
    step = doubling()
    minus = np.array([-1], np.float32)
    made = segment(
        Step(step, (at(0), at(0), 1)), Step(step, (minus.ctypes.data, minus.ctypes.data, 1))
    )
    assert made.run(np.ones(1, np.float32)) == 1


def test_a_segment_may_be_empty() -> None:
    assert segment().run() == OK


@pytest.mark.parametrize("native", [False, True])
def test_one_call_at_a_time(native: bool) -> None:
    made = segment(Step(doubling(), (at(0), at(0), 1)))
    run = made.run if native else made.run_by_ctypes
    x = np.ones(1, np.float32)
    made._block[HEAD.index("busy")] = 1  # as while another thread is in it
    assert run(x) == BUSY
    assert x[0] == 1
    made._block[HEAD.index("busy")] = 0
    assert run(x) == OK
    assert x[0] == 2


def test_this_interpreter_has_the_native_entry() -> None:
    assert native_entry(), "CPython with a GIL: calls should not go through ctypes"


@pytest.mark.parametrize("native", [False, True])
def test_arrays_that_are_not_as_told_are_not_touched(native: bool) -> None:
    f32 = np.dtype("f")
    array_guards = [
        ArrayGuard(f32, (None, 2)),
        ArrayGuard(f32, (None,)),
        ArrayGuard(f32, (3,), written=True),
    ]
    made = segment(Step(doubling(), (at(0), at(2), 3)), array_guards=array_guards)
    run = made.run if native else made.run_by_ctypes
    x, y, out = np.ones((2, 2), np.float32), np.ones(2, np.float32), np.zeros(3, np.float32)
    assert run(x, y, out) == OK
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
        "not in C order": (np.ones((4, 2), np.float32)[::2], y, out),
        "not to be written": (x, y, frozen),
    }
    for what, arrays in others.items():
        assert run(*arrays) == OTHER_ARGUMENTS, what
    assert run(np.ones((5, 2), np.float32), np.ones(5, np.float32), out) == OK, "an open length"


def test_what_a_segment_works_with_lives_as_long_as_its_entry() -> None:
    import gc
    import weakref

    class Kept:
        pass

    kept = Kept()
    gone = weakref.ref(kept)
    array_guards = [ArrayGuard(np.dtype("f"), (3,))]
    run = segment(
        Step(doubling(), (at(0), at(1), 3)),
        array_guards=array_guards,
        results=[MadeResult(np.dtype("f"), (3,))],
        keep=kept,
    ).run
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
    array_guards = [
        IdentityGuard(None),
        ArrayGuard(np.dtype("f"), (None,)),
        IdentityGuard("a word"),
    ]
    steps, binds = Step(doubling(), (at(1), at(3), Slot(0))), [Bind(Slot(0), 1)]
    made = segment(
        steps,
        binds=binds,
        slots=1,
        array_guards=array_guards,
        results=[MadeResult(np.dtype("f"), (3,))],
    )
    run = made.run if native else made.run_by_ctypes
    given = np.array([1, 2, 3], np.float32)
    first, second = run(None, given, "a word"), run(None, given, "a word")
    assert first[0] is not second[0] and first[0].flags.owndata and first[0].flags.writeable
    np.testing.assert_array_equal(first[0], [2, 4, 6])
    assert run(0, given, "a word") == OTHER_ARGUMENTS
    assert run(None, -given, "a word") == 0
    before = sys.getrefcount(np.dtype("f"))
    for _ in range(1000):
        run(None, given, "a word")
        run(None, -given, "a word")
    assert sys.getrefcount(np.dtype("f")) < before + 100
