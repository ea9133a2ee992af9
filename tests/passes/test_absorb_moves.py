"""Tensors that are moved for layers element by element: what these read where it lies, what is
copied, and the results, which are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.ir.model import Source

Sizes = list[Any]
Body = Callable[[uncork.Builder, Source], Source]


def c(b: uncork.Builder, *value: int) -> Source:
    return b.constant(np.array(value, np.int64))


def halves(b: uncork.Builder, x: Source, axis: int = -1) -> tuple[Source, ...]:
    return b.add("Split", 1, x, b.constant(np.int64(axis)), num_splits=2)


def gated(b: uncork.Builder, x: Source, axis: int = -1) -> Source:
    one, other = halves(b, x, axis)
    return b.add("Multiply", 1, one, b.add("Tanh", 1, other)[0])[0]


def shifted(b: uncork.Builder, x: Source) -> Source:
    """Each frame less the one before it."""
    later = b.add("Slice", 8, x, c(b, 1), c(b, 2**31 - 1), c(b, 1), c(b, 0))[0]
    sooner = b.add("Slice", 8, x, c(b, 0), c(b, -1), c(b, 1), c(b, 0))[0]
    return b.add("Subtract", 1, later, sooner)[0]


def turned(b: uncork.Builder, x: Source) -> Source:
    y = b.add("Transpose", 1, x, c(b, 1, 0, 2))[0]
    return b.add("Add", 1, y, b.constant(np.float32(1)))[0]


def every_other(b: uncork.Builder, x: Source) -> Source:
    y = b.add(
        *("StridedSlice", 1, x, c(b, 1, 0), c(b, 0, 0), c(b, 2, 1)),
        begin_mask=[0, 1],
        end_mask=[1, 1],
    )[0]
    return b.add("Multiply", 1, y, y)[0]


def compiled(body: Body, sizes: Sizes) -> CompiledModel:
    b = uncork.Builder("moved")
    b.result(body(b, b.parameter("x", "f32", sizes)), "y")
    return compile_model(b.model())


def kinds(model: CompiledModel) -> list[str]:
    return [step.operation.partition("-")[0] for step in model.plan.steps if step.kernel != "view"]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _gate(x: np.ndarray, axis: int = -1) -> np.ndarray:
    one, other = np.split(x, 2, axis)
    return one * np.tanh(other)


@pytest.mark.parametrize(
    ("body", "sizes", "function"),
    [
        (gated, [None, 64], _gate),
        (gated, [None, None, 38], _gate),
        (lambda b, x: gated(b, x, 1), [None, 6, 33], lambda x: _gate(x, 1)),
        (lambda b, x: gated(b, x, 0), [8, None, 20], lambda x: _gate(x, 0)),
        (shifted, [None, 17], lambda x: x[1:] - x[:-1]),
        (turned, [None, 3, 40], lambda x: x.transpose(1, 0, 2) + 1),
        (every_other, [None, 24], lambda x: x[1::2] ** 2),
    ],
    ids=["rows", "open rows", "channels", "batch", "frames", "transposed", "every other row"],
)
def test_the_layer_reads_it_where_it_lies(
    body: Body, sizes: Sizes, function: Callable[[np.ndarray], np.ndarray]
) -> None:
    for given in (sizes, [5 if size is None else size for size in sizes]):
        model = compiled(body, given)
        for open_size in (5, 2, 11) if None in given else (5,):
            x = draw(*(open_size if size is None else size for size in given))
            np.testing.assert_allclose(model(x)["y"], function(x), rtol=2e-6, atol=2e-6)
        assert len(kinds(model)) == 1


def test_the_places_of_two_parts_a_number_and_an_open_size() -> None:
    """Of channels whose rows have an open length, as GLU has them: one plan for every length."""
    model = compiled(lambda b, x: gated(b, x, 1), [2, 6, None])
    assert kinds(model) == ["Fused"]
    for length in (40, 5, 1):
        x = draw(2, 6, length)
        np.testing.assert_allclose(model(x)["y"], _gate(x, 1), rtol=2e-6, atol=2e-6)
    assert model.plan.made == 1


def test_parts_of_two_moves_and_a_row_that_is_stretched() -> None:
    def body(b: uncork.Builder, x: Source) -> Source:
        one, other = halves(b, x)
        row = b.add("Slice", 8, x, c(b, 1, 16), c(b, 2, 48), c(b, 1, 1), c(b, 1, 2))[0]
        y = b.add("Add", 1, b.add("Multiply", 1, one, row)[0], other)[0]
        return b.add("Subtract", 1, y, b.constant(draw(32)))[0]

    model = compiled(body, [2, None, 64])
    for rows in (9, 4):
        x = draw(2, rows, 64)
        expected = x[..., :32] * x[:, 1:2, 16:48] + x[..., 32:] - draw(32)
        np.testing.assert_allclose(model(x)["y"], expected, rtol=2e-6, atol=2e-6)
    assert kinds(model) == ["Fused"]


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (gated, [None, 12]),
        (lambda b, x: b.add("Tanh", 1, b.add("Transpose", 1, x, c(b, 1, 0))[0])[0], [40, 50]),
        (
            lambda b, x: b.add(
                "Tanh", 1, b.add("Slice", 8, x, c(b, 0), c(b, 40), c(b, 2), c(b, 1))[0]
            )[0],
            [4, 40],
        ),
        (
            lambda b, x: b.add(
                "MatMul", 1, b.add("Tanh", 1, halves(b, x)[0])[0], halves(b, x)[0], transpose_b=True
            )[0],
            [20, 40],
        ),
    ],
    ids=["short rows", "columns", "every other column", "a product reads it"],
)
def test_what_is_copied(body: Body, sizes: Sizes) -> None:
    model = compiled(body, sizes)
    x = draw(*(7 if size is None else size for size in sizes))
    reference = compile_model(model.model, backend="reference")
    np.testing.assert_allclose(model(x)["y"], reference(x)["y"], rtol=1e-5, atol=1e-5)
    assert {"Split", "Transpose", "Slice"} & {*kinds(model)}
