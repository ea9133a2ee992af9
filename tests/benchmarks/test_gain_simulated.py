"""The simulation of many threads: parts that the kernels make, and how threads would take them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from benchmarks import gain_simulated
from benchmarks.gain_simulated import Handing, counts, makespan, page, simulated

import uncork


def test_whoever_is_free_takes_the_next_part() -> None:
    assert makespan([3, 3, 3, 3], 2) == 6
    assert makespan([5, 1, 1, 1, 1], 2) == 5
    assert makespan([1, 1, 1, 1, 5], 2) == 7  # the long one begins last
    assert makespan([2, 2], 64) == 2
    assert makespan([], 4) == 0


def test_numbers_of_threads() -> None:
    assert counts(64) == [2, 4, 8, 16, 32, 64]
    assert counts(6) == [2, 4]


def model() -> uncork.Model:
    b = uncork.Builder("two")
    x = b.parameter("x", "f32", [256, 256])
    (y,) = b.add("MatMul", 1, x, b.constant(np.ones((256, 256), np.float32)), name="product")
    (y,) = b.add("CumSum", 3, y, b.constant(np.int64(0)), name="sums")
    (y,) = b.add("NonZero", 3, y, name="found", output_type="i64")
    b.result(y)
    return b.model()


def test_parts_are_those_of_the_kernels() -> None:
    x = np.ones((256, 256), np.float32)
    parts = gain_simulated._parts(model(), [x], 8)
    stages = {step.layer: found for step, found in parts}
    assert [len(stage.parts) for stage in stages["product"]] == [8]
    assert all(0 < part < 1 for stage in stages["product"] for part in stage.parts)
    assert stages["found"] == [], "what finds sizes is made by one thread"


def test_a_network() -> None:
    x = np.ones((256, 256), np.float32)
    cost = Handing(1e-6, 1e-8, 3e-7)
    found = simulated(model(), [x], 4, cost, "two")
    product = next(step for step in found.steps if step.layer == "product")
    alone = next(step for step in found.steps if step.layer.startswith("found"))
    assert set(product.seconds) == {2, 4} and product.parts == 4
    assert alone.seconds == {2: alone.one, 4: alone.one}
    shown = page([found], [2, 4], cost)
    assert "| two" in shown and "geometric mean" in shown and "NonZero" in shown
