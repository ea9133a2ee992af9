"""Rows that are taken before they are multiplied: what is recognised, what stays, the results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import uncork
from uncork.ir.model import Source
from uncork.passes.select_before_products import select_before_products
from uncork.types import Array

F32 = np.float32
GENERATOR = np.random.default_rng(5)
WEIGHTS = GENERATOR.standard_normal((7, 16)).astype(F32)
BIAS = GENERATOR.standard_normal(7).astype(F32)
X = GENERATOR.standard_normal((2, 9, 16)).astype(F32)
SCORES = X.astype(np.float64) @ WEIGHTS.T.astype(np.float64)

Taken = Callable[[uncork.Builder, Source], Source]


def number(b: uncork.Builder, value: object) -> Source:
    return b.constant(np.asarray(value, np.int64))


def gathered(places: object, axis: int = 1) -> Taken:
    return lambda b, y: b.add("Gather", 8, y, number(b, places), number(b, axis))[0]


def sliced(start: int, stop: int, step: int = 1, axis: int = 1) -> Taken:
    return lambda b, y: b.add(
        "Slice", 8, y, *(number(b, [bound]) for bound in (start, stop, step, axis))
    )[0]


def strided(
    begin: list[int], end: list[int], begin_mask: list[int], end_mask: list[int], **masks: object
) -> Taken:
    return lambda b, y: b.add(
        "StridedSlice",
        1,
        y,
        number(b, begin),
        number(b, end),
        begin_mask=tuple(begin_mask),
        end_mask=tuple(end_mask),
        **masks,
    )[0]


def model(take: Taken, bias: bool = False, rows: int | None = None) -> uncork.Model:
    b = uncork.Builder("scores")
    x = b.parameter("x", "f32", [2, rows, 16])
    (y,) = b.add("MatMul", 1, x, b.constant(WEIGHTS), transpose_b=True)
    if bias:
        (y,) = b.add("Add", 1, y, b.constant(BIAS))
        (y,) = b.add("Tanh", 1, y)
    b.result(take(b, y), "y")
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


CASES: dict[str, tuple[Taken, tuple[object, ...]]] = {
    "last by Slice": (sliced(-1, 2**31 - 1), (slice(None), slice(-1, None))),
    "every other": (sliced(1, 8, 2), (slice(None), slice(1, 8, 2))),
    "backwards": (sliced(-1, -(2**31), -3), (slice(None), slice(None, None, -3))),
    "of the batch": (sliced(1, 2, axis=0), (slice(1, 2),)),
    "last by StridedSlice": (strided([0, -1], [0, 0], [1, 0], [1, 1]), (slice(None), slice(-1, 9))),
    "last, all axes named": (
        strided([0, -1, 5], [0, 9, 0], [1, 0, 1], [1, 0, 1]),
        (slice(None), slice(-1, 9)),
    ),
    "last by Gather": (gathered(-1), (slice(None), -1)),
    "two by Gather": (gathered([-1]), (slice(None), [-1])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [None, 9])
def test_results(name: str, backend: str, rows: int | None) -> None:
    take, place = CASES[name]
    for bias in (False, True):
        expected = np.tanh(SCORES + BIAS)[place] if bias else SCORES[place]
        got = uncork.compile_model(model(take, bias, rows), backend=backend)(X)["y"]
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_product_comes_last(name: str) -> None:
    after = kinds(select_before_products(model(CASES[name][0])))
    assert after[-1 - (after[-1] == "View")] == "MatMul", after
    assert after[0] in ("Slice", "StridedSlice", "Gather")


def test_with_what_follows_the_product() -> None:
    after = kinds(select_before_products(model(sliced(-1, 99), bias=True)))
    assert after == ["Slice", "MatMul", "Add", "Tanh"]


@pytest.mark.parametrize(
    ("take", "bias"),
    [
        (sliced(0, 3, axis=2), False),  # columns, which are sums of whole rows
        (gathered(-1), True),  # of no rows it gives zeros, not tanh(bias)
        (gathered([0, 1, 2]), False),  # perhaps more than there are
        (strided([0, -1], [0, 0], [1, 0], [1, 1], shrink_axis_mask=(0, 1)), False),
        (strided([0, 0, 1], [0, 0, 3], [1, 1, 0], [1, 1, 0]), False),
    ],
)
def test_what_stays(take: Taken, bias: bool) -> None:
    before = model(take, bias)
    assert select_before_products(before) is before


def test_what_others_read_stays() -> None:
    b = uncork.Builder("scores")
    x = b.parameter("x", "f32", [2, None, 16])
    (y,) = b.add("MatMul", 1, x, b.constant(WEIGHTS), transpose_b=True)
    b.result(sliced(-1, 99)(b, y), "last")
    b.result(y, "all")
    before = b.model()
    assert select_before_products(before) is before


def test_numbers_that_differ_along_the_axis_stay() -> None:
    b = uncork.Builder("scores")
    x = b.parameter("x", "f32", [2, 9, 16])
    (y,) = b.add("MatMul", 1, x, b.constant(WEIGHTS), transpose_b=True)
    (y,) = b.add("Add", 1, y, b.constant(np.arange(9, dtype=F32).reshape(9, 1)))
    b.result(sliced(-1, 99)(b, y), "last")
    before = b.model()
    assert select_before_products(before) is before


def test_no_rows() -> None:
    """Of no rows a Slice has none, and a Gather of the last gives zeros."""
    none: Array = np.zeros((2, 0, 16), F32)
    for backend in ("cpu", "reference"):
        got = uncork.compile_model(model(sliced(-1, 99), bias=True), backend=backend)(none)["y"]
        assert got.shape == (2, 0, 7)
        for bias in (False, True):
            compiled = uncork.compile_model(model(gathered(-1), bias), backend=backend)
            np.testing.assert_array_equal(compiled(none)["y"], np.zeros((2, 7), F32))


def test_the_plan_multiplies_one_row() -> None:
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(model(sliced(-1, 2**31 - 1), bias=True))
    compiled(X)
    products = [step for step in compiled.plan.steps if "matmul" in step.kernel]
    assert [step.outputs for step in products] == ["f32[2,1,7]"]
