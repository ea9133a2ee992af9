"""Products whose columns are cut into parts: which are products of their own then, and results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_quantize_layers import same_numbers, weights
from uncork.compiler.compile import compile_model
from uncork.ir.model import Model, Source

__all__ = ["same_numbers"]  # a fixture for every test

HEADS, WIDTH, TOKENS = 3, 16, 10
ORDER = (2, 0, 3, 1, 4)
PRODUCTS = ("FusedLinear", "MatMul", "QuantizedProduct")


def numbers(*sizes: int) -> np.ndarray:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)


def encoder(
    sizes: Sequence[int | None] = (2, TOKENS, 24),
    order: Sequence[int] | None = ORDER,
    bias: bool = True,
    rounds: bool = True,
    how: str = "i8",
    why: str = "",
) -> Model:
    """Attention whose queries, keys and values come from one product; `why`: what comes near."""
    b = uncork.Builder("encoder")
    x = b.parameter("x", "f32", sizes)
    x = number_grid(b, x, 3) if rounds else x
    own = weights(b, 3 * HEADS * WIDTH, 24, how=how)
    (y,) = b.add("MatMul", 1, x, own, transpose_b=True)
    if why == "a result":
        b.result(y, "product")
    if bias:
        (y,) = b.add("Add", 1, y, b.constant(numbers(3 * HEADS * WIDTH)))
    inner = (HEADS, 3, WIDTH) if why == "another axis" else (3, HEADS, WIDTH)
    (y,) = b.add("Reshape", 1, y, b.constant(np.array([0, 0, *inner])), special_zero=True)
    if why == "another axis":
        (y,) = b.add("Transpose", 1, y, b.constant(np.array([3, 0, 2, 1, 4])))
    elif order is not None:
        (y,) = b.add("Transpose", 1, y, b.constant(np.array(order)))
    axis = 2 if order is None else 0
    parts = b.add("Split", 1, y, b.constant(np.array(axis)), num_splits=3)
    axes = b.constant(np.array([axis]))
    if why == "parts as they are":
        for number, part in enumerate(parts):
            b.result(part, f"part{number}")
        return b.model()
    parts = [b.add("Squeeze", 1, part, axes)[0] for part in parts]
    if rounds:
        parts[:2] = [number_grid(b, part, high) for part, high in zip(parts, (2, 3), strict=False)]
    (y,) = b.add("ScaledDotProductAttention", 13, *parts, causal=False)
    b.result(y, "y")
    return b.model()


def number_grid(b: uncork.Builder, x: Source, high: float) -> Source:
    limits = [b.constant(np.float32(side)) for side in (-high, high * 127 / 128)]
    return b.add("FakeQuantize", 1, x, *limits, *limits, levels=256)[0]


def operations(model: Model) -> list[str]:
    steps = compile_model(model, threads=1).plan.steps
    return [step.operation.partition("-")[0] for step in steps]


def agree(model: Model, data: np.ndarray, most: float) -> None:
    fast, slow = compile_model(model, threads=1), compile_model(model, backend="reference")
    for got, wanted in zip(fast(data), slow(data), strict=True):
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() <= most * np.abs(wanted).max()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("sizes", [(2, TOKENS, 24), (None, None, 24)])
def test_parts_are_products(bias: bool, rounds: bool, sizes: tuple[int | None, ...]) -> None:
    model = encoder(sizes, bias=bias, rounds=rounds)
    steps = operations(model)
    assert sum(step in PRODUCTS for step in steps) == 3
    assert not {"Split", "FakeQuantize", "Transpose"} & set(steps)
    agree(model, numbers(2, TOKENS, 24), 2e-2 if rounds else 1e-5)


@pytest.mark.parametrize("how", ["i8", "f32", "FakeQuantize"])
@pytest.mark.parametrize("order", [(2, 1, 0, 4, 3), (2, 0, 1, 3, 4), None])
def test_weights_and_orders(how: str, order: tuple[int, ...] | None) -> None:
    model = encoder(order=order, how=how, rounds=False)
    assert "Split" not in operations(model)
    agree(model, numbers(2, TOKENS, 24), 1e-5)


@pytest.mark.parametrize("why", ["a result", "another axis", "parts as they are"])
def test_what_comes_near(why: str) -> None:
    model = encoder(rounds=False, why=why)
    steps = operations(model)
    assert sum(step in PRODUCTS for step in steps) == 1
    agree(model, numbers(2, TOKENS, 24), 1e-5)
