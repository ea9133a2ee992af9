"""Variables as rows of tables: what is read and written, by hand; products whose rows are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.execute import Executor, kernel_target
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.passes.functionalize_variables import functionalize_variables
from uncork.passes.state_rows import Kept, rows_alike, state_rows, with_front_axis
from uncork.types import ElementType

Array = np.ndarray[Any, Any]


def sums(shape: list[int | None]) -> Model:
    """The lifted model of a sum: a frame and the sum so far, to the new sum, twice."""
    b = uncork.Builder("sums")
    x = b.parameter("x", "f32", [None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    start = b.constant(np.zeros([1 if size is None else size for size in shape], np.float32))
    (before,) = b.add("ReadValue", 6, start, variable_shape=uncork.PartialShape(shape), **of)
    (after,) = b.add("Add", 1, before, x)
    b.add("Assign", 6, after, variable_id="kept")
    b.result(after, "y")
    lifted = functionalize_variables(b.model())
    assert lifted is not None
    return lifted.model


def run(model: Model, target: Any, *inputs: Array) -> list[Array]:
    checked, problems = infer(model)
    assert not problems
    return Executor(checked, target).run(list(inputs))


@pytest.mark.parametrize("target", [kernel_target(), None], ids=["kernels", "references"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_read_by_their_numbers_and_others_written(target: Any, axis: int) -> None:
    shape = (1, 2) if axis == 0 else (3, 1, 2)
    kept = Kept("kept", ElementType.f32, shape, axis)
    model = state_rows(sums([None, 2] if axis == 0 else [3, None, 2]), 1, [kept], [0], [1])
    table = np.zeros((6, *kept.row), np.float32)
    table[:] = np.arange(6).reshape(6, *[1] * len(kept.row)) * 10
    x = np.array([[1, 2], [3, 4]], np.float32)
    y, nothing = run(model, target, x, np.array([4, 1]), np.array([5, 0]), table, table)
    rows = np.moveaxis(y, axis, 0)
    assert nothing.size == 0
    np.testing.assert_array_equal(rows[0], np.broadcast_to([41, 42], kept.row))
    np.testing.assert_array_equal(rows[1], np.broadcast_to([13, 14], kept.row))
    np.testing.assert_array_equal(table[[5, 0]], rows)
    assert (table[[1, 2, 3, 4]] == np.arange(1, 5).reshape(4, *[1] * len(kept.row)) * 10).all()


@pytest.mark.parametrize("target", [kernel_target(), None], ids=["kernels", "references"])
def test_a_value_that_the_batch_shares_is_written_for_all(target: Any) -> None:
    kept = Kept("kept", ElementType.f32, (1, 2), None)
    model = state_rows(sums([1, 2]), 1, [kept], [0], [1])
    table = np.array([[[7, 8]], [[7, 8]], [[0, 0]], [[0, 0]]], np.float32)
    x = np.array([[1, 2]], np.float32)
    y, _ = run(model, target, x, np.array([1, 0]), np.array([3, 2]), table, table)
    assert y.tolist() == [[8, 10]]
    assert table[:, 0].tolist() == [[7, 8], [7, 8], [8, 10], [8, 10]]


def test_what_is_assigned_must_fit_a_row() -> None:
    kept = Kept("kept", ElementType.f32, (1, 3), 0)
    with pytest.raises(uncork.UncorkError, match=r"shape \[.*2\].* sessions keep \[.*3\]"):
        state_rows(sums([None, 2]), 1, [kept], [0], [1])


def test_an_axis_in_front_of_inputs_and_results() -> None:
    model = with_front_axis(sums([1, 2]), [1])
    x, before = np.array([[[1, 2]]], np.float32), np.array([[5, 5]], np.float32)
    for array in run(model, kernel_target(), x, before):
        assert array.tolist() == [[[6, 7]]]


@pytest.mark.parametrize("width", [5, 24, 130])
def test_products_of_every_row_are_added_up_alike(width: int) -> None:
    random = np.random.default_rng(width)
    b = uncork.Builder("alike")
    x, h = b.parameter("x", "f32", [None, 51]), b.parameter("h", "f32", [None, 16])
    matrix = random.standard_normal((51, width)).astype(np.float32)
    (y,) = b.add("MatMul", 1, x, b.constant(matrix))
    w = [
        b.constant(random.standard_normal(shape).astype(np.float32))
        for shape in ((48, 51), (48, 16), (48,))
    ]
    b.result(y)
    b.result(b.add("GRUCell", 3, x, h, *w, hidden_size=16)[0])
    model = rows_alike(b.model())
    rows = random.standard_normal((33, 51)).astype(np.float32)
    states = random.standard_normal((33, 16)).astype(np.float32)
    executor = Executor(model, kernel_target())
    alone = [executor.run([rows[i : i + 1], states[i : i + 1]]) for i in range(33)]
    for count in (2, 3, 4, 7, 8, 9, 15, 33):
        for made, one in zip(executor.run([rows[:count], states[:count]]), zip(*alone)):  # noqa: B905
            assert made.tobytes() == np.concatenate(one[:count]).tobytes()
    np.testing.assert_allclose(np.concatenate([a[0] for a in alone]), rows @ matrix, atol=1e-4)
