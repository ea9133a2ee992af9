"""A thread that comes again: destructors and signal handlers that call models while their own
thread is inside a call, a planning, a load, a scoring. Each runs in a child, so that waiting for
ever is a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.processes._children import run_child

pytest.importorskip("llvmlite")

#: `again()` is what comes between. It makes calls of known results, plans, gives memory back.
AGAIN = """
import faulthandler, gc, os, signal, sys, threading, time, traceback
faulthandler.dump_traceback_later(45, exit=True)
import numpy as np, uncork
from uncork import functional as F
THREADS = int(sys.argv[1])

def model(factor):
    b = uncork.Builder(f"times {factor}")
    x = b.parameter("x", "f32", [None, 16])
    (y,) = b.add("MatMul", 1, x, b.constant(np.eye(16, dtype=np.float32)))
    (y,) = b.add("SoftMax", 1, y, axis=1)
    (y,) = b.add("MatMul", 1, y, b.constant(np.eye(16, dtype=np.float32) * factor))
    b.result(y, "y")
    return b.model()

def right(compiled, rows, factor):
    result = compiled(np.ones((rows, 16), np.float32))[0]
    assert result.shape == (rows, 16) and abs(result - factor / 16).max() < 1e-6 * factor

# Python before 3.12 loses an import within which a handler imports (CPython 91351, a KeyError of
# its own lock): there every module is loaded before anything comes between.
if sys.version_info < (3, 12):
    import importlib, pkgutil
    import queue
    for package in (uncork.compiler, uncork.kernels, uncork.functional, uncork.ops):
        inside_it = package.__name__ + "."
        for found in pkgutil.walk_packages(getattr(package, "__path__", []), inside_it):
            importlib.import_module(found.name)

shared = uncork.compile_model(model(1), threads=THREADS)
count, faults, inside = 0, [], threading.local()

def again():
    global count
    if getattr(inside, "it", False): return
    inside.it = True
    count += 1
    try:
        right(shared, 1 + count % 7, 1)
        if count % 3 == 0: shared.release_memory()
        if count % 5 == 0: assert F.gather(np.arange(8.0), np.array([count % 8]), 0)[0] == count % 8
        if count % 40 == 1: right(uncork.compile_model(model(2), threads=THREADS), 3, 2)
        between()
    except BaseException:
        faults.append(traceback.format_exc())
    finally:
        inside.it = False

def between(): pass

class Cycle:
    def __init__(self): self.me = self
    def __del__(self): again()

def by_destructors(work):
    gc.set_threshold(1)
    try: work(lambda: (Cycle(), Cycle()))
    finally: gc.set_threshold(700)

def by_signals(work):
    signal.signal(signal.SIGALRM, lambda *_: again())
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try: work(lambda: None)
    finally: signal.setitimer(signal.ITIMER_REAL, 0)

def run(work):
    {"destructors": by_destructors, "signals": by_signals}[sys.argv[2]](work)
    assert count, "nothing came between"
    print("\\n".join(faults[:2]) or "well")
"""

WORKS = {
    # Sizes that grow and shrink, memory given back: working memory grows within calls.
    "calls": """
def work(garbage):
    for i in range(300):
        garbage()
        if i % 3 == 0: shared.release_memory()
        right(shared, 1 + i % 9, 1)
        F.gather(np.arange(float(8 + i % 3)), np.array([i % 8]), 0)
run(work)
""",
    "compilation": """
from uncork.kernels.runtime.kernel_cache import STORE
def work(garbage):
    for i in range(25):
        garbage()
        compiled = uncork.compile_model(model(3 + i % 4), threads=THREADS)
        if i % 5 == 0: STORE._addresses.clear(); STORE._functions.clear()
        garbage()
        compiled.prepare()
        right(compiled, 1 + i % 5, 3 + i % 4)
        print(compiled.plan, file=open(os.devnull, "w"))
run(work)
""",
    "files": """
uncork.write_model(model(4), "model.xml")
def work(garbage):
    for i in range(20):
        garbage()
        compiled = uncork.load("model.xml", threads=THREADS)
        garbage()
        right(compiled, 1 + i % 5, 4)
run(work)
""",
    "other threads": """
def work(garbage):
    def other():
        for i in range(60):
            right(uncork.compile_model(model(5), threads=THREADS), 1 + i % 6, 5)
            right(shared, 1 + i % 8, 1)
    thread = threading.Thread(target=other); thread.start()
    for i in range(60):
        garbage()
        right(uncork.compile_model(model(6), threads=THREADS), 1 + i % 6, 6)
        right(shared, 1 + i % 7, 1)
    thread.join()
run(work)
""",
    "requests": """
queue = uncork.AsyncInferQueue(shared, 2)
def between():
    if count % 4 == 0: queue.start_async([np.ones((2, 16), np.float32)])
def work(garbage):
    for i in range(150):
        garbage()
        queue.start_async([np.ones((1 + i % 5, 16), np.float32)])
    queue.wait_all()
run(work)
""",
    "forks": """
def work(garbage):
    for i in range(8):
        garbage()
        child = os.fork()
        if not child:
            try:
                if sys.argv[2] == "signals": signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
                for k in range(1, 8):
                    garbage()
                    right(shared, k, 1)
                right(uncork.compile_model(model(7), threads=THREADS), 2, 7)
                os._exit(bool(faults))
            except BaseException: traceback.print_exc()
            os._exit(1)
        while True:
            try: _, status = os.waitpid(child, 0)
            except InterruptedError: continue
            break
        if status: faults.append(f"the child ended with {status}")
run(work)
""",
    "scoring": """
import pyarrow as pa, uncork.score.scorer
b = uncork.Builder("doubled"); x = b.parameter("x", "f32", [None])
b.result(b.add("Add", 1, x, x)[0], "y")
uncork.write_model(b.model(), "doubled.xml")
def scored(n):
    scorer = uncork.score.Scorer("doubled.xml", inputs={"x": "x"})
    table = scorer(pa.table({"x": pa.array([float(v) for v in range(n)], pa.float32())}))
    assert table["y"].to_pylist() == [2.0 * v for v in range(n)]
def between():
    if count % 10 == 0: scored(3)
def work(garbage):
    for i in range(20):
        garbage()
        sys.modules['uncork.score.scorer']._models.clear()
        scored(10 + i)
if sys.version_info < (3, 12):
    scored(2)  # for what it imports: see above
run(work)
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no timers of signals, no forks")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("who", ["destructors", "signals"])
@pytest.mark.parametrize("work", WORKS)
def test_what_comes_between_is_done(work: str, who: str, threads: int, tmp_path: Path) -> None:
    if work == "scoring":
        pytest.importorskip("pyarrow")
    done = run_child(AGAIN + WORKS[work], threads, who, home=tmp_path, cwd=tmp_path)
    assert done.stdout.strip() == "well", done.stdout[-3000:] + done.stderr[-6000:]


STATE = """
b = uncork.Builder("counter"); x = b.parameter("x", "f32", [1])
spec = dict(variable_id="total", variable_type="f32", variable_shape=uncork.PartialShape([1]))
(before,) = b.add("ReadValue", 6, b.constant(np.zeros(1, np.float32)), **spec)
(total,) = b.add("Add", 1, before, x)
b.add("Assign", 6, total, variable_id="total")
b.result(total, "total")
compiled = uncork.compile_model(b.model(), threads=THREADS)
other = compiled.create_infer_request()
one, told = np.ones(1, np.float32), set()

def between():
    other.infer([one])
    asked = lambda: compiled.query_state()[0].state
    for call in (lambda: compiled(one), compiled.reset_state, asked):
        try: call()
        except uncork.InputError as error: told.add(str(error))

inside.it = True
for _ in range(3): compiled(one)
compiled.reset_state()
inside.it = False

# A destructor that runs in the middle of a call: where the executor is asked.
ask = compiled._executor.run_with_state_as_before
def asked(*given):
    again()
    return ask(*given)
compiled._executor.run_with_state_as_before = asked
compiled(one); compiled(one)
print(len(faults), compiled.query_state()[0].state.tolist(), other.query_state()[0].state.tolist())
print("\\n".join([*told, *faults]))
"""


def test_a_call_of_variables_in_their_own_call_is_refused(tmp_path: Path) -> None:
    """A request of its own is not: it has other variables."""
    done = run_child(AGAIN + STATE, 1, home=tmp_path)
    assert done.stdout.splitlines() == [
        "0 [2.0] [2.0]",
        "model 'counter': its variables are in use by a call of this very thread, which a "
        "destructor or a signal handler has interrupted: give that one a request of its own, made "
        "before (create_infer_request)",
    ], done.stdout + done.stderr


@pytest.mark.parametrize("what", ["request", "bound call", "working memory"])
def test_python_runs_nothing_when_what_calls_are_made_of_dies(what: str) -> None:
    """Within a function that Python runs then, an interrupt would be raised where nobody sees
    it, and be lost.
    """
    b = uncork.Builder("doubled")
    x = b.parameter("x", "f32", [None, 4])
    b.result(b.add("SoftMax", 1, b.add("Add", 1, x, x)[0], axis=1)[0], "y")
    compiled = uncork.compile_model(b.model())
    given = np.ones((3, 4), np.float32)
    compiled(given)
    one: Any
    if what == "request":
        one = compiled.new_request()
        one(given)
    elif what == "bound call":
        one = compiled.bind(given)
        one()
    else:
        one = compiled.native_call([given])
        assert one is not None
        one = one.bound([given])
    assert one is not None
    ran: list[str] = []
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name + " " + event))
    del one
    sys.setprofile(None)
    assert [event for event in ran if event.endswith(" call")] == []
