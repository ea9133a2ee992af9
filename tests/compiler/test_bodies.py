"""Bodies and variables run by kernels: the same results as the interpreter's, specialisations that
are bounded, state that is safe.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.bodies import KernelBody
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    JoinedOutput,
    SlicedInput,
    Slicing,
    SubGraphOperation,
)

SHAPE = uncork.PartialShape
WEIGHTS = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32) / 10


def agree(model: uncork.Model, calls: Sequence[Sequence[np.ndarray]]) -> uncork.CompiledModel:
    """Calls in a row, by kernels and by the interpreter."""
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for arrays in calls:
        for a, b in zip(fast(*arrays), slow(*arrays), strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    return fast


def kernel_bodies(compiled: uncork.CompiledModel) -> list[KernelBody]:
    operations = [node.operation for node in compiled.executor.prepared.nodes]
    return [
        b.body
        for o in operations
        if isinstance(o, SubGraphOperation)
        for b in o.bodies.values()
        if isinstance(b.body, KernelBody)
    ]


def step(rows: int | None = 1) -> GraphBody:
    """A recurrent step: h' = tanh(x + h W), y = 2 h' - x."""
    b = uncork.Builder("step")
    x, h = b.parameter("x", "f32", [rows, 24]), b.parameter("h", "f32", [rows, 24])
    (product,) = b.add("MatMul", 1, h, b.constant(WEIGHTS))
    (new,) = b.add("Tanh", 1, b.add("Add", 1, product, x, name="sum")[0])
    (y,) = b.add("Subtract", 1, b.add("Add", 1, new, new)[0], x)
    b.result(new, "new")
    b.result(y, "y")
    return GraphBody(b.model())


def iterator(axis: int = 0) -> uncork.Model:
    """The step over the parts of x along an axis, and the last state."""
    slicing = Slicing(axis)
    inputs = (SlicedInput(0, 0, slicing), BodyInput(1, 1))
    maps = BodyMap(
        step() if axis == 0 else column_step(),
        inputs,
        (JoinedOutput(0, 1, slicing), BodyOutput(1, 0)),
        ((0, 1),),
    )
    b = uncork.Builder("iterator")
    x, h = (
        b.parameter("x", "f32", [None, 24] if axis == 0 else [24, None]),
        b.parameter("h", "f32", [1, 24] if axis == 0 else [24, 1]),
    )
    every, last = b.add_with_bodies("TensorIterator", 1, x, h, bodies={"body": maps})
    b.result(every, "every")
    b.result(last, "last")
    return b.model()


def column_step() -> GraphBody:
    b = uncork.Builder("step")
    x, h = b.parameter("x", "f32", [24, 1]), b.parameter("h", "f32", [24, 1])
    (new,) = b.add("Tanh", 1, b.add("Add", 1, b.add("MatMul", 1, b.constant(WEIGHTS), h)[0], x)[0])
    b.result(new, "new")
    b.result(b.add("Subtract", 1, new, x)[0], "y")
    return GraphBody(b.model())


@pytest.mark.parametrize("axis", [0, 1])
def test_iterations_by_kernels(axis: int) -> None:
    """Along axis 1 the parts are not contiguous."""
    generator = np.random.default_rng(1)

    def draw(n: int) -> np.ndarray:
        return generator.standard_normal((n, 24) if axis == 0 else (24, n)).astype(np.float32)

    compiled = agree(iterator(axis), [(draw(n), draw(1)) for n in (1, 5, 0, 9)])
    (body,) = kernel_bodies(compiled)
    assert body.executor is not None
    assert body.executor.plan().made == 1, "one plan for all iterations of all calls"


def test_the_plan_shows_bodies() -> None:
    compiled = compile_model(iterator())
    for _ in range(2):
        plan = compiled.plan
        assert plan.steps[0].kernel == "bodies"
        assert any("<body> " in s.layer and "_add_tanh_" in s.kernel for s in plan.steps), str(plan)
        compiled(np.ones((3, 24), np.float32), np.ones((1, 24), np.float32))


def test_shapes_that_grow_have_one_plan() -> None:
    """A loop that appends a row in every iteration has other shapes in each."""
    inner = uncork.Builder("grow")
    rows, row = inner.parameter("rows", "f32", [None, 3]), inner.parameter("row", "f32", [1, 3])
    inner.result(
        inner.add("Concat", 1, rows, inner.add("Add", 1, row, row)[0], axis=0)[0], "longer"
    )
    b = uncork.Builder("growing")
    x, row = b.parameter("x", "f32", [None, 3]), b.parameter("row", "f32", [1, 3])
    maps = BodyMap(
        GraphBody(inner.model()), (BodyInput(2, 0), BodyInput(3, 1)), (BodyOutput(0, 0),), ((0, 0),)
    )
    (y,) = b.add_with_bodies(
        "Loop",
        5,
        b.constant(np.int64(30)),
        b.constant(np.array(True)),
        x,
        row,
        bodies={"body": maps},
    )
    b.result(y, "y")
    compiled = agree(
        b.model(), [(np.zeros((n, 3), np.float32), np.ones((1, 3), np.float32)) for n in (0, 40)]
    )
    (body,) = kernel_bodies(compiled)
    assert body.executor is not None
    assert body.executor.plan().made == 1


def test_what_turns_append_to_may_begin_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `out = x[:0]` and `out = torch.cat([out, ..])` are converted: no turn is interpreted."""
    b = uncork.Builder("appending")
    parts, one = b.parameter("parts", "f32", [None, 3]), b.parameter("one", "f32", [1, 3])
    b.result(b.add("Concat", 1, parts, one, axis=0)[0], "parts")
    b.result(b.add("Add", 1, one, b.constant(np.float32(1)))[0], "one")
    taken, given, back = (BodyInput(2, 0), BodyInput(3, 1)), (BodyOutput(0, 0),), ((0, 0), (1, 1))
    maps = BodyMap(GraphBody(b.model()), taken, given, back)
    b = uncork.Builder("model")
    turns, always = b.parameter("turns", "i64", []), b.constant(np.array(True))
    states = b.constant(np.zeros((0, 3), np.float32)), b.parameter("one", "f32", [1, 3])
    b.result(b.add_with_bodies("Loop", 5, turns, always, *states, bodies={"body": maps})[0], "all")
    compiled = compile_model(b.model())

    def none(*_: object) -> None:
        raise AssertionError("interpreted")

    monkeypatch.setattr("uncork.compiler.execute.interpret", none)
    for turns in (3, 1, 5):
        found = compiled(np.int64(turns), np.array([[1, 2, 3]], np.float32))
        np.testing.assert_array_equal(found[0], [[1 + t, 2 + t, 3 + t] for t in range(turns)])


def test_bodies_in_bodies() -> None:
    """If in Loop: |x| halved or doubled by its sign, thirty times."""

    def branch(factor: float) -> GraphBody:
        b = uncork.Builder("branch")
        x = b.parameter("x", "f32", [4])
        b.result(
            b.add(
                "Subtract",
                1,
                b.add("Multiply", 1, x, b.constant(np.float32(factor)))[0],
                b.constant(np.float32(1)),
            )[0],
            "y",
        )
        return GraphBody(b.model())

    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [4])
    (total,) = inner.add("ReduceSum", 1, x, inner.constant(np.array([0])))
    (positive,) = inner.add("Greater", 1, total, inner.constant(np.float32(0)))
    branches = {
        name: BodyMap(branch(f), (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for name, f in (("then_body", 0.5), ("else_body", -2.0))
    }
    inner.result(inner.add_with_bodies("If", 8, positive, x, bodies=branches)[0], "y")
    b = uncork.Builder("outer")
    x = b.parameter("x", "f32", [4])
    maps = BodyMap(GraphBody(inner.model()), (BodyInput(2, 0),), (BodyOutput(0, 0),), ((0, 0),))
    (y,) = b.add_with_bodies(
        "Loop", 5, b.constant(np.int64(30)), b.constant(np.array(True)), x, bodies={"body": maps}
    )
    b.result(y, "y")
    agree(
        b.model(), [(np.array([1, -2, 3, 4], np.float32),), (np.array([-1, -2, 0, 0], np.float32),)]
    )


def test_an_error_in_a_body_names_the_inner_layer() -> None:
    inner = uncork.Builder("body")
    ids = inner.parameter("ids", "i64", [1])
    table, offsets = inner.constant(np.ones((3, 2), np.float32)), inner.constant(np.array([0]))
    inner.result(inner.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bag")[0], "row")
    b = uncork.Builder("outer")
    x = b.parameter("x", "i64", [None])
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, Slicing(0)),),
        (JoinedOutput(0, 0, Slicing(0)),),
    )
    b.result(b.add_with_bodies("TensorIterator", 1, x, bodies={"body": maps})[0], "rows")
    compiled = agree(b.model(), [(np.array([0, 1, 2, 1]),)])
    with pytest.raises(InputError, match=r"layer 'bag' .*indices\[0\] is 7"):
        compiled(np.array([0, 1, 2, 7]))


# ---- variables


def variable(b: uncork.Builder, name: str, shape: Sequence[int | None], start: object = None):
    inputs = [] if start is None else [start]
    return b.add(
        "ReadValue", 6, *inputs, variable_id=name, variable_type="f32", variable_shape=SHAPE(shape)
    )[0]


def test_state_by_kernels() -> None:
    b = uncork.Builder("recurrent")
    x = b.parameter("x", "f32", [1, 24])
    h = variable(b, "h", [1, 24], b.constant(np.full((1, 24), 0.1, np.float32)))
    (new,) = b.add("Tanh", 1, b.add("Add", 1, b.add("MatMul", 1, h, b.constant(WEIGHTS))[0], x)[0])
    b.add("Assign", 6, new, variable_id="h")
    b.result(new, "y")
    b.result(h, "before")
    generator = np.random.default_rng(3)
    compiled = agree(
        b.model(), [(generator.standard_normal((1, 24)).astype(np.float32),) for _ in range(6)]
    )
    assert [s.kernel.split("_")[0] for s in compiled.plan.steps] == ["matmul"], str(compiled.plan)
    x = np.ones((1, 24), np.float32)
    kept = compiled(x)["y"].copy()
    second = compiled(x)
    np.testing.assert_array_equal(second["before"], kept)
    for array in second:
        array[...] = np.nan  # theirs
    assert np.isfinite(compiled(x)["y"]).all()


def test_state_that_grows() -> None:
    """A cache of keys: every call appends a row."""
    b = uncork.Builder("cache")
    x = b.parameter("x", "f32", [1, 3])
    old = variable(b, "cache", [None, 3])
    (new,) = b.add("Concat", 1, old, b.add("Add", 1, x, x)[0], axis=0)
    b.add("Assign", 6, new, variable_id="cache")
    b.result(b.add("ReduceSum", 1, new, b.constant(np.array([0])))[0], "sum")
    compiled = agree(b.model(), [(np.full((1, 3), i, np.float32),) for i in range(8)])
    compiled.reset_state()
    sums = [compiled(np.full((1, 3), i, np.float32))["sum"].tolist() for i in range(8)]
    assert sums == [[i * (i + 1)] * 3 for i in range(8)]


def test_an_initial_value_that_the_model_computes() -> None:
    b = uncork.Builder("computed")
    x = b.parameter("x", "f32", [2])
    old = variable(b, "s", [2], b.add("Negative", 1, x)[0])
    (new,) = b.add("Add", 1, old, x)
    (passed,) = b.add("Assign", 6, new, variable_id="s")
    b.result(b.add("Multiply", 1, passed, x)[0], "y")
    compiled = agree(b.model(), [(np.array([1, 2], np.float32),)] * 3)
    compiled.reset_state()
    assert compiled(np.array([5, 5], np.float32))["y"].tolist() == [0, 0]


def test_variables_that_swap_and_one_that_is_never_assigned() -> None:
    """Both reads give the values from before the call."""
    b = uncork.Builder("swap")
    x = b.parameter("x", "f32", [2])
    first, second = variable(b, "a", [2]), variable(b, "b", [2])
    still = variable(b, "c", [2], b.constant(np.full(2, 7, np.float32)))
    b.add("Assign", 6, second, variable_id="a")
    b.add("Assign", 6, b.add("Add", 1, first, x)[0], variable_id="b")
    for value, name in ((first, "first"), (second, "second"), (still, "still")):
        b.result(value, name)
    agree(b.model(), [(np.array([i, 1], np.float32),) for i in range(6)])


def test_an_input_that_is_assigned_is_copied() -> None:
    b = uncork.Builder("delay")
    x = b.parameter("x", "f32", [2])
    old = variable(b, "x", [2])
    b.add("Assign", 6, x, variable_id="x")
    b.result(old, "before")
    compiled = compile_model(b.model())
    given = np.array([1, 2], np.float32)
    compiled(given)
    given[...] = 9
    before = compiled(given)["before"]
    assert before.tolist() == [1, 2]
    before[...] = 5
    assert compiled(given)["before"].tolist() == [9, 9]


def test_requests_have_states_of_their_own_in_threads() -> None:
    b = uncork.Builder("sum")
    x = b.parameter("x", "f32", [24])
    old = variable(b, "s", [24])
    (new,) = b.add("Add", 1, old, b.add("Multiply", 1, x, x)[0])
    b.add("Assign", 6, new, variable_id="s")
    b.result(new, "sum")
    shared = compile_model(b.model())
    wrong: list[int] = []

    def work(number: int) -> None:
        request = shared.new_request()
        for i in range(50):
            got = request(np.full(24, number, np.float32))["sum"]
            if not (got == number * number * (i + 1)).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
