"""Attention without a kernel of its own: no step by reference, and what the formula gives."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork

Array = np.ndarray


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def attended(query: Array, key: Array, value: Array, mask: Array | None = None) -> Array:
    """By the formula, in 64 bits."""
    q, k, v = (array.astype(np.float64) for array in (query, key, value))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [None, 700])
def test_heads_of_open_size_and_long_ones(size: int | None, masked: bool) -> None:
    """As where channels attend to channels, and pixels are the numbers of a head."""
    builder = uncork.Builder("channels")
    inputs = [builder.parameter(name, "f32", [None, 4, None, size]) for name in "qkv"]
    if masked:
        inputs.append(builder.parameter("mask", "boolean", [None, None]))
    attention = builder.add("ScaledDotProductAttention", 13, *inputs, causal=False)
    builder.result(attention[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    for batch, rows in ((2, 8), (1, 5)):
        own = size or 40 * rows
        query, key, value = (numbers(batch, 4, rows, own, seed=n) for n in range(3))
        mask = numbers(rows, rows) > -1
        mask[np.diag_indices(rows)] = True
        given = [query, key, value, *([mask] if masked else [])]
        wanted = attended(query, key, value, mask if masked else None)
        np.testing.assert_allclose(compiled(*given)[0], wanted, rtol=1e-4, atol=1e-5)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)
    assert compiled.plan.made == 1


def test_attention_with_a_kernel_stays_one_step() -> None:
    builder = uncork.Builder("tokens")
    inputs = [builder.parameter(name, "f32", [None, 4, None, 64]) for name in "qkv"]
    builder.result(builder.add("ScaledDotProductAttention", 13, *inputs, causal=False)[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    query, key, value = (numbers(2, 4, 9, 64, seed=n) for n in range(3))
    wanted = attended(query, key, value)
    np.testing.assert_allclose(compiled(query, key, value)[0], wanted, rtol=1e-4, atol=1e-5)
    (step,) = compiled.plan.steps
    assert "attention" in step.kernel
