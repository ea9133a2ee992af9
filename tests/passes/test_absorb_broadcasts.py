"""Operands that are stretched for element-wise layers: what the layers stretch themselves, what
stays, and the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.ir.model import Source

Sizes = list[Any]


def constant(b: uncork.Builder, value: Any) -> Source:
    return b.constant(np.array(value, np.int64))


def stretched(b: uncork.Builder, how: str, small: Sizes, whole: Source, counts: Sizes) -> Source:
    """`small` stretched to the shape of the whole, or by counts."""
    x = b.parameter("small", "f32", small)
    if how == "tile":
        return b.add("Tile", 1, x, constant(b, counts))[0]
    shape = b.add("ShapeOf", 3, whole, output_type="i64")[0]
    return b.add("Broadcast", 3, x, shape, mode=how)[0]


def compiled(how: str, small: Sizes, whole: Sizes, counts: Sizes) -> CompiledModel:
    b = uncork.Builder("stretched")
    x = b.parameter("whole", "f32", whole)
    y = stretched(b, how, small, x, counts)
    b.result(b.add("Subtract", 1, x, y)[0], "y")
    return compile_model(b.model())


def kinds(model: CompiledModel) -> list[str]:
    return [step.operation.partition("-")[0] for step in model.plan.steps if step.kernel != "view"]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("how", "small", "whole", "counts"),
    [
        ("tile", [None, 1], [None, 5], [1, 5]),
        ("numpy", [5], [None, 5], []),
        ("numpy", [None, 1], [None, 5], []),
        ("numpy", [], [None, 5], []),
        ("bidirectional", [1, 1], [None, 5], []),
        ("bidirectional", [5], [2, None, 5], []),
    ],
    ids=str,
)
def test_the_layer_stretches_it(how: str, small: Sizes, whole: Sizes, counts: Sizes) -> None:
    model = compiled(how, small, whole, counts)
    for rows in (3, 1, 8):
        x = draw(*(rows if size is None else size for size in whole))
        y = draw(*(rows if size is None else size for size in small))
        np.testing.assert_array_equal(model(x, y)["y"], x - y)
    if small[:1] != [None]:  # else the two lengths may differ
        assert len(kinds(model)) == 1


def test_the_same_open_size_of_both() -> None:
    """Rows of one input, each with a number that is computed from it."""
    b = uncork.Builder("rows")
    x = b.parameter("x", "f32", [None, 6])
    sums = b.add("ReduceSum", 1, x, constant(b, [1]), keep_dims=True)[0]
    wide = b.add("Tile", 1, sums, constant(b, [1, 6]))[0]
    b.result(b.add("Divide", 1, x, wide)[0], "y")
    model = compile_model(b.model())
    for rows in (4, 1, 9):
        x_ = np.abs(draw(rows, 6)) + 1
        np.testing.assert_allclose(model(x_)["y"], x_ / x_.sum(1, keepdims=True), rtol=1e-6)
    assert kinds(model) == ["ReduceSum", "Divide"]


def test_views_behind_it() -> None:
    """A tensor of one element in any shape; another one where the shape comes back."""
    b = uncork.Builder("views")
    x, row = b.parameter("x", "f32", [None, 6]), b.parameter("row", "f32", [6])
    shape = b.add("ShapeOf", 3, x, output_type="i64")[0]
    more = b.add("Concat", 1, constant(b, [1]), shape, axis=0)[0]
    halves = b.add("Broadcast", 3, b.constant(np.float32(0.5)), more)[0]
    halves = b.add("Squeeze", 1, halves, constant(b, [0]))[0]
    rows = b.add("Broadcast", 3, row, shape)[0]
    rows = b.add("Unsqueeze", 1, rows, constant(b, [0]))[0]
    rows = b.add("Squeeze", 1, rows, constant(b, [0]))[0]
    scaled = b.add("Multiply", 1, x, halves)[0]
    b.result(b.add("Add", 1, scaled, rows)[0], "y")
    model = compile_model(b.model())
    for count in (5, 2):
        x_, row_ = draw(count, 6), draw(6)
        np.testing.assert_allclose(model(x_, row_)["y"], x_ * 0.5 + row_, rtol=1e-6)
    assert "Broadcast" not in kinds(model)


@pytest.mark.parametrize(
    ("how", "small", "whole", "counts"),
    [
        ("tile", [2, 3], [4, 6], [2, 2]),  # repeats more than one
        ("tile", [3], [9], [3]),
    ],
    ids=str,
)
def test_repeated_rows_stay(how: str, small: Sizes, whole: Sizes, counts: Sizes) -> None:
    model = compiled(how, small, whole, counts)
    x, y = draw(*whole), draw(*small)
    np.testing.assert_array_equal(model(x, y)["y"], x - np.tile(y, counts))
    assert kinds(model) == ["Tile", "Subtract"]


def test_axes_that_are_mapped_stay() -> None:
    """Explicit axes align sizes elsewhere than at the right."""
    b = uncork.Builder("mapped")
    x, column = b.parameter("x", "f32", [5, 5]), b.parameter("column", "f32", [5])
    shape, axes = constant(b, [5, 5]), constant(b, [0])
    wide = b.add("Broadcast", 3, column, shape, axes, mode="explicit")[0]
    b.result(b.add("Add", 1, x, wide)[0], "y")
    model = compile_model(b.model())
    x_, column_ = draw(5, 5), draw(5)
    np.testing.assert_array_equal(model(x_, column_)["y"], x_ + column_[:, np.newaxis])


def test_the_result_keeps_its_shape() -> None:
    """Nothing else has the shape of the result: both were stretched to it."""
    b = uncork.Builder("both")
    x, y = b.parameter("x", "f32", [3, 1]), b.parameter("y", "f32", [1])
    shape = constant(b, [3, 4])
    wide = [b.add("Broadcast", 3, given, shape)[0] for given in (x, y)]
    b.result(b.add("Add", 1, *wide)[0], "y")
    model = compile_model(b.model())
    x_, y_ = draw(3, 1), draw(1)
    got = model(x_, y_)["y"]
    np.testing.assert_array_equal(got, np.broadcast_to(x_ + y_, (3, 4)))


def test_other_alignments() -> None:
    """PReLU takes a slope for each channel; an operand that must fit is not stretched."""
    b = uncork.Builder("others")
    x, slope = b.parameter("x", "f32", [2, 3]), b.parameter("slope", "f32", [1])
    wide = b.add("Broadcast", 3, slope, constant(b, [2, 3]))[0]
    flat = b.parameter("flat", "f32", [1, 3])
    rows = b.add("Broadcast", 3, flat, constant(b, [2, 3]))[0]
    b.result(b.add("PReLU", 1, x, wide)[0], "y")
    b.result(b.add("Add", 1, x, rows, auto_broadcast="none")[0], "z")
    model, slow = compile_model(b.model()), compile_model(b.model(), backend="reference")
    given = draw(2, 3), draw(1), draw(1, 3)
    for got, expected in zip(model(*given).values(), slow(*given).values(), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(30))
def test_random_against_the_references(seed: int) -> None:
    """Operands of random shapes, stretched in random ways, of chains of layers."""
    random = np.random.default_rng(seed)
    whole = random.integers(1, 5, random.integers(1, 4)).tolist()
    b = uncork.Builder("random")
    inputs = [whole]
    value = b.parameter("x", "f32", [None if random.random() < 0.3 else s for s in whole])
    shape = b.add("ShapeOf", 3, value, output_type="i64")[0]
    for number in range(random.integers(1, 5)):
        small = [s if random.random() < 0.5 else 1 for s in whole][random.integers(0, 2) :]
        x = b.parameter(f"x{number}", "f32", small)
        inputs.append(small)
        if random.random() < 0.5 and len(small) == len(whole):
            counts = [w // s for w, s in zip(whole, small, strict=True)]
            wide = b.add("Tile", 1, x, constant(b, counts))[0]
        else:
            wide = b.add("Broadcast", 3, x, shape)[0]
        if random.random() < 0.3:
            wide = b.add("Unsqueeze", 1, wide, constant(b, [0]))[0]
            wide = b.add("Squeeze", 1, wide, constant(b, [0]))[0]
        kind = str(random.choice(["Add", "Multiply", "Maximum", "Subtract", "Select"]))
        if kind == "Select":
            condition = b.add("Greater", 1, wide, value)[0]
            value = b.add("Select", 1, condition, wide, value)[0]
        else:
            value = b.add(kind, 1, *([wide, value] if random.random() < 0.5 else [value, wide]))[0]
    b.result(value, "y")
    fast, slow = compile_model(b.model()), compile_model(b.model(), backend="reference")
    for _ in range(2):
        given = [random.standard_normal(shape).astype(np.float32) for shape in inputs]
        np.testing.assert_allclose(fast(*given)["y"], slow(*given)["y"], rtol=1e-6, atol=1e-6)
