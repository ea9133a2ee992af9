"""Steps that threads share, when something happens to the caller: Ctrl-C, the end of the main
thread.
"""

from __future__ import annotations

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
