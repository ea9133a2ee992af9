"""Branches of If layers whose conditions follow from sizes: they are layers of the plan.

Expected values are worked out by NumPy from what the branches say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
)

pytest.importorskip("llvmlite")

Build = Callable[[uncork.Builder, list[Source]], Sequence[Source]]
OPEN = (None, None)


def branch(build: Build, shapes: Sequence[Sequence[int | None]] = (OPEN,)) -> BodyMap:
    """A body of inputs of these shapes, which are the second input of the If and those behind."""
    b = uncork.Builder("branch")
    given = [b.parameter(f"p{n}", "f32", shape) for n, shape in enumerate(shapes)]
    results = build(b, given)
    for n, result in enumerate(results):
        b.result(result, f"r{n}")
    return BodyMap(
        GraphBody(b.model()),
        tuple(BodyInput(1 + n, n) for n in range(len(shapes))),
        tuple(BodyOutput(n, n) for n in range(len(results))),
    )


def squeezed(b: uncork.Builder, given: list[Source]) -> list[Source]:
    return b.add("Squeeze", 1, given[0], b.constant(np.array([1])))


def relu(b: uncork.Builder, given: list[Source]) -> list[Source]:
    return b.add("ReLU", 1, given[0])


def add_if(
    b: uncork.Builder, condition: Source, inputs: Sequence[Source], then: BodyMap, other: BodyMap
) -> list[Source]:
    bodies = {"then_body": then, "else_body": other}
    return b.add_with_bodies("If", 8, condition, *inputs, bodies=bodies)


def size_of(b: uncork.Builder, x: Source, axis: int) -> Source:
    (shape,) = b.add("ShapeOf", 3, x)
    index, zero = b.constant(np.array(axis)), b.constant(np.array(0))
    return b.add("Gather", 8, shape, index, zero)[0]


def compared(b: uncork.Builder, how: str, x: Source, axis: int, number: int) -> Source:
    return b.add(how, 1, size_of(b, x, axis), b.constant(np.array(number)))[0]


def steps(compiled: uncork.CompiledModel) -> list[str]:
    return [step.operation.partition("-")[0] for step in compiled.plan.steps]


def arange(*shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32) - size / 3).reshape(shape)


@pytest.fixture(params=[1, 2], ids=["threads=1", "threads=2"])
def threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_both_answers_in_turn(threads: int) -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    (y,) = add_if(b, compared(b, "Equal", x, 1, 1), [x], branch(squeezed), branch(relu))
    b.result(y, "y")
    compiled = uncork.compile_model(b.model(), threads=threads)
    for shape in ((4, 1), (4, 3), (2, 1), (1, 1), (1, 7), (5, 1), (0, 1), (0, 2), (3, 0)):
        given = arange(*shape)
        expected = given[:, 0] if shape[1] == 1 else np.maximum(given, 0)
        np.testing.assert_array_equal(compiled(given)["y"], expected)
        if given.size:
            assert "If" not in steps(compiled)
    assert len(compiled.executor.call_plans()) >= 2


def test_the_plan_says_what_runs_and_what_it_supposes() -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    (y,) = add_if(b, compared(b, "Equal", x, 1, 1), [x], branch(squeezed), branch(relu))
    b.result(y, "y")
    compiled = uncork.compile_model(b.model())
    one, more = str(compiled.plan_for(x=[None, 1])), str(compiled.plan_for(x=[None, 3]))
    assert "<then_body> Squeeze" in one and "x_1 == 1" in one
    assert "<else_body> ReLU" in more and "x_1 != 1" in more


@pytest.mark.parametrize("how", ["Less", "LessEqual", "Greater", "GreaterEqual", "NotEqual"])
def test_every_question_of_sizes(how: str) -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    (y,) = add_if(
        b, compared(b, how, x, 0, 3), [x],
        branch(relu), branch(lambda b, g: b.add("Negative", 1, g[0])),
    )  # fmt: skip
    b.result(y, "y")
    compiled = uncork.compile_model(b.model())
    holds = {
        "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater,
        "GreaterEqual": np.greater_equal, "NotEqual": np.not_equal,
    }[how]  # fmt: skip
    for rows in (2, 3, 4, 3, 2):
        given = arange(rows, 2)
        expected = np.maximum(given, 0) if holds(rows, 3) else -given
        np.testing.assert_array_equal(compiled(given)["y"], expected)
        assert "If" not in steps(compiled)


def test_ifs_in_branches_and_behind_each_other() -> None:
    """Squeezed for one column; else doubled for two rows, else as it is. Then a sum of rows where
    there are more than two columns.
    """
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)

    def inner(b: uncork.Builder, given: list[Source]) -> list[Source]:
        two = compared(b, "Equal", given[0], 0, 2)
        doubled = branch(lambda b, g: b.add("Add", 1, g[0], g[0]))
        return add_if(b, two, given, doubled, branch(lambda b, g: [g[0]]))

    def keep(b: uncork.Builder, given: list[Source]) -> list[Source]:
        return b.add("Unsqueeze", 1, squeezed(b, given)[0], b.constant(np.array([1])))

    (y,) = add_if(b, compared(b, "Equal", x, 1, 1), [x], branch(keep), branch(inner))
    rows = branch(
        lambda b, g: b.add("ReduceSum", 1, g[0], b.constant(np.array([0])), keep_dims=True)
    )
    (z,) = add_if(b, compared(b, "Greater", y, 1, 2), [y], rows, branch(relu))
    b.result(z, "z")
    compiled = uncork.compile_model(b.model())
    for shape in ((3, 1), (2, 2), (2, 3), (4, 3), (3, 2), (2, 1), (1, 1), (2, 2)):
        given = arange(*shape)
        y_ = given if shape[1] == 1 else 2 * given if shape[0] == 2 else given
        expected = y_.sum(0, keepdims=True) if shape[1] > 2 else np.maximum(y_, 0)
        np.testing.assert_allclose(compiled(given)["z"], expected, rtol=1e-6)
        assert "If" not in steps(compiled)


def test_several_inputs_and_outputs() -> None:
    """Outputs that are an input, a constant, one tensor twice."""
    b = uncork.Builder()
    x, w = b.parameter("x", "f32", OPEN), b.parameter("w", "f32", OPEN)
    seven = np.full((2, 2), 7, np.float32)

    def then(b: uncork.Builder, given: list[Source]) -> list[Source]:
        (total,) = b.add("Add", 1, given[0], given[1])
        return [total, given[0], total, b.constant(seven)]

    def other(b: uncork.Builder, given: list[Source]) -> list[Source]:
        (product,) = b.add("Multiply", 1, given[0], given[1])
        return [given[1], product, given[1], product]

    both = (OPEN, OPEN)
    (same,) = b.add("Equal", 1, size_of(b, x, 0), size_of(b, w, 0))
    outputs = add_if(b, same, [x, w], branch(then, both), branch(other, both))
    for n, output in enumerate(outputs):
        b.result(output, f"y{n}")
    compiled = uncork.compile_model(b.model())
    for first, second in ((3, 3), (3, 1), (1, 4), (2, 2)):
        x_, w_ = arange(first, 2), arange(second, 2) + 1
        x_before = x_.copy()
        if first == second:
            expected = [x_ + w_, x_, x_ + w_, seven]
        else:
            expected = [w_, x_ * w_, w_, x_ * w_]
        found = compiled(x_, w_)
        for n, value in enumerate(expected):
            np.testing.assert_array_equal(found[f"y{n}"], value)
        found["y1"][:] = -5  # results are the caller's own
        np.testing.assert_array_equal(x_, x_before)
        assert "If" not in steps(compiled)


def test_a_condition_of_data_stays_a_step() -> None:
    b = uncork.Builder()
    x, c = b.parameter("x", "f32", OPEN), b.parameter("c", "boolean", [])
    b.result(add_if(b, c, [x], branch(squeezed), branch(squeezed))[0], "y")
    n = b.parameter("n", "i64", [])
    (big,) = b.add("Greater", 1, n, b.constant(np.array(5)))
    b.result(add_if(b, big, [x], branch(relu), branch(lambda b, g: [g[0]]))[0], "z")
    compiled = uncork.compile_model(b.model())
    given = arange(3, 1)
    for condition in (True, False):
        for number in (4, 6):
            found = compiled(given, np.array(condition), np.array(number))
            np.testing.assert_array_equal(found["y"], given[:, 0])
            np.testing.assert_array_equal(found["z"], np.maximum(given, 0) if number > 5 else given)
    assert sum(step.operation.startswith("If") for step in compiled.plan.steps) == 2
    assert len(compiled.executor.call_plans()) == 1


def test_a_constant_condition() -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    b.result(add_if(b, b.constant(np.array(False)), [x], branch(squeezed), branch(relu))[0], "y")
    compiled = uncork.compile_model(b.model())
    np.testing.assert_array_equal(compiled(arange(2, 3))["y"], np.maximum(arange(2, 3), 0))
    assert "If" not in steps(compiled)


def test_what_a_body_says_of_its_parameters_is_demanded() -> None:
    """In the words that the body has."""
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    then = branch(relu, [(None, 4)])
    b.result(add_if(b, compared(b, "Equal", x, 0, 2), [x], then, branch(relu))[0], "y")
    compiled = uncork.compile_model(b.model())
    for shape in ((2, 4), (3, 5), (2, 4)):
        np.testing.assert_array_equal(compiled(arange(*shape))["y"], np.maximum(arange(*shape), 0))
    for _ in range(2):
        with pytest.raises(uncork.UncorkError, match=r"expected f32\[\?,4\], got f32\[2,5\]"):
            compiled(arange(2, 5))
    np.testing.assert_array_equal(compiled(arange(2, 4))["y"], np.maximum(arange(2, 4), 0))


def test_sizes_found_in_branches() -> None:
    """How many elements are not 0 is known to nobody before; an If behind asks for it."""
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)

    def places(b: uncork.Builder, given: list[Source]) -> list[Source]:
        (found,) = b.add("NonZero", 3, given[0], output_type="i64")
        return b.add("Convert", 1, found, destination_type="f32")

    (y,) = add_if(b, compared(b, "Greater", x, 1, 1), [x], branch(places), branch(relu))
    (z,) = add_if(b, compared(b, "Equal", y, 1, 2), [y], branch(relu), branch(
        lambda b, g: b.add("Negative", 1, g[0])))  # fmt: skip
    b.result(z, "z")
    compiled = uncork.compile_model(b.model())
    for data in ([[1, 0], [0, 2]], [[1, 1], [1, 0]], [[3], [4]], [[0, 0, 5]], [[0, 2], [3, 0]]):
        given = np.array(data, np.float32)
        y_ = np.stack(np.nonzero(given)).astype("f") if given.shape[1] > 1 else given
        expected = y_ if y_.shape[1] == 2 else -y_
        np.testing.assert_array_equal(compiled(given)["z"], expected)


def test_in_a_loop() -> None:
    """Each turn adds the rows of a slice; of one column it takes them as they are."""
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    inner = uncork.Builder("body")
    part = inner.parameter("part", "f32", [1, None])
    (y,) = add_if(
        inner, compared(inner, "Equal", part, 1, 1), [part],
        branch(lambda b, g: b.add("Negative", 1, g[0])), branch(relu),
    )  # fmt: skip
    inner.result(y, "y")
    inner.result(inner.constant(np.array(True)), "go on")

    body = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(2, 0, Slicing(0)),),
        (JoinedOutput(0, 0, Slicing(0)), InnerResult(1, purpose="execution_condition")),
    )
    (z,) = b.add_with_bodies(
        "Loop", 5, size_of(b, x, 0), b.constant(np.array(True)), x, bodies={"body": body}
    )
    b.result(z, "z")
    compiled = uncork.compile_model(b.model())
    for shape in ((3, 1), (2, 4), (5, 1), (4, 2)):
        given = arange(*shape)
        expected = -given if shape[1] == 1 else np.maximum(given, 0)
        np.testing.assert_array_equal(compiled(given)["z"], expected)


def test_the_size_of_a_variable() -> None:
    """All rows so far: their sum where there are more than three, else their negatives."""
    b = uncork.Builder()
    x = b.parameter("x", "f32", [None, 2])
    v = {"variable_id": "v", "variable_type": "f32"}
    shape = uncork.PartialShape([None, 2])
    nothing = b.constant(np.zeros((0, 2), np.float32))
    (before,) = b.add("ReadValue", 6, nothing, variable_shape=shape, **v)
    (rows,) = b.add("Concat", 1, before, x, axis=0)
    b.add("Assign", 6, rows, variable_id="v")
    total = branch(
        lambda b, g: b.add("ReduceSum", 1, g[0], b.constant(np.array([0])), keep_dims=True)
    )
    negative = branch(lambda b, g: b.add("Negative", 1, g[0]))
    b.result(add_if(b, compared(b, "Greater", rows, 0, 3), [rows], total, negative)[0], "y")
    compiled = uncork.compile_model(b.model())
    for _ in range(2):
        given = np.zeros((0, 2), np.float32)
        for count in (1, 1, 2, 1, 1):
            new = arange(count, 2) + len(given)
            given = np.concatenate([given, new])
            expected = given.sum(0, keepdims=True) if len(given) > 3 else -given
            np.testing.assert_allclose(compiled(new)["y"], expected, rtol=1e-6)
        compiled.reset_state()
    assert "If" not in steps(compiled)


def test_variables_in_branches_stay_there() -> None:
    """A body begins each of its runs with the initial values."""

    def counting(step: float) -> Build:
        def build(b: uncork.Builder, given: list[Source]) -> list[Source]:
            shape = uncork.PartialShape([1, 1])
            zero = b.constant(np.zeros((1, 1), np.float32))
            v = {"variable_id": "v", "variable_type": "f32", "variable_shape": shape}
            (before,) = b.add("ReadValue", 6, zero, **v)
            (after,) = b.add("Add", 1, before, b.constant(np.full((1, 1), step, np.float32)))
            b.add("Assign", 6, after, variable_id="v")
            return b.add("Add", 1, given[0], after)

        return build

    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    one = compared(b, "Equal", x, 1, 1)
    b.result(add_if(b, one, [x], branch(counting(1)), branch(counting(10)))[0], "y")
    compiled = uncork.compile_model(b.model())
    for columns, expected in ((1, 1), (1, 1), (2, 10), (1, 1)):
        assert set(compiled(np.zeros((1, columns), np.float32))["y"].ravel()) == {expected}
    assert "If" in steps(compiled)


def test_the_least_size_that_a_body_says_is_demanded() -> None:
    """x without its first column, of which the branch wants one at least."""
    b = uncork.Builder()
    x = b.parameter("x", "f32", OPEN)
    one, end = b.constant(np.array([1])), b.constant(np.array([2**31 - 1]))
    (rest,) = b.add("Slice", 8, x, one, end, one, one)
    wants = uncork.PartialShape([None, uncork.Dimension(1)])
    (y,) = add_if(b, compared(b, "Less", x, 0, 9), [rest], branch(relu, [wants]), branch(relu))
    b.result(y, "y")
    compiled = uncork.compile_model(b.model())
    for shape in ((4, 3), (2, 2)):
        given = arange(*shape)
        np.testing.assert_array_equal(compiled(given)["y"], np.maximum(given[:, 1:], 0))
        assert "If" not in steps(compiled)
    with pytest.raises(uncork.UncorkError):
        compiled(arange(4, 1))
    np.testing.assert_array_equal(compiled(arange(9, 1))["y"], arange(9, 0))


def test_a_branch_that_does_not_take_the_sizes_of_a_call_leaves_the_other_its_plan() -> None:
    """The condition is data; the first branch takes matrices, and what is one when squeezed."""
    b = uncork.Builder()
    x, chosen = b.parameter("x", "f32", [None] * 3), b.parameter("chosen", "boolean", [])

    def matrix(b: uncork.Builder, given: list[Source]) -> list[Source]:
        one = compared(b, "Equal", given[0], 2, 1)
        drops = branch(
            lambda b, g: b.add("Squeeze", 1, g[0], b.constant(np.array([2]))), [[None] * 3]
        )
        (y,) = add_if(b, one, given, drops, branch(lambda b, g: [g[0]], [[None] * 3]))
        return b.add("Transpose", 1, y, b.constant(np.array([1, 0])))

    bodies = branch(matrix, [[None] * 3]), branch(relu, [[None] * 3])
    b.result(add_if(b, chosen, [x], *bodies)[0], "y")
    compiled = uncork.compile_model(b.model())
    for _ in range(2):
        whole, thin = arange(2, 3, 4), arange(2, 3, 1)
        np.testing.assert_array_equal(compiled(whole, np.bool_(False))["y"], np.maximum(whole, 0))
        np.testing.assert_array_equal(compiled(thin, np.bool_(True))["y"], thin[:, :, 0].T)
        np.testing.assert_array_equal(compiled(thin, np.bool_(False))["y"], np.maximum(thin, 0))
        with pytest.raises(uncork.UncorkError, match="input_order"):
            compiled(whole, np.bool_(True))
    assert len(compiled.executor.call_plans()) == 2
