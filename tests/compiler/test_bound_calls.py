"""Calls that are bound to arrays: results follow the arrays' contents, and nothing else may be
bound.
"""

from __future__ import annotations

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
