"""`threads` holds for the products of references, too: NumPy's library of products has threads of
its own.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.ops.test_every_op import ALL
from tests.processes._children import run_child
from uncork import blas
from uncork.ops.matmul import MatMul

PACKAGE = Path(uncork.__file__).parent / "ops"
#: Functions of NumPy that call BLAS or LAPACK.
PRODUCTS = {
    "matmul",
    "einsum",
    "dot",
    "tensordot",
    "inner",
    "vdot",
    "inv",
    "solve",
    "lstsq",
    "pinv",
    "svd",
    "det",
    "multi_dot",
}


def multiplies(node: ast.AST) -> bool:
    """There is a product of matrices in this code."""
    for child in ast.walk(node):
        if isinstance(child, (ast.BinOp, ast.AugAssign)) and isinstance(child.op, ast.MatMult):
            return True
        if (
            isinstance(child, ast.Call)
            and isinstance(child.func, ast.Attribute)
            and child.func.attr in PRODUCTS
        ):
            return True
    return False


def products() -> set[tuple[str, str]]:
    """(file, name) of every function of the operations that multiplies matrices itself."""
    found: set[tuple[str, str]] = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and multiplies(node):
                found.add((str(path), node.name))
    return found


def test_operations_that_multiply_say_so() -> None:
    """Their first samples are run, and it is looked at which functions that takes."""
    guilty, seen = products(), set()
    called: list[tuple[str, str]] = []

    def watch(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            called.append((frame.f_code.co_filename, frame.f_code.co_name))

    for operation, entry in ALL.items():
        called.clear()
        for sample in entry.samples[:3]:
            made = operation(**sample.case.attributes)
            sys.setprofile(watch)
            try:
                made.evaluate(sample.case.specs())
            finally:
                sys.setprofile(None)
        found = guilty.intersection(called)
        seen |= found
        assert operation.multiplies or not found, f"{operation.label()} multiplies in {found}"
    assert seen == guilty, "every function that multiplies is some sample's"


@pytest.fixture
def library() -> Iterator[blas.Library]:
    """With four threads, as on a machine of four processors."""
    found = blas.library()
    if found is None:
        pytest.skip("NumPy's library of products is none that can be told")
    before = found.threads()
    found.set_threads(4)
    if found.threads() != 4:
        pytest.skip("it has fewer threads on this machine")
    # An interrupt that another test of this process has raised may have come while a call began.
    outside = blas._most.set(None)
    yield found
    blas._most.reset(outside)
    found.set_threads(before)


@pytest.fixture
def seen(library: blas.Library, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads the library may use, at every product of a reference."""
    found: list[int] = []
    real = MatMul.reference

    def reference(self: MatMul, a: Any, b: Any) -> Any:
        found.append(library.threads())
        return real(self, a, b)

    monkeypatch.setattr(MatMul, "reference", reference)
    return found


def product(element_type: str = "f32") -> uncork.Model:
    """Products of integers and wide stacks are the references' work; a constant product is folded
    when the model is prepared.
    """
    builder = uncork.Builder("product")
    x = builder.parameter("x", element_type, [3, 3])
    eye = builder.constant(np.eye(3).astype(x_dtype(element_type)))
    (folded,) = builder.add("MatMul", 1, eye, eye)
    builder.result(builder.add("MatMul", 1, x, folded)[0])
    return builder.model()


def x_dtype(element_type: str) -> str:
    return {"f32": "f4", "i32": "i4"}[element_type]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("backend", "element_type"), [("reference", "f32"), ("cpu", "i32")])
def test_products_use_as_many_threads_as_a_call_may(
    library: blas.Library, seen: list[int], backend: Any, element_type: str, threads: int
) -> None:
    model = product(element_type)
    seen.clear()  # while it was built
    compiled = uncork.compile_model(model, backend=backend, threads=threads)
    for _ in range(2):
        compiled(np.ones((3, 3), x_dtype(element_type)))
    assert set(seen) == {threads} and len(seen) >= 2
    assert library.threads() == 4, "as it was"


def test_more_threads_than_the_library_has_change_nothing(
    library: blas.Library, seen: list[int]
) -> None:
    library.set_threads(2)
    uncork.compile_model(product(), backend="reference", threads=3)(np.ones((3, 3), "f4"))
    assert set(seen) == {2}, "what the user has set is not raised"
    assert library.threads() == 2


def test_an_error_leaves_the_library_as_it_was(
    library: blas.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: MatMul, a: Any, b: Any) -> Any:
        assert library.threads() == 1
        raise ZeroDivisionError

    model = product()
    monkeypatch.setattr(MatMul, "reference", wrong)
    with pytest.raises(ZeroDivisionError):
        uncork.compile_model(model, backend="reference", threads=1)(np.ones((3, 3), "f4"))
    assert library.threads() == 4


def test_of_several_products_the_lowest_limit_holds(library: blas.Library) -> None:
    """Whichever ends first, and however they overlap."""
    inside, go = threading.Barrier(2), threading.Event()

    def other() -> None:
        with blas.at_most(2), blas.limited():
            inside.wait()
            go.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    assert library.threads() == 2, "the library has one number for all threads"
    with blas.at_most(1), blas.limited():
        assert library.threads() == 1
        go.set()
        thread.join()
        assert library.threads() == 1
        with blas.at_most(3), blas.limited():
            assert library.threads() == 1
    assert library.threads() == 4
    with blas.limited():
        assert library.threads() == 4, "outside of any call nothing is limited"


def test_calls_without_products_call_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("a step without products looked for the library")

    builder = uncork.Builder("m")
    x = builder.parameter("x", "f32", [4])
    builder.result(builder.add("Erf", 1, x)[0])
    monkeypatch.setattr(blas, "library", never)
    for backend in ("cpu", "reference"):
        uncork.compile_model(builder.model(), backend=backend, threads=1)(np.ones(4, "f4"))  # type: ignore[arg-type]


def test_a_library_that_is_not_known_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "library", lambda: None)
    assert (
        uncork.compile_model(product(), backend="reference", threads=1)(np.ones((3, 3), "f4"))[
            0
        ].tolist()
        == [[1, 1, 1]] * 3
    )


FORKED = """
import os, sys, threading
from uncork import blas, concurrency
library = blas.library()
if library is None: print("well"); sys.exit()
concurrency._LONGEST_WAIT = 0.1  # the fork waits for the product, but not for ever
before = library.threads()
inside, go = threading.Event(), threading.Event()
def other():
    with blas.at_most(1), blas.limited(): inside.set(); go.wait()
thread = threading.Thread(target=other); thread.start(); inside.wait()
child = os.fork()
if not child:
    with blas.at_most(1), blas.limited(): one = library.threads()
    os._exit(0 if (one, library.threads()) == (1, before) else 1)
status = os.waitpid(child, 0)[1]
go.set(); thread.join()
print("well" if status == 0 and library.threads() == before else "wrong")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_the_number_of_its_own(tmp_path: Path) -> None:
    assert run_child(FORKED).stdout.strip() == "well"


MEASURED = """
import os, sys
import numpy as np, uncork
from uncork import blas
library = blas.library()
if library is None or library.threads() < 2: print("one thread here"); sys.exit()
def others():
    # Nanoseconds of processor time of every thread but this one.
    own = str(os.getpid())
    return {task: int(open(f"/proc/self/task/{task}/schedstat").read().split()[0])
            for task in os.listdir("/proc/self/task") if task != own}
b = uncork.Builder("m")
x, y = (b.parameter(name, "f32", [700, 700]) for name in "xy")
(z,) = b.add("MatMul", 1, x, y)
(z,) = b.add("Einsum", 7, z, y, x, equation="ij,jk,kl->il")
b.result(z)
a = np.random.default_rng(1).standard_normal((700, 700)).astype(np.float32) / 30
for backend in ("reference", "cpu"):
    compiled = uncork.compile_model(b.model(), backend=backend, threads=1)
    compiled(a, a)
    before = others()
    for _ in range(3): compiled(a, a)
    after = others()
    assert set(after) == set(before), "a call of one thread starts none"
    spent = sum(after[task] - before[task] for task in after)
    assert spent < 2e6, f"{backend}: other threads worked {spent / 1e6} ms"
before = others()
for _ in range(3): a @ a
after = others()
assert sum(after[task] - before.get(task, 0) for task in after) > 0, "outside of calls they work"
print("well")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="no such times here")
def test_other_threads_do_nothing_for_a_call_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither NumPy's library nor the pool: processor time of each thread of the process."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    done = run_child(MEASURED)
    assert done.stdout.strip() in ("well", "one thread here"), done.stderr
