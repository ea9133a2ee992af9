"""The native thread pool: who makes the calls of a dispatch, and what happens to them at forks, at
interrupts and at the end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.processes._children import run_child

pytest.importorskip("llvmlite")
if os.name != "posix":
    pytest.skip("the pool's threads are those of POSIX", allow_module_level=True)

from uncork.kernels.runtime.dispatch import Dispatch, own_pool, serve
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.thread_pool import POOL, Pool

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def dispatched(address: int, works: Sequence[Callable[[int], int]]) -> int:
    """The status of a dispatch of calls that are functions of their number."""
    kernels = [KERNEL(work) for work in works]
    table = np.array(
        [[ctypes.cast(k, ctypes.c_void_p).value, n] for n, k in enumerate(kernels)], np.int64
    )
    words = np.array([address, len(works), table.ctypes.data], np.int64)
    return int(KERNEL(STORE.address(Dispatch()))(words.ctypes.data))


def test_calls_run_at_the_same_time() -> None:
    made, meeting = Pool(serve), threading.Barrier(4)
    for _ in range(3):
        assert dispatched(made.address, [lambda _: meeting.wait(30) * 0] * 4) == 0
    assert made.threads == 3, "no more than one dispatch has had calls for"


def test_every_call_is_made_once() -> None:
    made = Pool(serve)
    for count in (1, 2, 9, 3):
        seen: list[int] = []

        def work(number: int, seen: list[int] = seen) -> int:
            seen.append(number)
            return 0

        for _ in range(20):
            seen.clear()
            assert dispatched(made.address, [work] * count) == 0
            assert sorted(seen) == list(range(count))


@pytest.mark.parametrize("address", [True, False], ids=["with a pool", "without one"])
def test_the_status_of_a_call_that_declines(address: bool) -> None:
    done: list[int] = []

    def works(*found: int) -> list[Callable[[int], int]]:
        return [lambda n, status=status: done.append(n) or status for status in found]  # type: ignore[misc,func-returns-value]

    at = Pool(serve).address if address else 0
    assert dispatched(at, works(0, 0, 5, 0)) == 5
    assert dispatched(at, works(7, 0)) == 7
    assert dispatched(at, works(0, 0, 0)) == 0
    assert len(done) == 9, "the others are made all the same"


def test_who_finds_the_pool_at_work_makes_its_calls_itself() -> None:
    made = Pool(serve)
    makers: list[set[int]] = []

    def outer(_: int) -> int:
        mine: set[int] = set()
        makers.append(mine)
        return dispatched(made.address, [lambda _: mine.add(threading.get_native_id()) or 0] * 3)  # type: ignore[func-returns-value]

    assert dispatched(made.address, [outer] * 3) == 0
    assert [len(mine) for mine in makers] == [1, 1, 1]


def test_where_no_thread_can_be_started_the_caller_makes_all_calls() -> None:
    made = Pool(serve)
    refuse = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *_: 11)
    made._words[POOL.index("start")] = ctypes.cast(refuse, ctypes.c_void_p).value or 0
    makers: set[int] = set()
    assert dispatched(made.address, [lambda _: makers.add(threading.get_native_id()) or 0] * 5) == 0  # type: ignore[func-returns-value]
    assert makers == {threading.get_native_id()}
    assert made.threads == 0


def test_threads_of_the_pool_take_no_signals_but_those_of_their_faults() -> None:
    made, meeting = Pool(serve), threading.Barrier(2)
    blocked: dict[int, set[int]] = {}

    def work(_: int) -> int:
        blocked[threading.get_native_id()] = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return meeting.wait(30) * 0

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert dispatched(made.address, [work] * 2) == 0
    assert signal.SIGINT not in blocked.pop(threading.get_native_id())
    (theirs,) = blocked.values()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGALRM} <= theirs
    assert not {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE} & theirs
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_who_handles_faults_is_asked_in_threads_of_the_pool() -> None:
    done = run_child(FAULT)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr


FAULT = """
import ctypes, faulthandler, threading
from tests.processes.test_thread_pool import dispatched
from uncork.kernels.runtime.dispatch import serve
from uncork.kernels.runtime.thread_pool import Pool

main, meeting = threading.get_native_id(), threading.Barrier(2)

def work(_):
    meeting.wait(30)
    if threading.get_native_id() == main:
        threading.Event().wait(30)
    ctypes.string_at(0)

faulthandler.enable()
dispatched(Pool(serve).address, [work] * 2)
"""


def test_there_is_one_pool() -> None:
    assert own_pool() is own_pool() is not None


PRODUCTS = """
import os, signal, sys, threading, traceback
import numpy as np, uncork
from uncork.kernels.runtime.dispatch import own_pool

rng = np.random.default_rng(0)
b = uncork.Builder("m")
y = b.parameter("x", "f32", [None, 512])
for i in range(3):
    weights = rng.standard_normal((512, 512)) / 512**0.5
    (y,) = b.add("MatMul", 1, y, b.constant(weights.astype(np.float32)))
    (y,) = b.add("Tanh", 1, y)
b.result(y)
MODEL = b.model()

def made():
    return uncork.compile_model(MODEL, threads=4)

data = rng.standard_normal((700, 512)).astype(np.float32)
alone = uncork.compile_model(MODEL, threads=1)
expected = {rows: alone(data[:rows])[0].copy() for rows in (700, 650, 5)}

def right(model, rows=700):
    return np.array_equal(model(data[:rows])[0], expected[rows])
"""

FORKS = """
model = made(); assert right(model) and own_pool().threads == 3
stop = threading.Event(); wrong = []
def calls():
    while not stop.is_set():
        if not right(model): wrong.append(1)
threads = [threading.Thread(target=calls) for _ in range(2)]
[t.start() for t in threads]
for i in range(25):
    child = os.fork()
    if not child:
        signal.alarm(60)
        status = 1
        try:
            assert own_pool().threads == 0
            for rows in (700, 650, 5, 700): assert right(model, rows)
            assert own_pool().threads == 3
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]: wrong.append(("child", i))
stop.set(); [t.join() for t in threads]
print(wrong or "well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_others_dispatch() -> None:
    done = run_child(PRODUCTS + FORKS)
    assert done.stdout.strip() == "well", done.stdout + done.stderr


INTERRUPTS = """
import time
model = made(); assert right(model)
before = time.perf_counter(); model(data); took = time.perf_counter() - before
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
met = 0
for i in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, took * (0.05 + 0.9 * rng.random()))
        model(data)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt: met += 1
    others = [np.zeros((700, 512), np.float32) for _ in range(4)]  # takes what was freed
    assert right(model)
    assert not any(other.any() for other in others)
print("well" if met else "none came")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_interrupts_while_threads_are_at_work() -> None:
    done = run_child(PRODUCTS + INTERRUPTS)
    assert done.stdout.strip() == "well", done.stdout + done.stderr


EXITS = """
model = made(); begun = threading.Event()
def calls():
    while True:
        model(data); begun.set()
for _ in range(3): threading.Thread(target=calls, daemon=True).start()
begun.wait()
print("well", flush=True)
"""


def test_the_process_ends_while_threads_dispatch() -> None:
    for _ in range(5):
        done = run_child(PRODUCTS + EXITS)
        assert (done.stdout.strip(), done.returncode, done.stderr) == ("well", 0, "")


COLD = """
count = 8; start = threading.Barrier(count); wrong = []
shared = made()
def first(number):
    start.wait()
    try:
        for model in (shared, made()):
            for rows in (700, 650, 5, 700):
                if not right(model, rows): wrong.append((number, rows))
    except BaseException as error: wrong.append(repr(error))
threads = [threading.Thread(target=first, args=(n,)) for n in range(count)]
[t.start() for t in threads]; [t.join() for t in threads]
print(wrong or "well")
"""


def test_first_calls_at_once(tmp_path: Path) -> None:
    """Compiled, then found on disk."""
    for _ in range(2):
        done = run_child(PRODUCTS + COLD, home=tmp_path)
        assert (done.returncode, done.stdout.strip()) == (0, "well"), done.stdout + done.stderr
