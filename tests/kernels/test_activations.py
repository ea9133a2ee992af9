"""Activations inside a recurrent step: near 0, far from it, and what a thousand steps make of
them.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model

F32 = np.float32
SIZES = np.concatenate([np.logspace(-30, 2, 3000), np.linspace(0, 12, 3000)]).astype(F32)
VALUES = np.concatenate([SIZES, -SIZES])


def activated(word: str, units: int) -> np.ndarray:
    """The activation of `VALUES`, computed in vectors of so many units."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [len(VALUES), 1, 1])
    state, lengths = (
        builder.constant(array)
        for array in (np.zeros((len(VALUES), 1, units), F32), np.ones(len(VALUES), np.int64))
    )
    weights = [
        builder.constant(array)
        for array in (
            np.ones((1, units, 1), F32),
            np.zeros((1, units, units), F32),
            np.zeros((1, units), F32),
        )
    ]
    y = builder.add(
        "RNNSequence",
        5,
        x,
        state,
        lengths,
        *weights,
        hidden_size=units,
        direction="forward",
        activations=[word],
    )[0]
    builder.result(y, "y")
    compiled = compile_model(builder.model())
    result = compiled(VALUES.reshape(-1, 1, 1))["y"].reshape(len(VALUES), units)
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
    assert (result == result[:, :1]).all()
    return result[:, 0]


@pytest.mark.parametrize("units", [1, 8, 16])
def test_tanh_keeps_its_digits_near_0_and_its_bound(units: int) -> None:
    exact, got = np.tanh(VALUES.astype(np.float64)), activated("tanh", units)
    assert np.abs(got).max() == 1
    assert np.abs(got - exact).max() < 2.5e-7
    some = VALUES != 0
    assert np.abs(got[some] / exact[some] - 1).max() < 4e-7
    near = some & (np.abs(VALUES) < 0.01)
    assert abs(np.mean(got[near] / exact[near] - 1)) < 2e-8  # no side


@pytest.mark.parametrize("units", [1, 8, 16])
def test_sigmoid_falls_to_the_smallest_normal_number(units: int) -> None:
    exact, got = 1 / (1 + np.exp(-VALUES.astype(np.float64))), activated("sigmoid", units)
    assert np.abs(got - exact).max() < 1.1e-7
    normal = exact > np.finfo(F32).tiny
    assert np.abs(got[normal] / exact[normal] - 1).max() < 1e-5
    assert (got[~normal] <= np.finfo(F32).tiny).all()


def test_a_closed_gate_lets_no_large_state_through() -> None:
    """The new state is 1e30 times the update gate, sigmoid(-100), which is 4e-44."""
    builder = uncork.Builder()
    x, state = (builder.parameter(name, "f32", [1, 1, 1]) for name in ("x", "state"))
    weights = [
        builder.constant(np.array(values, F32).reshape(1, 3, *more))
        for values, more in (([1, 0, 0], (1,)), ([0, 0, 0], (1,)), ([0] * 3, ()))
    ]
    y, _ = builder.add(
        "GRUSequence", 5, x, state, builder.constant(np.array([1])), *weights, hidden_size=1
    )
    builder.result(y, "y")
    given = (np.full((1, 1, 1), -100, F32), np.full((1, 1, 1), 1e30, F32))
    assert abs(compile_model(builder.model())(*given)["y"].item()) < 1e-7


@pytest.mark.parametrize("keeps", [1.0, 1.05])
def test_a_state_that_comes_back_a_thousand_times(keeps: float) -> None:
    """h = tanh(keeps * h): each step's error is carried on, and so is any that always has the same
    side.
    """
    units, steps = 16, 1000
    first = np.linspace(1e-4, 0.1, units).astype(F32)
    builder = uncork.Builder()
    x, lengths = builder.parameter("x", "f32", [1, steps, 1]), builder.constant(np.array([steps]))
    recurrent = (keeps * np.eye(units, dtype=F32)).astype(F32)
    weights = [
        builder.constant(array)
        for array in (
            np.zeros((1, units, 1), F32),
            recurrent[np.newaxis],
            np.zeros((1, units), F32),
        )
    ]
    state = builder.constant(first.reshape(1, 1, units))
    builder.result(
        builder.add(
            "RNNSequence", 5, x, state, lengths, *weights, hidden_size=units, direction="forward"
        )[0],
        "y",
    )
    got = compile_model(builder.model())(np.zeros((1, steps, 1), F32))["y"].reshape(steps, units)
    exact = first.astype(np.float64)
    factor = float(recurrent[0, 0])
    for step in range(steps):
        exact = np.tanh(factor * exact)
        assert np.abs(got[step] - exact).max() < 2e-6
