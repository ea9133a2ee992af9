"""Steps that threads share, when something happens to the caller: Ctrl-C, the end of the main thread, no threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.processes._children import run_child
from uncork.compiler import parallel
from uncork.compiler.parallel import ParallelCalls
from uncork.kernels.runtime.program import WELL


class Stop(BaseException):
    """What a signal handler raises."""


class Part:
    """A program whose work is a function."""

    def __init__(self, work: Any) -> None:
        self.run = work


def at_work(*programs: Any) -> ParallelCalls:
    return ParallelCalls([Part(work) for work in programs])  # type: ignore[misc]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals here reach no thread")
def test_an_interrupt_comes_when_all_are_done() -> None:
    main, handled, done = threading.main_thread().ident, threading.Event(), []
    begun = threading.Event()
    assert main is not None

    def stop(*_: object) -> None:
        if not handled.is_set():
            handled.set()
            raise Stop

    def other() -> int:
        begun.set()
        for _ in range(2):  # the second one comes while the call waits because of the first
            handled.clear()
            # Again until it is handled: Python does not see a signal that comes just before the
            # main thread begins to wait for a lock.
            until = time.monotonic() + 30
            while not handled.wait(0.05):
                assert time.monotonic() < until
                signal.pthread_kill(main, signal.SIGUSR1)
        done.append(1)
        return WELL

    def first() -> int:
        assert begun.wait(30)
        return WELL

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(Stop):
            at_work(first, other).run()
        assert done == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_a_part_raises_comes_when_all_are_done() -> None:
    done: list[int] = []
    others_done = threading.Event()

    def wrong() -> int:
        raise ZeroDivisionError

    def slow() -> int:
        others_done.wait(0.05)
        done.append(1)
        return WELL

    for programs in ((wrong, slow, slow), (slow, wrong, slow), (slow, slow, wrong)):
        with pytest.raises(ZeroDivisionError):
            at_work(*programs).run()
    assert len(done) in (4, 5, 6)  # what nobody had begun when the first one failed is not begun


def test_the_status_of_a_part_that_refuses() -> None:
    assert at_work(lambda: WELL, lambda: 3, lambda: WELL).run() == 3
    assert at_work(lambda: WELL, lambda: WELL).run() == WELL


def test_where_no_thread_can_be_started_the_caller_does_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parallel, "_threads", 0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    builder = uncork.Builder("product")
    x = builder.parameter("x", "f32", [512, 512])
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    builder.result(builder.add("MatMul", 1, x, builder.constant(weights))[0])
    data = np.eye(512, dtype=np.float32)
    np.testing.assert_array_equal(uncork.compile_model(builder.model(), threads=3)(data)[0], weights)
    assert at_work(*[lambda: WELL] * 3, lambda: 7).run() == 7


def test_a_part_keeps_its_arrays_while_it_runs() -> None:
    """Whoever gave them may have forgotten them since."""
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("product")
    x = builder.parameter("x", "f32", [512, 512])
    builder.result(builder.add("MatMul", 1, x, builder.constant(np.eye(512, dtype=np.float32)))[0])
    compiled = uncork.compile_model(builder.model(), threads=3)
    compiled._executor.plans = None  # what models run by that have no plan for every size
    compiled(np.ones((512, 512), np.float32))
    (known,) = compiled._executor._kept.values()
    (instance,) = known._idle
    shared = [part for part in instance.parts if isinstance(part, ParallelCalls)]
    assert shared
    for part in shared:
        for program in (part._first, *part._others):
            assert any(instance.memory is kept for kept in program._block.keep[0]), "the step's working memory"  # type: ignore[index]


INTERRUPTED = """
import signal, sys, time, numpy as np, uncork
size = 512; rng = np.random.default_rng(int(sys.argv[1]))
b = uncork.Builder("m"); y = b.parameter("x", "f32", [size, size])
for i in range(3):
    (y,) = b.add("MatMul", 1, y, b.constant((rng.standard_normal((size, size)) / size**.5).astype(np.float32)))
    (y,) = b.add("Tanh", 1, y)
b.result(y)
model = uncork.compile_model(b.model(), threads=4)
data = rng.standard_normal((size, size)).astype(np.float32)
expected = model(data)[0]; before = time.perf_counter(); model(data); took = time.perf_counter() - before
class Stop(BaseException): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
for i in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, took * (0.05 + 0.9 * rng.random()))
        model(data)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop: pass
    others = [np.zeros(size * size, np.float32) for _ in range(3)]  # takes what was freed
    assert np.array_equal(model(data)[0], expected)
    assert not any(other.any() for other in others)
print("well")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_interrupts_at_random() -> None:
    done = run_child(INTERRUPTED, 1)
    assert done.stdout.strip() == "well", done.stderr


AFTER_MAIN = """
import threading, numpy as np, uncork
b = uncork.Builder("m"); x = b.parameter("x", "f32", [512, 512])
b.result(b.add("MatMul", 1, x, b.constant(np.eye(512, dtype=np.float32)))[0])
data = np.ones((512, 512), np.float32)
def later():
    threading.main_thread().join()
    model = uncork.compile_model(b.model(), threads=3)
    for _ in range(3): assert (model(data)[0] == data).all()
    print("well", flush=True)
threading.Thread(target=later).start()
"""


def test_threads_that_outlive_the_main_thread(tmp_path: Path) -> None:
    """Also with everything still to be compiled."""
    for _ in range(2):
        done = run_child(AFTER_MAIN, home=tmp_path)
        assert (done.stdout.strip(), done.returncode) == ("well", 0), done.stderr


def test_threads_are_not_more_than_the_largest_step_has_parts() -> None:
    at_work(*[lambda: WELL] * 4).run()
    before = threading.active_count()
    for _ in range(20):
        at_work(*[lambda: WELL] * 4).run()
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_parts_of_a_parent_are_not_done_by_its_child() -> None:
    code = """
import os, threading
from uncork.compiler import parallel
at_work = lambda *runs: parallel.Together([type("Part", (), {"run": staticmethod(run)}) for run in runs])
at_work(lambda: -1, lambda: -1).run()
assert parallel._threads == 1
child = os.fork()
if not child:
    assert parallel._threads == 0 and parallel._waiting.empty()
    os._exit(10 + at_work(lambda: -1, lambda: 4).run())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_child(code).stdout.strip() == "14"
