"""Calls that are bound to arrays: results follow the arrays' contents, and nothing else may be
bound.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import uncork
from tests.compiler.test_compiled_model import lookup

BACKENDS = ("reference", "cpu")
F32 = np.float32


def bag(backend: Any) -> uncork.CompiledModel:
    builder = uncork.Builder("bag")
    table = builder.constant(np.arange(8, dtype=F32).reshape(4, 2), name="table")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    (rows,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bag")
    builder.result(rows, "rows")
    return uncork.compile_model(builder.model(), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bound_call_reads_what_the_arrays_hold(backend: Any) -> None:
    ids, offsets, rows = np.array([1, 2]), np.array([0, 1]), np.zeros((2, 2), F32)
    call = bag(backend).bind(ids, offsets, outputs={"rows": rows})
    assert call()["rows"] is rows
    assert rows.tolist() == [[2, 3], [4, 5]]
    ids[:] = 3, 3
    offsets[:] = 0, 0
    call()
    assert rows.tolist() == [[0, 0], [12, 14]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_may_be_its_own(backend: Any) -> None:
    compiled = bag(backend)
    ids = np.array([1, 2])
    call = compiled.bind({"ids": ids, "offsets": np.array([0])})
    assert call()[0].tolist() == [[6, 8]]
    compiled(np.array([0, 0, 0]), np.array([0, 1]))  # other shapes in between
    ids[:] = 0
    assert call()[0].tolist() == [[0, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_are_checked_at_every_call(backend: Any) -> None:
    ids, rows = np.array([1, 2]), np.full((1, 2), 7, F32)
    call = bag(backend).bind(ids, np.array([0]), outputs=[rows])
    ids[1] = 4
    with pytest.raises(uncork.InputError, match=r"indices.*4"):
        call()
    ids[1] = 2
    assert call()[0].tolist() == [[6, 8]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_that_give_views_and_inputs_can_be_bound(backend: Any) -> None:
    ids = np.array([2, 0])
    call = lookup(backend).bind(ids)
    assert call()[0].tolist() == [[6, 7, 8], [0, 1, 2]]
    ids[0] = 1
    assert call()["same ids"].tolist() == [1, 0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": [1, 2]}, "'ids': expected an array to bind, got list"),
        ({"ids": np.int32([1, 2])}, "'ids': expected a contiguous array of i64 to bind, got i32"),
        (
            {"ids": np.arange(4)[::2]},
            "'ids': expected a contiguous array of i64 to bind, got .* not contiguous",
        ),
        ({"ids": np.zeros((1, 1), np.int64)}, r"'ids': expected shape \[\?\], got \[1, 1\]"),
        ({"rows": np.zeros((2, 2), F32)}, r"'rows': expected f32\[1,2\], got f32\[2,2\]"),
        ({"rows": np.zeros((1, 2))}, "'rows': expected f32"),
        ({"rows": np.zeros((1, 4), F32)[:, ::2]}, "'rows': expected a contiguous array"),
        ({"rows": [[0.0, 0.0]]}, "'rows': expected f32.*got list"),
        (
            {"outputs": {"raws": np.zeros((1, 2), F32)}},
            "no output is called 'raws'; did you mean 'rows'",
        ),
        ({"outputs": []}, "expected arrays for 1 outputs, got 0"),
    ],
)
def test_what_cannot_be_bound(backend: Any, change: dict[str, Any], message: str) -> None:
    given = {"ids": np.array([1, 2]), "rows": np.zeros((1, 2), F32), **change}
    outputs = given.get("outputs", [given["rows"]])
    with pytest.raises(uncork.InputError, match=message):
        bag(backend).bind(given["ids"], np.array([0]), outputs=outputs)()


def test_memory_of_its_own_for_every_result() -> None:
    memory = np.zeros(64, np.uint8)
    offsets, rows = memory[:8].view(np.int64), memory[:8].view(F32).reshape(1, 2)
    with pytest.raises(uncork.InputError, match="another bound array has"):
        bag("cpu").bind(np.array([1]), offsets, outputs=[rows])


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_change_a_shape(backend: Any) -> None:
    """Without outputs of the caller's the results have the shape of this call; with them it must be
    theirs.
    """
    builder = uncork.Builder("repeated")
    x, times = builder.parameter("x", "f32", [2]), builder.parameter("times", "i64", [1])
    builder.result(builder.add("Tile", 1, x, times)[0], "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    count, rows = np.array([2]), np.zeros(4, F32)
    free, into = (compiled.bind(F32([1, 2]), count, outputs=outputs) for outputs in (None, [rows]))
    for number in (2, 3, 1, 2):
        count[0] = number
        assert free()[0].tolist() == [1, 2] * number
    count[0] = 3
    with pytest.raises(uncork.InputError, match=r"output 'y': expected f32\[6\], got f32\[4\]"):
        into()
    count[0] = 2
    assert into()[0] is rows
    assert rows.tolist() == [1, 2, 1, 2]


def test_a_bound_call_has_the_working_memory_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is native from the first call on: nothing else makes it."""
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("sequence")
    generator = np.random.default_rng(0)
    weights = [
        generator.standard_normal(shape).astype(F32) for shape in ((1, 48, 8), (1, 48, 16), (1, 48))
    ]
    inputs = (
        builder.parameter("x", "f32", [None, 5, 8]),
        builder.parameter("h", "f32", [None, 1, 16]),
    )
    lengths = builder.parameter("lengths", "i64", [None])
    parts = builder.add(
        "GRUSequence",
        5,
        *inputs,
        lengths,
        *map(builder.constant, weights),
        hidden_size=16,
        direction="forward",
    )
    for name, part in zip(("y", "last"), parts, strict=True):
        builder.result(part, name)
    compiled = uncork.compile_model(builder.model(), threads=1)
    arrays = [
        generator.standard_normal((3, 5, 8)).astype(F32),
        np.zeros((3, 1, 16), F32),
        np.array([5, 2, 3]),
    ]
    expected = [array.copy() for array in compiled(*arrays)]
    call = compiled.bind(*arrays, outputs=[np.zeros_like(array) for array in expected])
    monkeypatch.setattr(
        uncork.CompiledModel, "__call__", lambda *_: pytest.fail("the call was made otherwise")
    )
    for array, wanted in zip(call(), expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


def sums() -> uncork.CompiledModel:
    """A model that adds 1, in a call so long that other threads run meanwhile."""
    builder = uncork.Builder("sums")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, builder.constant(F32(1)))[0], "y")
    return uncork.compile_model(builder.model(), threads=1)


def own_block(call: Any) -> Any:
    """The memory of the native call that makes a bound one."""
    return call.func.__self__


def test_arrays_of_the_same_shapes_share_a_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own results, and is made while another is under way."""
    pytest.importorskip("llvmlite")
    compiled = bag("cpu")
    given = [np.array([i, 3 - i]) for i in range(4)]
    rows = [np.zeros((1, 2), F32) for _ in given]
    calls = [
        compiled.bind(ids, np.array([0]), outputs=[out])
        for ids, out in zip(given, rows, strict=True)
    ]
    other = compiled.bind(np.array([1, 1, 1]), np.array([0]))
    block = own_block(calls[0])
    assert all(own_block(call) is block for call in calls) and own_block(other) is not block
    monkeypatch.setattr(
        uncork.CompiledModel, "__call__", lambda *_: pytest.fail("the call was made otherwise")
    )
    for busy in (0, 1):
        block[0] = busy  # as while another thread is in it
        for call, out in zip(calls, rows, strict=True):
            out[:] = -1
            assert call()[0] is out and out.tolist() == [[6, 8]]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        calls[0](given[1])
    assert other()[0].tolist() == [[6, 9]]
    kept = weakref.ref(block)
    del calls, call, block
    assert kept() is None, "it goes with the last of them"


def test_arrays_that_are_changed_in_place_are_noticed() -> None:
    ids = np.array([1, 2])
    call = bag("cpu").bind(ids, np.array([0]), outputs=[np.zeros((1, 2), F32)])
    call()
    ids.resize((3, 1), refcheck=False)
    with pytest.raises(uncork.InputError, match=r"'ids': expected shape \[\?\], got \[3, 1\]"):
        call()


def test_threads_with_arrays_of_the_same_shapes() -> None:
    compiled, size = sums(), 400_000
    wrong: list[int] = []

    def work(number: int) -> None:
        x, y = np.full(size, number, F32), np.zeros(size, F32)
        call = compiled.bind(x, outputs=[y])
        for turn in range(40):
            x[:] = 100 * turn + number
            call()
            if not (y == 100 * turn + number + 1).all():
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
