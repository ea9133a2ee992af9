"""Plans of several parts: native segments go on behind references, and behind sizes that these
find.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler import plan_set
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.model import Source

WEIGHTS = np.random.default_rng(3).standard_normal((4, 24)).astype(np.float32)


def kept_rows(b: uncork.Builder) -> Source:
    """The rows of x whose mark is not 0, times the weights."""
    x, marks = b.parameter("x", "f32", [None, 4]), b.parameter("marks", "f32", [None])
    found = b.add("NonZero", 3, marks, output_type="i64")[0]
    places = b.add("Squeeze", 1, found, b.constant(np.array([0])))[0]
    rows = b.add("Gather", 8, x, places, b.constant(np.int64(0)), name="rows")[0]
    product = b.add("MatMul", 1, rows, b.constant(WEIGHTS), name="product")[0]
    return b.add("Tanh", 1, product, name="squashed")[0]


def model() -> uncork.Model:
    b = uncork.Builder("kept rows")
    b.result(kept_rows(b), "y")
    return b.model()


def call(rows: int, kept: Sequence[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    marks = np.zeros(rows, np.float32)
    marks[list(kept)] = 1
    return np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32), marks


def by_hand(x: np.ndarray, marks: np.ndarray) -> np.ndarray:
    return np.tanh(x[marks != 0].astype(np.float64) @ WEIGHTS.astype(np.float64))


def kernels(compiled: uncork.CompiledModel) -> dict[str, str]:
    return {step.layer: step.kernel for step in compiled.plan.steps}


def test_kernels_go_on_behind_a_size_that_a_step_finds() -> None:
    compiled = compile_model(model())
    for rows, kept in (
        (5, [1, 3]),
        (5, [0, 1, 2, 3, 4]),
        (900, range(0, 900, 2)),
        (3, [2]),
        (900, range(900)),
        (5, []),
    ):
        x, marks = call(rows, kept)
        np.testing.assert_allclose(compiled(x, marks)["y"], by_hand(x, marks), rtol=2e-6, atol=2e-6)
    assert [
        kernel
        for layer, kernel in kernels(compiled).items()
        if "NonZero" not in layer and kernel == "reference"
    ] == []
    assert "NonZero" in compiled.plan.steps[-1].outputs, "in sizes that the call finds"
    assert not compiled.plan.guards, "one plan for all of these"


def test_a_call_that_fails_in_the_middle_leaves_the_model_usable() -> None:
    compiled = compile_model(model(), strict=True)
    x, marks = call(6, [1, 5])
    good = by_hand(x, marks)
    for _ in range(3):
        with pytest.raises(InputError, match=r"layer 'rows' .*indices\[2\] is 7, expected -6 to 5"):
            compiled(x, np.array([1, 0, 0, 1, 0, 0, 0, 1], np.float32))
        np.testing.assert_allclose(compiled(x, marks)["y"], good, rtol=2e-6, atol=2e-6)


def test_threads_that_are_cold_together_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = plan_set.planned

    def planned(*arguments: object, **options: object) -> object:
        made.append(threading.get_ident())
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_set, "planned", planned)
    compiled = compile_model(model())
    inputs = [call(40 + n, range(0, 40, n + 1), n) for n in range(8)]
    together = threading.Barrier(8)
    wrong: list[str] = []

    def work(number: int) -> None:
        together.wait()
        for turn in range(20):
            x, marks = inputs[(number + turn) % 8]
            if not np.allclose(compiled(x, marks)["y"], by_hand(x, marks), rtol=2e-6, atol=2e-6):
                wrong.append(f"thread {number}, turn {turn}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(made) == 1


def test_a_guard_on_a_found_size_is_another_plan() -> None:
    """What is found is as long as x, or one, which stretches over it."""
    b = uncork.Builder("found and given")
    x, marks = b.parameter("x", "f32", [None]), b.parameter("marks", "f32", [None])
    places = b.add(
        "Squeeze", 1, b.add("NonZero", 3, marks, output_type="i64")[0], b.constant(np.array([0]))
    )[0]
    b.result(b.add("Add", 1, b.add("Convert", 1, places, destination_type="f32")[0], x)[0], "y")
    compiled = compile_model(b.model())
    three, one = np.array([0, 1, 1, 1], np.float32), np.array([0, 0, 1, 0], np.float32)
    for _ in range(2):
        assert compiled(np.array([10, 20, 30], np.float32), three)["y"].tolist() == [11, 22, 33]
        assert compiled(np.array([10, 20, 30], np.float32), one)["y"].tolist() == [12, 22, 32]
        with pytest.raises(InputError, match=r"\[3\].*\[2\]|\[2\].*\[3\]"):
            compiled(np.array([10, 20], np.float32), three)
    assert 1 <= compiled.plan.made <= 3


def test_a_size_that_a_guard_has_made_1_is_another_plan() -> None:
    """The plan of the first call supposes one column; others fail at its guard, not at the look at
    its arguments.
    """
    b = uncork.Builder("stretched")
    x, bias = b.parameter("x", "f32", [None, 3]), b.parameter("bias", "f32", [None, None])
    b.result(b.add("Tanh", 1, b.add("Add", 1, x, bias)[0])[0], "y")
    compiled = compile_model(b.model())
    plans = compiled.executor.plans
    assert plans is not None
    for shape in ((1, 1), (4, 3), (1, 3), (4, 1), (4, 3)):
        given = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
        expected = np.tanh(np.full((4, 3), 0.5) + given.astype(np.float64))
        np.testing.assert_allclose(
            compiled(np.full((4, 3), 0.5, np.float32), given)["y"], expected, rtol=1e-5
        )
        assert plans.last is not None
        last = plans.last.run(np.full((4, 3), 0.5, np.float32), given)
        assert isinstance(last, list), f"{shape} is run by no plan"


def test_sizes_beyond_64_bits() -> None:
    b = uncork.Builder("beyond")
    times = b.parameter("times", "i64", [3])
    b.result(b.add("Tile", 1, b.parameter("x", "f32", [None, None, None]), times)[0], "y")
    b.result(kept_rows(b), "rows")
    compiled = compile_model(b.model())
    few, many = np.array([1, 2, 1]), np.full(3, 2**31 - 1)
    x, rows = np.ones((2, 3, 4), np.float32), call(4, [1])
    assert compiled(few, x, *rows)["y"].shape == (2, 6, 4)
    with pytest.raises(InputError, match=r"needs .* bytes, more than"):
        compiled(many, x, *rows)
    assert compiled(few, x, *rows)["y"].shape == (2, 6, 4)


def test_results_are_the_callers_own() -> None:
    """Of what a reference gives twice, or passes on as it came, each result is an array of its
    own.
    """
    b = uncork.Builder("own")
    x = b.parameter("x", "f32", [None])
    found = b.add("NonZero", 3, x, output_type="i64")[0]
    for name in ("a", "b"):
        b.result(found, name)
    b.result(x, "c")
    compiled = compile_model(b.model())
    given = np.array([0, 2, 3], np.float32)
    first, second, same = compiled(given)
    first[:], same[:] = -1, -1
    assert second.tolist() == [[1, 2]]
    assert given.tolist() == [0, 2, 3]


def counting(computed: bool) -> uncork.Model:
    """total += x, which begins with zeros as long as x, or with them as a constant."""
    b = uncork.Builder("counting")
    x = b.parameter("x", "f32", [None, 3])
    begin = b.constant(np.zeros((2, 3), np.float32))
    if computed:
        begin = b.add(
            "Broadcast", 3, b.constant(np.float32(0)), b.add("ShapeOf", 3, x, output_type="i64")[0]
        )[0]
    (read,) = b.add(
        "ReadValue",
        6,
        begin,
        variable_id="total",
        variable_type="f32",
        variable_shape=uncork.PartialShape([None, 3]),
    )
    (total,) = b.add("Add", 1, read, x)
    (kept,) = b.add(
        "Gather", 8, total, b.parameter("rows", "i64", [None]), b.constant(np.int64(0)), name="kept"
    )
    b.add("Assign", 6, total, variable_id="total")
    b.result(kept, "y")
    return b.model()


@pytest.mark.parametrize("computed", [False, True])
def test_variables_from_their_beginning(computed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generation after generation by the same plans, and a call that fails assigns nothing."""
    compiled = compile_model(counting(computed), strict=True)
    ones, rows = np.ones((2, 3), np.float32), np.array([1])
    for generation in range(3):
        if generation == 2:
            monkeypatch.setattr(plan_set, "planned", None)  # no more plans
        for turn in (1, 2, 3):
            assert compiled(ones, rows)["y"].tolist() == [[turn] * 3]
            with pytest.raises(InputError, match=r"layer 'kept' .*is 5, expected -2 to 1"):
                compiled(ones, np.array([5]))
        compiled.reset_state()
