"""If, Loop and TensorIterator, built, written, read again and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, SlicedInput, Slicing

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def body(operation: str, constant: float, shape: list[int | None]) -> GraphBody:
    """y = operation(x, constant)."""
    builder = uncork.Builder("body")
    x = builder.parameter("x", "f32", shape)
    (y,) = builder.add(operation, 1, x, builder.constant(np.float32(constant)))
    builder.result(y, "y")
    return GraphBody(builder.model())


def again(model: uncork.Model, folder: Path, **options: object) -> uncork.CompiledModel:
    uncork.write_model(model, folder / "model.xml")
    return uncork.load(folder / "model.xml", **options)


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool, tmp_path: Path) -> None:
    builder = uncork.Builder("if")
    c, x = builder.parameter("c", "boolean", []), builder.parameter("x", "f32", [None, 2])
    bodies = {
        name: BodyMap(body(operation, 10, [None, 2]), (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for name, operation in (("then_body", "Add"), ("else_body", "Multiply"))
    }
    (y,) = builder.add_with_bodies("If", 8, c, x, bodies=bodies)
    builder.result(y, "y")
    np.testing.assert_array_equal(
        again(builder.model(), tmp_path)(np.array(condition), X)["y"],
        X + 10 if condition else X * 10,
    )


def loop(trips: int) -> uncork.Model:
    """y doubles `trips` times; all values in between are stacked."""
    builder = uncork.Builder("loop")
    x = builder.parameter("x", "f32", [1, 2])
    bodies = {
        "body": BodyMap(
            body("Multiply", 2, [1, 2]),
            (BodyInput(2, 0),),
            (BodyOutput(0, 0), JoinedOutput(1, 0, Slicing(0))),
            ((0, 0),),
        )
    }
    last, every = builder.add_with_bodies(
        "Loop",
        5,
        builder.constant(np.int64(trips)),
        builder.constant(np.array(True)),
        x,
        bodies=bodies,
    )
    builder.result(last, "last")
    builder.result(every, "every")
    return builder.model()


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_loop(trips: int, tmp_path: Path) -> None:
    result = again(loop(trips), tmp_path)(X[:1])
    np.testing.assert_array_equal(result["last"], X[:1] * 2**trips)
    np.testing.assert_array_equal(
        result["every"], np.concatenate([X[:1] * 2 ** (i + 1) for i in range(trips)] or [X[:0]])
    )


def test_a_loop_without_end_meets_its_limit(tmp_path: Path) -> None:
    with pytest.raises(
        uncork.InputError, match=r"layer .*Loop-5.*still running after 5 iterations"
    ):
        again(loop(-1), tmp_path, loop_limit=5)(X[:1])


@pytest.mark.parametrize("stride", [1, -1])
def test_tensor_iterator(stride: int, tmp_path: Path) -> None:
    """The running sum of the rows, forwards or backwards, stacked the way it was walked."""
    inner = uncork.Builder("body")
    row, total = inner.parameter("row", "f32", [1, 2]), inner.parameter("total", "f32", [1, 2])
    (new,) = inner.add("Add", 1, row, total)
    inner.result(new, "new")
    slicing = Slicing(0) if stride > 0 else Slicing(0, start=-1, end=0, stride=-1)
    builder = uncork.Builder("iterator")
    x, start = builder.parameter("x", "f32", [3, 2]), builder.constant(np.zeros((1, 2), np.float32))
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, slicing), BodyInput(1, 1)),
        (JoinedOutput(0, 0, slicing),),
        ((0, 1),),
    )
    (sums,) = builder.add_with_bodies("TensorIterator", 1, x, start, bodies={"body": maps})
    builder.result(sums, "sums")
    expected = {1: [[1, 2], [4, 6], [9, 12]], -1: [[9, 12], [8, 10], [5, 6]]}[stride]
    np.testing.assert_array_equal(again(builder.model(), tmp_path)(X)["sums"], expected)


def test_slices_that_do_not_divide_are_refused() -> None:
    builder = uncork.Builder("iterator")
    x = builder.parameter("x", "f32", [3, 2])
    maps = BodyMap(
        body("Add", 1, [2, 2]),
        (SlicedInput(0, 0, Slicing(0, stride=2, part_size=2)),),
        (BodyOutput(0, 0),),
    )
    with pytest.raises(uncork.ValidationError, match="3 elements do not divide into strides of 2"):
        builder.add_with_bodies("TensorIterator", 1, x, bodies={"body": maps})
