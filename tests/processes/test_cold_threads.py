"""First calls from several threads at once, in a process that has made nothing yet."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.processes._children import run_child
from uncork.concurrency import lazy, once

FIRST_CALLS = """
import gc, sys, threading
import numpy as np, uncork
seed = int(sys.argv[1])
rng = np.random.default_rng(seed)
SCALARS = ["Add", "Multiply", "Subtract", "Maximum", "Divide"]
def build(length, number):
    b = uncork.Builder("m"); x = b.parameter("x", "f32", [4, 8])
    for name in rng.permutation(SCALARS)[:length]:
        (x,) = b.add(str(name), 1, x, b.constant(np.float32(number + 1)))
    b.result(x); return b.model()
count = 6
models = [uncork.compile_model(build(1 + i % 3, i)) for i in range(count)]
expected = [uncork.compile_model(m.model, backend="reference") for m in models]
data = rng.standard_normal((4, 8)).astype(np.float32)
start = threading.Barrier(count); wrong = []
def first(i):
    start.wait()
    try:
        for model, by_reference in ((models[i], expected[i]), (models[0], expected[0])):
            if not np.allclose(model(data)[0], by_reference(data)[0], rtol=1e-6): wrong.append(i)
    except BaseException as error:
        wrong.append(repr(error))
threads = [threading.Thread(target=first, args=(i,)) for i in range(count)]
[t.start() for t in threads]; [t.join() for t in threads]
gc.collect(); rubbish = [bytes([i % 256]) * 33 for i in range(20000)]  # takes what was freed
for _ in range(50):
    for model in models: model(data)
del models, model
gc.collect()
print("well" if not wrong else wrong)
"""


@pytest.mark.parametrize("seed", range(3))
def test_first_calls_at_once(tmp_path: Path, seed: int) -> None:
    """Compiled, then found on disk: in both cases everything that is made once is made by several
    threads.
    """
    for _ in range(2):
        done = run_child(FIRST_CALLS, seed, home=tmp_path)
        assert (done.returncode, done.stdout.strip()) == (0, "well"), done.stderr


def at_once(count: int, call: object) -> list[object]:
    """What so many threads get that call at the same time."""
    found: list[object] = []
    start = threading.Barrier(count)

    def work() -> None:
        start.wait()
        found.append(call())  # type: ignore[operator]

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_the_method_table_of_programs_is_one() -> None:
    """Functions of CPython keep its address: a second one would be freed under those that have
    it.
    """
    inside = threading.Barrier(4)

    @once
    def made() -> object:
        inside.wait()  # all threads are in here before the first is done
        return object()

    found = at_once(4, made)
    assert len(set(map(id, found))) == 1
    assert made() is found[0]


def test_a_lazy_property_is_one() -> None:
    inside = threading.Barrier(4)

    class Holder:
        @lazy
        def value(self) -> object:
            """A new object."""
            inside.wait()
            return object()

    holder = Holder()
    found = at_once(4, lambda: holder.value)
    assert len(set(map(id, found))) == 1
    assert holder.value is found[0]
    assert Holder.value.__doc__ == "A new object."


def test_what_fails_is_tried_again() -> None:
    tries: list[int] = []

    @once
    def value() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return 7

    with pytest.raises(OSError, match="not yet"):
        value()
    assert (value(), value(), len(tries)) == (7, 7, 2)
