"""Steps that threads share, when something happens to the caller: Ctrl-C, the end of the main
thread.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.processes._children import run_child

INTERRUPTED = """
import signal, sys, time, numpy as np, uncork

size = 512
rng = np.random.default_rng(int(sys.argv[1]))
b = uncork.Builder("m")
y = b.parameter("x", "f32", [size, size])
for i in range(3):
    weights = rng.standard_normal((size, size)) / size**0.5
    (y,) = b.add("MatMul", 1, y, b.constant(weights.astype(np.float32)))
    (y,) = b.add("Tanh", 1, y)
b.result(y)
model = uncork.compile_model(b.model(), threads=4)
data = rng.standard_normal((size, size)).astype(np.float32)
expected = model(data)[0]
before = time.perf_counter()
model(data)
took = time.perf_counter() - before

class Stop(BaseException):
    pass

def stop(*_):
    raise Stop

signal.signal(signal.SIGALRM, stop)
for i in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, took * (0.05 + 0.9 * rng.random()))
        model(data)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        pass
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


NETWORK = """
import os, sys, threading, numpy as np, uncork
if "one cpu" in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rng = np.random.default_rng(3)
def some(*shape): return rng.standard_normal(shape).astype(np.float32)
b = uncork.Builder("m")
x = b.parameter("x", "f32", [1, 16, 50, 50])
ids = b.parameter("ids", "i64", [1, 16, 2500])
around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
(y,) = b.add("Convolution", 1, x, b.constant(some(32, 16, 3, 3) / 12), **around)
(y,) = b.add("GroupConvolution", 1, y, b.constant(some(32, 1, 1, 3, 3) / 3), **around)
point = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
(y,) = b.add("Convolution", 1, y, b.constant(some(16, 32, 1, 1) / 6), **point)
(rows,) = b.add("Reshape", 1, y, b.constant(np.array([16, 2500])), special_zero=False)
(z,) = b.add("Reshape", 1, y, b.constant(np.array([1, 16, 2500])), special_zero=False)
(z,) = b.add("ScatterElementsUpdate", 12, z, ids, z, b.constant(np.int64(2)), reduction="sum")
(total,) = b.add("ReduceSum", 1, rows, b.constant(np.array([0])), keep_dims=True)
(made,) = b.add("MatMul", 1, total, b.constant(some(2500, 700) / 50))
for result in (z, made):
    b.result(result)
model, calls = b.model(), [[some(1, 16, 50, 50), rng.integers(0, 2500, (1, 16, 2500))]
                           for _ in range(3)]
expected = [[r.copy() for r in uncork.compile_model(model, threads=1)(*c)] for c in calls]
compiled = [uncork.compile_model(model, threads=n) for n in (2, 3, 64)]
wrong = []
def work():
    for _ in range(3):
        for made in compiled:
            for call, wanted in zip(calls, expected):
                got = made(*call)
                wrong.extend(1 for a, b in zip(got, wanted) if a.tobytes() != b.tobytes())
"""
TOGETHER = """
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert any("in 64 threads" in step.kernel for step in compiled[2].plan.steps)
print("wrong" if wrong else "well")
"""
AFTER_A_FORK = """
work()
child = os.fork()
if not child:
    work()  # with threads of its own
    os._exit(len(wrong) > 0)
status = os.waitpid(child, 0)[1]
work()
print("wrong" if wrong or status else "well")
"""


@pytest.mark.parametrize("cpus", ["all cpus", "one cpu"])
def test_more_threads_than_processors_from_many_callers(cpus: str) -> None:
    """2, 3 and 64 threads give the bits of one, whoever calls at the same time."""
    pytest.importorskip("llvmlite")
    if cpus == "one cpu" and not hasattr(os, "sched_setaffinity"):
        pytest.skip("no affinity here")
    done = run_child(NETWORK + TOGETHER, cpus)
    assert (done.stdout.strip(), done.returncode) == ("well", 0), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_shares_steps_by_threads_of_its_own() -> None:
    pytest.importorskip("llvmlite")
    done = run_child(NETWORK + AFTER_A_FORK)
    assert (done.stdout.strip(), done.returncode) == ("well", 0), done.stderr


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os._exit(0)"])
def test_the_process_ends_while_threads_sleep(end: str) -> None:
    pytest.importorskip("llvmlite")
    done = run_child(NETWORK + "work()\nprint('wrong' if wrong else 'well', flush=True)\n" + end)
    assert (done.stdout.strip(), done.returncode) == ("well", 0), done.stderr
