"""Profiles of models with variables: what a call does now, of the values that there are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import uncork
from tests.compiler.test_growing_state import Net
from uncork.types import Array

F32 = np.float32
WIDTH, HEADS = 64, 4


def decoder() -> uncork.Model:
    """Attention of what comes now to all that came before, and a count of all rows."""
    net = Net()
    x = net.input("x", "f32", [1, None, HEADS * WIDTH])
    split, order = net.constant([0, 0, HEADS, WIDTH]), net.constant([0, 2, 1, 3])
    rows = net.add(
        "Transpose", 1, net.add("Reshape", 1, x, split, special_zero=True, name="split"), order
    )
    empty = net.constant(np.zeros((1, HEADS, 0, WIDTH)), F32)
    keys = net.grown("keys", net.read("keys", [1, HEADS, None, WIDTH], empty), rows, 2)
    values = net.grown("values", net.read("values", [1, HEADS, None, WIDTH], empty), rows, 2)
    seen = net.add(
        "ScaledDotProductAttention", 13, rows, keys, values, causal=False, name="attention"
    )
    total = net.add(
        "Add", 1, net.read("total", [1], net.constant([0], F32)), net.constant([1], F32)
    )
    net.assign("total", total)
    return net.model(seen=seen, total=total)


def token(count: int = 1) -> Array:
    return np.random.default_rng(0).standard_normal((1, count, HEADS * WIDTH)).astype(F32)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_state_stays(backend: str) -> None:
    compiled = uncork.compile_model(decoder(), threads=1, backend=backend)
    compiled(token(30))
    before = {variable.name: variable.state for variable in compiled.query_state()}
    assert before["keys"].shape == (1, HEADS, 30, WIDTH)
    compiled.profile(token())
    for variable in compiled.query_state():
        np.testing.assert_array_equal(variable.state, before[variable.name])


def test_attention_is_of_all_that_came_before() -> None:
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(decoder(), threads=1)
    compiled(token(30))
    steps = {step.layer: step for step in compiled.profile(token()).steps}
    # Products of a query with 31 keys and of 31 weights with as many values.
    assert steps["attention"].operations == 2 * HEADS * 31 * (WIDTH + WIDTH)
    assert steps["attention"].kernel.startswith("few_queries")
    compiled(token(8))
    steps = {step.layer: step for step in compiled.profile(token()).steps}
    assert steps["attention"].operations == 2 * HEADS * 39 * (WIDTH + WIDTH)


def test_what_is_appended_is_no_copy_of_the_storage() -> None:
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(decoder(), threads=1)
    compiled(token(1000))
    steps = {step.layer: step for step in compiled.profile(token(3)).steps}
    for name in ("keys", "values"):
        step = steps[f"{name} appended"]
        assert step.bytes == 2 * 4 * HEADS * 3 * WIDTH  # read and written
        assert step.operations == 0


def test_before_the_first_call_and_of_nothing() -> None:
    compiled = uncork.compile_model(decoder(), threads=1)
    assert compiled.profile(token(5)).steps
    assert [variable.state.size for variable in compiled.query_state()] == [0, 0, 1]


def test_shapes_that_do_not_fit_are_refused() -> None:
    compiled = uncork.compile_model(decoder(), threads=1)
    compiled(token(2))
    with pytest.raises(uncork.InputError, match="x"):
        compiled.profile(np.zeros((1, 2, 5), F32))
    assert compiled(token())["seen"].shape == (1, HEADS, 1, WIDTH)


def test_steps_are_measured_as_they_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and again and again, a step would find its weights in a cache."""
    from uncork.compiler import measured_steps as module

    made: list[object] = []

    def noted(call) -> float:
        made.append(call)
        return 1e-6

    monkeypatch.setattr(module, "_time_of", noted)
    compiled = uncork.compile_model(decoder(), threads=1)
    compiled(token(30))
    compiled.profile(token())
    steps = list(dict.fromkeys(made))
    assert len(steps) > 4
    first = len(made) // 2
    nearby = made[first : first + 2 * len(steps)]
    assert all(one is not other for one, other in pairwise(nearby))
    assert all(nearby.count(step) <= 4 for step in steps)
