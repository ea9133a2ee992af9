"""The first call of a generation: it grows in the storages of the one before, by the plan of the
calls before.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.test_growing_state import Net
from uncork.compiler.plan_set import PlanSet

Array = np.ndarray[Any, Any]


def rows(*numbers: float, batch: int = 1) -> Array:
    return np.tile(np.array(numbers, np.float32)[None, :, None], (batch, 1, 2))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each call that is not like the one before it."""
    made: list[int] = []
    make = PlanSet.make

    def counted(self: PlanSet, inputs: Sequence[Array]) -> list[Array]:
        made.append(1)
        return make(self, inputs)

    monkeypatch.setattr(PlanSet, "make", counted)
    return made


def grows(begins: Sequence[float] = ()) -> uncork.Model:
    """A list of rows; and a sum, which is a variable that does not grow."""
    net = Net()
    x = net.input("x", "f32", [None, None, 2])
    old = net.read("list", [None, None, 2], net.constant(rows(*begins), np.float32))
    whole = net.grown("list", old, x, 1)
    total = net.read("sum", [1], net.constant([0.5], np.float32))
    total = net.add("Add", 1, total, net.add("ReduceSum", 1, x, net.constant([0, 1, 2])))
    net.assign("sum", total)
    return net.model(whole=net.add("Negative", 1, whole), total=total)


@pytest.mark.parametrize("begins", [(), (7.0,)])
def test_further_generations_are_like_the_first(
    begins: Sequence[float], slow: list[int], tmp_path: Path
) -> None:
    """Of a file, whose arrays are of types of their own."""
    uncork.write_model(grows(begins), tmp_path / "m.xml")
    compiled = uncork.load(tmp_path / "m.xml", threads=1)
    for generation in range(4):
        for number in range(1, 5):
            result = compiled(rows(number))
            wanted = [*begins, *range(1, number + 1)]
            assert result["whole"].tolist() == (-rows(*wanted)).tolist()
            assert result["total"] == 0.5 + number * (number + 1)
        if generation == 0:
            assert len(slow) <= 2, "the first call, and the first one that finds room"
            del slow[:]
        compiled.reset_state()
    assert not slow


def test_other_rows_begin_anew() -> None:
    """A storage of other sizes is of no use, and is given back."""
    net = Net()
    x = net.input("x", "f32", [None, None, 2])
    shape = net.add("ShapeOf", 3, x)
    batch = net.add("Gather", 8, shape, net.constant([0]), net.constant(0))
    start = net.add(
        "Broadcast",
        3,
        net.constant(0, np.float32),
        net.add("Concat", 1, batch, net.constant([0, 2]), axis=0),
    )
    whole = net.grown("list", net.read("list", [None, None, 2], start), x, 1)
    compiled = uncork.compile_model(net.model(whole=net.add("Negative", 1, whole)))
    for batch_size in (1, 3, 3, 2, 1):
        for number in range(1, 4):
            result = compiled(rows(number, batch=batch_size))["whole"]
            wanted = -rows(*range(1, number + 1), batch=batch_size)
            assert result.tolist() == wanted.tolist()
        compiled.reset_state()


def test_what_callers_hold_stays_theirs() -> None:
    """Storages are written again; results and values that were read are not."""
    compiled = uncork.compile_model(grows())
    first = compiled(rows(1, 2))["whole"]
    kept = {variable.name: variable.state for variable in compiled.query_state()}
    compiled.reset_state()
    compiled(rows(8, 9))
    assert first.tolist() == (-rows(1, 2)).tolist()
    assert kept["list"].tolist() == rows(1, 2).tolist()
    for variable in compiled.query_state():
        variable.state = kept[variable.name]
    assert compiled(rows(3))["whole"].tolist() == (-rows(1, 2, 3)).tolist()


def test_a_first_call_that_fails_changes_nothing() -> None:
    compiled = uncork.compile_model(grows())
    compiled(rows(1, 2))
    compiled.reset_state()
    for _ in range(2):
        with pytest.raises(uncork.InputError):
            compiled(np.zeros((1, 2, 3), np.float32))
    values = {variable.name: variable.state for variable in compiled.query_state()}
    assert values["list"].shape == (1, 0, 2)
    assert values["sum"] == 0.5
    assert compiled(rows(4))["whole"].tolist() == (-rows(4)).tolist()


def test_storages_of_the_last_generation_are_given_back() -> None:
    compiled = uncork.compile_model(grows())
    tracemalloc.start()
    try:
        compiled(np.ones((1, 1_000_000, 2), np.float32))
        compiled.reset_state()
        before, _ = tracemalloc.get_traced_memory()
        compiled.release_memory()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert before - after >= 8_000_000
    assert compiled(rows(4))["whole"].tolist() == (-rows(4)).tolist()
