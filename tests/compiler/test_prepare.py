"""Plans before the first call, and working memory given back after one."""

from __future__ import annotations

import contextlib
import gc
import io
import re
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.test_bodies import iterator, kernel_bodies
from tests.compiler.test_state import GOOD, X, running_sum
from uncork.errors import InputError, ValidationError
from uncork.ir.bodies import GraphBody
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime import kernel_cache
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.kernel_cache import ObjectStore, Preparation, Wanted
from uncork.kernels.runtime.target import Target
from uncork.ops._body import BodyInput, BodyMap, BodyOutput

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
    assert compiled(np.ones((3, 24), np.float32), np.zeros((1, 24), np.float32))["every"].shape == (
        3,
        24,
    )


def test_turns_between_segments_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go through functions that no plan names, one of which slow turns take."""
    monkeypatch.setattr(kernel_cache.STORE, "_functions", {})
    compiled = uncork.compile_model(growing())
    compiled.prepare()
    made = {*kernel_cache.STORE._functions}
    for rows in (1, 100_000):
        assert compiled(np.ones((rows, 2), np.float32))["longer"].shape == (8 * rows, 2)
    assert {*kernel_cache.STORE._functions} == made


def growing() -> uncork.Model:
    """A loop that doubles its rows three times."""
    inner = uncork.Builder("turn")
    rows = inner.parameter("rows", "f32", [None, 2])
    inner.result(inner.add("Concat", 1, rows, rows, axis=0)[0], "longer")
    maps = BodyMap(GraphBody(inner.model()), (BodyInput(2, 0),), (BodyOutput(0, 0),), ((0, 0),))
    b = uncork.Builder("growing")
    given = b.constant(np.int64(3)), b.constant(np.array(True)), b.parameter("x", "f32", [None, 2])
    b.result(b.add_with_bodies("Loop", 5, *given, bodies={"body": maps})[0], "longer")
    return b.model()


def test_load_prepares(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    path = f"{tmp_path}/model.xml"
    uncork.write_model(model(), path)
    compiled = uncork.load(path, prepare=True)
    no_more_kernels(monkeypatch)
    assert compiled(*arrays(2))["y"].shape == (2, 2)


def test_refusals() -> None:
    compiled = uncork.compile_model(model())
    with pytest.raises(
        InputError, match=r"no input is called 'xx'; did you mean 'x'\?; inputs: x f32"
    ):
        compiled.prepare({"xx": [1, 8]})
    with pytest.raises(InputError, match=r"input 'x': expected shape \[\?,8\], got \[1, 9\]"):
        compiled.prepare({"x": [1, 9]})
    with pytest.raises(
        InputError, match=r"expected shapes by the names of inputs, such as .*, got \[1, 8\]"
    ):
        compiled.prepare([1, 8])  # type: ignore[arg-type]


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


def several_parts() -> uncork.Model:
    """NonZero finds a size between two segments."""
    b = uncork.Builder("parts")
    x = b.parameter("x", "f32", [None])
    (places,) = b.add("NonZero", 3, x, output_type="i64")
    (wide,) = b.add("Multiply", 1, places, b.constant(np.ones((WIDE, 1, 1), np.int64)))
    b.result(b.add("ReduceSum", 1, wide, b.constant(np.array([0])), keep_dims=False)[0], "y")
    return b.model()


#: Models of every way to run, with inputs.
WAYS = {
    "one segment": (model, arrays(50)),
    "several parts": (several_parts, (np.ones(9, np.float32),)),
    "bodies": (iterator, (np.ones((3, 24), np.float32), np.zeros((1, 24), np.float32))),
    "state": (running_sum, (X, GOOD)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_model_goes_without_the_collector(way: str) -> None:
    """Its working memory too, whatever was done with it: no circle keeps it."""
    make, inputs = WAYS[way]
    gc.collect()
    gc.disable()
    try:
        before = {id(found) for found in gc.get_objects() if type(found) is Context}
        compiled = uncork.compile_model(make())
        compiled(*inputs)
        compiled.create_infer_request().infer(list(inputs))
        with pytest.raises(InputError):
            compiled(*inputs, np.zeros(3))
        str(compiled.plan)
        kept = [
            weakref.ref(found)
            for found in gc.get_objects()
            if type(found) is Context and id(found) not in before
        ]
        kept.append(weakref.ref(compiled.executor))
        assert len(kept) > 1
        del compiled
        assert [found() for found in kept] == [None] * len(kept)
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


def test_a_call_that_needs_more_memory_than_the_limit_is_refused() -> None:
    """The error names the layer, the bytes and the limit; the model takes other calls, before it
    and after it.
    """
    compiled = uncork.compile_model(model(), memory_limit=100 * WIDE * 4)
    assert compiled(*arrays(50))["y"].shape == (50, 2)
    message = (
        r"model 'm': not enough memory for this call: it needs 40\d,\d{3} bytes of working "
        r"memory, more than memory_limit "
        r"\(400,000 bytes\); layer 'Add_4' \(\S+, id 4\) needs most of it: 40\d,\d{3} bytes"
    )
    with pytest.raises(InputError, match=message):
        compiled(*arrays(101))
    assert compiled(*arrays(50))["y"].shape == (50, 2)
    np.testing.assert_array_equal(compiled(*arrays(99))["y"], np.full((99, 2), 8 * WIDE))


def test_the_block_is_no_larger_than_the_limit() -> None:
    before = working_bytes()
    compiled = uncork.compile_model(model(), memory_limit=100 * WIDE * 4)
    compiled(*arrays(99))
    assert working_bytes() - before <= 100 * WIDE * 4 + 64
    assert compiled.plan.working_bytes == working_bytes() - before


def test_bound_calls_keep_to_the_limit() -> None:
    compiled = uncork.compile_model(model(), memory_limit=10 * WIDE * 4)
    with pytest.raises(InputError, match=r"more than memory_limit \(40,000 bytes\)"):
        compiled.bind(*arrays(11))
    assert compiled.bind(*arrays(9))()["y"].shape == (9, 2)


def test_calls_of_several_parts_keep_to_the_limit() -> None:
    """The layer that needs most stands behind a size that is found."""
    compiled = uncork.compile_model(several_parts(), memory_limit=20 * WIDE * 8)
    assert compiled(np.ones(15, np.float32))["y"].shape == (1, 15)
    with pytest.raises(
        InputError,
        match=r"more than memory_limit \(160,000 bytes\); layer 'Multiply_\d+' .* needs most of it",
    ):
        compiled(np.ones(30, np.float32))
    assert compiled(np.ones(15, np.float32))["y"][0, 3] == 3 * WIDE


def test_a_refused_call_leaves_the_state() -> None:
    """What a call that was refused would have assigned is not assigned."""
    b = uncork.Builder("state")
    x = b.parameter("x", "f32", [None, 4])
    variable = {
        "variable_id": "v",
        "variable_type": "f32",
        "variable_shape": uncork.PartialShape([1, 2]),
    }
    (old,) = b.add("ReadValue", 6, b.constant(np.zeros((1, 2), np.float32)), **variable)
    (wide,) = b.add("MatMul", 1, x, b.constant(np.ones((4, WIDE), np.float32)))
    (narrow,) = b.add("MatMul", 1, wide, b.constant(np.ones((WIDE, 2), np.float32)))
    (sums,) = b.add("ReduceSum", 1, narrow, b.constant(np.array([0])), keep_dims=True)
    (new,) = b.add("Add", 1, old, sums)
    b.add("Assign", 6, new, variable_id="v")
    b.result(new, "y")
    compiled = uncork.compile_model(b.model(), memory_limit=20 * WIDE * 4)
    ones = np.ones((30, 4), np.float32)
    assert compiled(ones[:10])["y"].tolist() == [[40 * WIDE] * 2]
    with pytest.raises(
        InputError, match=r"more than memory_limit \(80,000 bytes\); layer 'MatMul_\d+'"
    ):
        compiled(ones)
    assert compiled(ones[:10])["y"].tolist() == [[80 * WIDE] * 2]


@pytest.mark.parametrize("limit", [-1, 1.5, "1 GB"])
def test_a_limit_is_a_number_of_bytes(limit: object) -> None:
    with pytest.raises(
        ValidationError, match=f"memory_limit: expected a number of bytes, got {limit!r}"
    ):
        uncork.compile_model(model(), memory_limit=limit)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def prepared_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stderr: io.StringIO) -> str:
    """What is written while a model is prepared whose kernels no file has."""
    store = ObjectStore(tmp_path)
    monkeypatch.setattr("uncork.compiler.layer_kernels.STORE", store)
    monkeypatch.setattr("sys.stderr", stderr)
    compiled = uncork.compile_model(model(), threads=2)
    compiled.prepare()
    assert compiled(*arrays(2))["y"].shape == (2, 2)
    return stderr.getvalue()


def test_a_terminal_is_told_how_far_compiling_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = prepared_anew(monkeypatch, tmp_path, Terminal())
    assert re.match(r"\r1 of \d kernels compiled\x1b\[K", said)
    assert said.endswith("\r\x1b[K"), "the line is gone at the end"


def test_a_pipe_is_told_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert prepared_anew(monkeypatch, tmp_path, io.StringIO()) == ""


def test_an_interrupted_preparation_is_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What had been compiled is there; the model is usable."""
    store = ObjectStore(tmp_path)
    monkeypatch.setattr("uncork.compiler.layer_kernels.STORE", store)
    made = kernel_cache.llvm_text
    asked: list[object] = []

    def interrupted(spec: KernelSpec, target: Target) -> str:
        asked.append(spec)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return made(spec, target)

    monkeypatch.setattr(kernel_cache, "llvm_text", interrupted)
    compiled = uncork.compile_model(model(), threads=2)
    with pytest.raises(KeyboardInterrupt):
        compiled.prepare()
    compiled.prepare()
    no_more_kernels(monkeypatch)
    assert compiled(*arrays(2))["y"].shape == (2, 2)


def test_bodies_are_compiled_by_as_many_threads_as_calls_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though one thread runs them."""
    asked: list[int] = []
    preparation = ObjectStore.preparation

    def told(
        self: ObjectStore, target: Target | None = None, threads: int = 1
    ) -> contextlib.AbstractContextManager[Preparation]:
        asked.append(threads)
        return preparation(self, target, threads)

    monkeypatch.setattr(ObjectStore, "preparation", told)
    compiled = uncork.compile_model(iterator(), threads=3)
    compiled(np.ones((3, 24), np.float32), np.ones((1, 24), np.float32))
    assert len(asked) > 1 and set(asked) == {3}
    (body,) = kernel_bodies(compiled)
    assert body.executor is not None and body.executor.threads == 1


def test_only_kernels_of_steps_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of a Concat that has nothing to copy, nor of sums of sizes."""
    asked: set[str] = set()
    add = Preparation.add

    def recorded(
        self: Preparation, specs: Sequence[KernelSpec], further: Sequence[Wanted] = ()
    ) -> None:
        asked.update(spec.name for spec in specs)
        add(self, specs, further)

    monkeypatch.setattr(Preparation, "add", recorded)
    b = uncork.Builder("joined")
    x = b.parameter("x", "f32", [1, None, 64])
    (up,) = b.add("ReLU", 1, x)
    (down,) = b.add("Negative", 1, x)
    (both,) = b.add("Concat", 1, up, down, axis=1)
    (shape,) = b.add("ShapeOf", 3, both, output_type="i64")
    (twice,) = b.add("Multiply", 1, shape, b.constant(np.array([1, 2, 1], np.int64)))
    (wider,) = b.add("Broadcast", 3, b.constant(np.float32(3)), twice, mode="numpy")
    b.result(b.add("Concat", 1, both, wider, axis=1)[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    a = np.linspace(-1, 1, 320, dtype=np.float32).reshape(1, 5, 64)
    wanted = np.concatenate([np.maximum(a, 0), -a, np.full((1, 20, 64), 3, np.float32)], 1)
    np.testing.assert_array_equal(compiled(a)["y"], wanted)
    assert asked and asked <= {step.kernel for step in compiled.plan.steps}
