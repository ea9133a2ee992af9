"""Plans before the first call, and working memory given back after one."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.test_bodies import iterator
from uncork.errors import InputError
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.kernel_cache import ObjectStore

WIDE = 1000


def model() -> uncork.Model:
    """Two products with a sum between them, of sizes that the call tells."""
    b = uncork.Builder("m")
    x, z = b.parameter("x", "f32", [None, 8]), b.parameter("z", "f32", [None, WIDE])
    (product,) = b.add("MatMul", 1, x, b.constant(np.ones((8, WIDE), np.float32)))
    (total,) = b.add("Add", 1, product, z)
    b.result(b.add("MatMul", 1, total, b.constant(np.ones((WIDE, 2), np.float32)))[0], "y")
    return b.model()


def arrays(rows: int, others: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((rows, 8), np.float32), np.zeros((others or rows, WIDE), np.float32)


def refuse(*arguments: object) -> int:
    raise AssertionError("a kernel was asked for")


def no_more_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStore, "address", refuse)


def test_a_prepared_model_makes_no_kernel_in_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncork.compile_model(model())
    compiled.prepare()
    no_more_kernels(monkeypatch)
    for rows in (2, 7, 3):
        np.testing.assert_array_equal(compiled(*arrays(rows))["y"], np.full((rows, 2), 8 * WIDE))


def test_a_plan_for_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row stretches over the rows of the other: that is another plan."""
    compiled = uncork.compile_model(model())
    compiled.prepare()
    compiled.prepare({"x": [1, 8], "z": [5, None]})
    compiled.prepare({"x": [1, None], "z": [9, None]})
    no_more_kernels(monkeypatch)
    assert compiled(*arrays(1, 5))["y"].shape == (5, 2)
    assert compiled(*arrays(4))["y"].shape == (4, 2)


def test_bodies_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncork.compile_model(iterator())
    compiled.prepare()
    no_more_kernels(monkeypatch)
    assert compiled(np.ones((3, 24), np.float32), np.zeros((1, 24), np.float32))["every"].shape == (3, 24)


def test_load_prepares(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    path = f"{tmp_path}/model.xml"
    uncork.write_model(model(), path)
    compiled = uncork.load(path, prepare=True)
    no_more_kernels(monkeypatch)
    assert compiled(*arrays(2))["y"].shape == (2, 2)


def test_refusals() -> None:
    compiled = uncork.compile_model(model())
    with pytest.raises(InputError, match=r"no input is called 'xx'; did you mean 'x'\?; inputs: x f32"):
        compiled.prepare({"xx": [1, 8]})
    with pytest.raises(InputError, match=r"input 'x': expected shape \[\?,8\], got \[1, 9\]"):
        compiled.prepare({"x": [1, 9]})


def working_bytes() -> int:
    gc.collect()
    return sum(found.memory.nbytes for found in gc.get_objects() if type(found) is Context)


def test_working_memory_is_given_back() -> None:
    before = working_bytes()
    compiled = uncork.compile_model(model())
    compiled(*arrays(500))
    large = working_bytes() - before
    assert 500 * WIDE * 4 <= large < 4 * 500 * WIDE * 4
    for rows in (20, 500, 3):
        compiled(*arrays(rows))
    assert working_bytes() - before == large, "one block, as large as the largest call needed"
    compiled.release_memory()
    assert working_bytes() == before
    assert compiled(*arrays(500))["y"].shape == (500, 2)


def test_a_model_goes_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        compiled = uncork.compile_model(model())
        compiled(*arrays(50))
        (context,) = [found for found in gc.get_objects() if type(found) is Context and found.memory.nbytes > 50 * WIDE * 4]
        gone = weakref.ref(context)
        del context, compiled
        assert gone() is None
    finally:
        gc.enable()


def test_the_plan_says_what_it_takes_for_granted() -> None:
    compiled = uncork.compile_model(model())
    compiled(*arrays(3))
    assert compiled.plan.guards == ("x_0 == z_0 (layer 'Add_4' (Add-1, id 4))",)
    assert "\nfor calls with x_0 == z_0 (layer 'Add_4' (Add-1, id 4))\n" in str(compiled.plan)
    assert compiled.plan.working_bytes >= 3 * WIDE * 4
    compiled.release_memory()
    assert compiled.plan.working_bytes == 0
