"""`precision="fast"`: the fastest of what rounds, on this machine."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_real_width import INNER, Stored
from uncork.kernels.gemm.dots import PAIRS, SINGLE, dot_method_of
from uncork.kernels.runtime.target import host_target

needs_dots = pytest.mark.skipif(
    dot_method_of(host_target()) in ((SINGLE, 4), (PAIRS, 16)),
    reason="products of bytes take as long as those of f32",
)


def note(compiled: uncork.CompiledModel) -> str:
    compiled(np.ones((1, INNER), np.float32))
    return next(step.note for step in compiled.plan.steps if step.note)


@needs_dots
def test_products_round_as_far_as_is_stated() -> None:
    stored = Stored("u4", zeros="u4")
    model = stored.product()
    x = np.random.default_rng(4).standard_normal((3, INNER)).astype(np.float32)
    expected = x.astype(np.float64) @ stored.value.T
    fast = uncork.compile_model(model, precision="fast")
    error = abs(fast(x)["y"] - expected).max() / abs(expected).max()
    assert 1e-5 < error < 2e-2
    assert note(fast) == "weights in u4, rows in i8"
    assert note(uncork.compile_model(model)) == "weights in u4 by f16"


@needs_dots
def test_what_is_given_besides_stays() -> None:
    model = Stored("u4", zeros="u4").product()
    finer = uncork.compile_model(model, precision="fast", activations="i16")
    assert note(finer) == "weights in u4, rows in i16"


def test_references_round_nothing() -> None:
    model = Stored("u4", zeros="u4").product()
    x = np.ones((1, INNER), np.float32)
    fast = uncork.compile_model(model, precision="fast", backend="reference")
    plain = uncork.compile_model(model, backend="reference")
    assert np.array_equal(fast(x)["y"], plain(x)["y"])
