"""Processes that fork while their other threads are inside uncork: the child can do all that its
parent can.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ir._files import Net, edge, parameter, relu, result
from tests.processes._children import run_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

#: What a child does: `everything(k)` uses every kind of call, with kernels that `k` tells apart.
MODELS = """
import faulthandler, os, sys, threading, traceback
# numpy.testing not when the child asks for it: an import of its own could be cut in two.
import numpy as np, numpy.testing, uncork
from uncork import functional as F
from uncork.types import PartialShape

def chain(k):
    b = uncork.Builder("chain")
    y = b.parameter("x", "f32", [4, 8])
    c = b.constant(np.float32(k + 1))
    for j in range(1 + k % 5):
        (y,) = b.add(["Add", "Multiply", "Subtract", "Maximum"][(k // 4**j) % 4], 1, y, c)
    b.result(y)
    return b.model()

def stateful():
    b = uncork.Builder("state")
    x = b.parameter("x", "f32", [1, 4])
    of = dict(variable_id="v", variable_type="f32", variable_shape=PartialShape([1, 4]))
    (r,) = b.add("ReadValue", 6, b.constant(np.zeros((1, 4), np.float32)), **of)
    (y,) = b.add("Add", 1, r, x)
    b.add("Assign", 6, y, variable_id="v")
    b.result(y)
    return b.model()

def product():
    b = uncork.Builder("product")
    x = b.parameter("x", "f32", [512, 512])
    b.result(b.add("MatMul", 1, x, b.constant(np.eye(512, dtype=np.float32)))[0])
    return b.model()

STATE, SHARED = uncork.compile_model(stateful()), uncork.compile_model(product(), threads=3)
BIG = np.ones((512, 512), np.float32)

def everything(k):
    STATE(np.ones((1, 4), np.float32))
    STATE.reset_state()
    assert (SHARED(BIG)[0] == BIG).all()
    model = chain(k)
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    for _ in range(2):
        np.testing.assert_allclose(
            uncork.compile_model(model)(data)[0],
            uncork.compile_model(model, backend="reference")(data)[0],
        )
    for n in (3, 3, 3):
        assert F.gather(np.arange(8.0), np.array([n, k % 8]), 0).tolist() == [n, k % 8]

def child_ends_well(work, seconds=60):
    child = os.fork()
    if not child:
        # Ends the child when it hangs, and says where.
        faulthandler.dump_traceback_later(seconds, exit=True)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
"""

EVERY_LOCK = """
import gc
everything(0)
LOCKS = (type(threading.Lock()), type(threading.RLock()))
found = {}
for owner in gc.get_objects():
    name = owner.__name__ if isinstance(owner, type(sys)) else type(owner).__module__
    if name.startswith("uncork") and "concurrency" not in name:
        try: values = vars(owner)
        except TypeError: continue
        for attribute, value in values.items():
            if type(value).__module__ == "uncork.concurrency": value = getattr(value, "_lock", None)
            if isinstance(value, LOCKS): found[id(value)] = (f"{name} {attribute}", value)
held, done = threading.Event(), threading.Event()
def hold():
    for name, lock in found.values(): assert lock.acquire(timeout=10), name
    held.set(); done.wait()
thread = threading.Thread(target=hold); thread.start(); held.wait()
well = child_ends_well(lambda: everything(1))
done.set(); thread.join()
names = sorted(name for name, _ in found.values())
print("well" if well else "hangs", len(names), *names, sep=chr(10))
"""


def test_every_lock_is_new_in_a_child(tmp_path: Path) -> None:
    """Another thread holds all locks of the project's objects and modules, whatever they are."""
    done = run_child(MODELS + EVERY_LOCK, home=tmp_path)
    assert done.stdout.startswith("well\n"), done.stdout + done.stderr
    assert "uncork.compiler.sharing lock" in done.stdout, "the search finds locks"


BUSY_PROGRAM = """
from uncork.kernels.runtime.layout import BUSY, HEAD
b = uncork.Builder("long enough to let other threads run")
b.result(b.add("Exp", 1, b.parameter("x", "f32", [4000, 300]))[0])
model = uncork.compile_model(b.model()); data = np.ones((4000, 300), np.float32); model(data)
run = model.executor.last.run
run.__self__[HEAD.index("busy")] = 1  # as while another thread is in it
assert run(data) == BUSY
def again(): assert type(run(data)) is list
print(child_ends_well(again))
"""


def test_a_program_that_another_thread_was_in_is_free_in_a_child(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    done = run_child(MODELS + BUSY_PROGRAM, home=tmp_path)
    assert done.stdout.strip() == "True", done.stdout + done.stderr


WAITING = """
from uncork import concurrency

inside, order = threading.Event(), []

def first_call():
    with concurrency.unforked():
        inside.set()
        while not concurrency._gate.forking:
            pass
        order.append("left")

thread = threading.Thread(target=first_call)
thread.start()
inside.wait()

def enters():
    assert order == ["left"]
    with concurrency.unforked():
        everything(2)

print(child_ends_well(enters))
thread.join()
with concurrency.unforked():
    print(child_ends_well(enters))  # forked inside, by the thread that is inside
with concurrency.unforked():
    pass
"""


def test_a_fork_waits_for_first_calls(tmp_path: Path) -> None:
    """They import modules, and the locks of imports are Python's: nobody can renew them."""
    done = run_child(MODELS + WAITING, home=tmp_path)
    assert done.stdout.split() == ["True", "True"], done.stdout + done.stderr


LLVM_AT_WORK = """
from llvmlite.binding import ffi
import uncork.kernels.runtime.llvm
from uncork import concurrency
inside = threading.Event()
def compiles():
    with ffi.lib._lock:  # as every call of llvmlite, also one of Numba's
        inside.set()
        while not concurrency._gate.forking: pass
thread = threading.Thread(target=compiles); thread.start(); inside.wait()
print(child_ends_well(lambda: everything(4))); thread.join()
everything(5)
"""


def test_a_fork_waits_for_llvm(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    done = run_child(MODELS + LLVM_AT_WORK, home=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stdout + done.stderr


IMPORTS = """
from uncork import concurrency
from tests.ops.test_every_op import ALL

outside = []

class Watch:  # asked for every module that is not imported yet
    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() not in concurrency._gate.inside:
            frames = [f for f in traceback.extract_stack() if "/uncork/" in f.filename]
            outside.append(
                f"{name} at {frames[-1].filename}:{frames[-1].lineno}" if frames else name
            )

sys.meta_path.insert(0, Watch())
everything(0)
everything(1)
uncork.load(sys.argv[1])
for entry in ALL.values():
    for sample in entry.samples[:3]:
        entry.operation(**sample.case.attributes).evaluate(sample.case.specs())
strings = uncork.Builder("strings")
strings.result(strings.parameter("x", "string", [1]))
uncork.compile_model(strings.model())(np.array([b"bytes"]))
uncork.compile_model(chain(0))([[0] * 8] * 4)
print(*outside, sep="; ")
"""


def test_calls_import_modules_where_no_fork_can_cut_in(tmp_path: Path) -> None:
    """Some of NumPy's are imported by what needs them first: `np.fft`, or `np.ma` by
    `np.unique`.
    """
    path = Net([parameter(0), relu(1), result(2)], [edge("0:0", "1:0"), edge("1:1", "2:0")]).save(
        tmp_path, b""
    )
    done = run_child(MODELS + IMPORTS, path, home=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stdout + done.stderr


AT_RANDOM = """
seed = int(sys.argv[1])
go = True
numbers = iter(range(100, 10**6))
wrong = []

def work(kind):
    while go:
        try:
            if kind == 0:
                k = next(numbers)
                uncork.compile_model(chain(k))(np.ones((4, 8), np.float32))
            elif kind == 1:
                STATE(np.ones((1, 4), np.float32))
            else:
                SHARED(BIG)
        except BaseException as error:
            wrong.append(repr(error))
            break

threads = [threading.Thread(target=work, args=(kind,)) for kind in range(3)]
[t.start() for t in threads]
rng = np.random.default_rng(seed)
for i in range(5):
    for _ in range(rng.integers(1, 4)):
        k = int(rng.integers(10**6, 2 * 10**6))
        uncork.compile_model(chain(k))(np.ones((4, 8), np.float32))
    if not child_ends_well(lambda: everything(2 * 10**6 + seed * 100 + i)):
        wrong.append(f"child {i}")
go = False
[t.join() for t in threads]
print("well" if not wrong else wrong)
"""


@pytest.mark.parametrize("seed", range(2))
def test_forks_at_random(tmp_path: Path, seed: int) -> None:
    """Threads that compile for the first time, keep state and share steps, and forks in the middle
    of it.
    """
    done = run_child(MODELS + AT_RANDOM, seed, home=tmp_path, timeout=400)
    assert done.stdout.strip() == "well", done.stdout + done.stderr


COLD_START = """
rng = np.random.default_rng(int(sys.argv[1])); wrong = []
def first_call():
    try: everything(1)
    except BaseException as error: wrong.append(repr(error))
thread = threading.Thread(target=first_call); thread.start()
for i in range(6):  # while the other thread imports, compiles and calls for the first time
    thread.join(rng.random() * 0.1)
    if not child_ends_well(lambda: everything(10 + i)): wrong.append(f"child {i}")
thread.join()
print("well" if not wrong else wrong)
"""


@pytest.mark.parametrize("seed", range(2))
def test_forks_at_a_cold_start(tmp_path: Path, seed: int) -> None:
    done = run_child(MODELS + COLD_START, seed, home=tmp_path, timeout=400)
    assert done.stdout.strip() == "well", done.stdout + done.stderr


IMPORTED_MEANWHILE = """
import os
def imports(): import uncork
# stands for another thread that imports uncork while this one is about to fork
os.register_at_fork(before=imports)
child = os.fork()
if not child:
    import uncork.concurrency as c
    with c.unforked():
        os._exit(7)
_, status = os.waitpid(child, 0)
import uncork.concurrency as c
with c.unforked():
    pass
child = os.fork()  # held by the handlers now
if not child:
    os._exit(8)
_, second = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), os.waitstatus_to_exitcode(second))
"""


def test_a_fork_that_had_begun_when_uncork_was_imported_is_let_be() -> None:
    """Only what runs after forks is registered in time for such a fork."""
    done = run_child(IMPORTED_MEANWHILE)
    assert done.stdout.split() == ["7", "8"]
    assert done.stderr == ""
