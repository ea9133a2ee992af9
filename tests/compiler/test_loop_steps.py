"""Loops as steps of segments: what the references give, without a turn or a loop in Python."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler._interrupts import interrupted_after
from tests.compiler.test_turns import add, agree, draw, loop
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)
from uncork.types import PartialShape

TRUE = np.array(True)


def recurrence(
    taken: Slicing, joined: Slicing, *, width: int = 4, static: Sequence[int] | None = None
) -> uncork.Model:
    """A running tanh of the parts of an input plus what an outer product gives: all outputs that a
    turn can have.
    """
    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [None, None, width])
    state = inner.parameter("state", "f32", [None, None, width])
    shift = inner.parameter("shift", "f32", [width])
    new = add(inner, "Tanh", add(inner, "Add", add(inner, "Add", x, state), shift))
    inner.result(new, "new")
    inner.result(add(inner, "Multiply", new, inner.constant(np.float32(2))), "piece")
    inner.result(add(inner, "Unsqueeze", new, inner.constant(np.array([0]))), "turn")
    b = uncork.Builder("iterator")
    data = b.parameter("data", "f32", static or [None, None, width])
    start = b.parameter("start", "f32", [None, None, width])
    shift = add(b, "ReduceSum", start, b.constant(np.array([0, 1])))
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, taken), BodyInput(1, 1), BodyInput(2, 2)),
        (
            BodyOutput(0, 0),
            JoinedOutput(1, 1, joined),
            JoinedOutput(2, 2, Slicing(0)),
            BodyOutput(3, 1),
        ),
        ((0, 1),),
    )
    made = b.add_with_bodies("TensorIterator", 1, data, start, shift, bodies={"body": maps})
    for number, y in enumerate(made):
        b.result(add(b, "Negative", y), f"y{number}")
    return b.model()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("taken", [1, -1])
@pytest.mark.parametrize("joined", [1, -1])
def test_parts_along_any_axis(axis: int, taken: int, joined: int, in_python: list[str]) -> None:
    """Forwards and backwards, contiguous and in runs, between other layers."""

    def along(direction: int) -> Slicing:
        return Slicing(axis) if direction > 0 else Slicing(axis, -1, 0, -1)

    model = recurrence(along(taken), along(joined))
    calls = []
    for turns, other in ((5, 3), (1, 3), (2, 1), (70, 2), (5, 3)):
        sizes = [turns, other] if axis == 0 else [other, turns]
        part = [1, other] if axis == 0 else [other, 1]
        calls.append([draw(*sizes, 4), draw(*part, 4)])
    agree(model, *calls)
    assert not in_python


def test_parts_of_several_elements(in_python: list[str]) -> None:
    """Two columns of a turn from the end, two rows apart."""
    taken, joined = Slicing(1, -1, 0, -3, 2), Slicing(1, part_size=2)
    agree(recurrence(taken, joined, static=[2, 9, 4]), [draw(2, 9, 4), draw(2, 2, 4)])
    assert not in_python
    # Of open sizes only the turns tell that a state keeps those that it begins with.
    model = recurrence(taken, joined)
    agree(model, [draw(2, 9, 4), draw(2, 2, 4)], [draw(3, 3, 4), draw(3, 2, 4)])


def counted(kind: str, condition: bool | None) -> uncork.Model:
    """A Loop whose number of turns is an input; its condition is one too, or the constant `True`.

    `condition` is what the body says: None nothing, else a constant.
    """
    inner = uncork.Builder("body")
    x, number = inner.parameter("x", "f32", [None]), inner.parameter("i", kind, [1])
    new = add(inner, "Add", x, add(inner, "Convert", number, destination_type="f32"))
    inner.result(new, "new")
    inner.result(add(inner, "Unsqueeze", new, inner.constant(np.array([0]))), "piece")
    outputs = [BodyOutput(0, 0), JoinedOutput(1, 1, Slicing(0))]
    if condition is not None:
        inner.result(inner.constant(np.array(condition)), "go on")
        outputs.append(InnerResult(2, purpose="execution_condition"))
    b = uncork.Builder("counted")
    trips, go_on = b.parameter("trips", kind, []), b.parameter("go on", "boolean", [])
    start = b.parameter("start", "f32", [None])
    maps = BodyMap(
        GraphBody(inner.model()),
        (BodyInput(2, 0), TurnNumber(1)),
        tuple(outputs),
        ((0, 0),),
    )
    for n, y in enumerate(b.add_with_bodies("Loop", 5, trips, go_on, start, bodies={"body": maps})):
        b.result(y, f"y{n}")
    return b.model()


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("condition", [None, True])
def test_the_call_says_how_many_turns(
    kind: str, condition: bool | None, in_python: list[str]
) -> None:
    """Also none; the outputs have the sizes that follow."""
    dtype = np.dtype(kind.replace("i", "int"))
    model = counted(kind, condition)
    calls = [
        [np.array(trips, dtype), TRUE, draw(size)]
        for trips, size in ((4, 3), (0, 3), (1, 1), (9, 5), (4, 3))
    ]
    agree(model, *calls)
    assert not in_python
    agree(model, [np.array(3, dtype), np.array(False), draw(2)], *calls)


@pytest.mark.parametrize("stops", [True, False])
def test_a_condition_that_the_body_computes(stops: bool, in_python: list[str]) -> None:
    """Without outputs that are put together; the number of turns is even and odd."""
    inner = uncork.Builder("body")
    x, most = inner.parameter("x", "f32", [None]), inner.parameter("most", "f32", [])
    new = add(inner, "Add", x, inner.constant(np.float32(1)))
    inner.result(new, "new")
    largest = add(inner, "ReduceMax", new, inner.constant(np.array([0])))
    inner.result(add(inner, "Less", largest, most), "go on")
    maps = {
        "inputs": (BodyInput(2, 0), BodyInput(3, 1)),
        "outputs": (BodyOutput(0, 0), InnerResult(1, purpose="execution_condition")),
        "back_edges": ((0, 0),),
    }
    model = loop(inner, maps, np.int64(-1 if stops else 7), [None], [])
    agree(model, *[[np.zeros(3, np.float32), np.float32(most).reshape(())] for most in (3, 8, 0)])
    assert not in_python


def test_loops_and_branches_in_loops(in_python: list[str]) -> None:
    """All of it is one native call, which sizes that change go through."""
    deep = uncork.Builder("deep")
    x, y = deep.parameter("x", "f32", [None]), deep.parameter("y", "f32", [None])
    deep.result(add(deep, "Tanh", add(deep, "Add", x, y)), "z")
    branches = {}
    for name, kind in (("then_body", "Negative"), ("else_body", "Exp")):
        b = uncork.Builder(name)
        b.result(add(b, kind, b.parameter("x", "f32", [None])), "y")
        branches[name] = BodyMap(GraphBody(b.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    inner = uncork.Builder("inner")
    x, part = inner.parameter("x", "f32", [None]), inner.parameter("part", "f32", [1, None])
    part = add(inner, "Squeeze", part, inner.constant(np.array([0])))
    maps = BodyMap(
        GraphBody(deep.model()), (BodyInput(2, 0), BodyInput(3, 1)), (BodyOutput(0, 0),), ((0, 0),)
    )
    sources = [inner.constant(np.int64(3)), inner.constant(TRUE), x, part]
    y = inner.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})[0]
    above = add(
        inner,
        "Greater",
        add(inner, "ReduceMax", y, inner.constant(np.array([0]))),
        inner.constant(np.float32(0.5)),
    )
    y = inner.add_with_bodies("If", 8, above, y, bodies=branches)[0]
    inner.result(y, "y")
    inner.result(add(inner, "Unsqueeze", y, inner.constant(np.array([0]))), "row")
    b = uncork.Builder("nested")
    data, start = b.parameter("data", "f32", [None, None]), b.parameter("start", "f32", [None])
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 1, Slicing(0)), BodyInput(1, 0)),
        (BodyOutput(0, 0), JoinedOutput(1, 1, Slicing(0))),
        ((0, 0),),
    )
    made = b.add_with_bodies("TensorIterator", 1, data, start, bodies={"body": maps})
    b.result(made[0], "last")
    b.result(add(b, "Unsqueeze", made[1], b.constant(np.array([0]))), "every")
    model = b.model()
    fast = agree(model, *[[draw(t, n), draw(n)] for t, n in ((4, 6), (1, 6), (3, 2), (9, 31))])
    assert not in_python
    kernels = {step.operation: step.kernel for step in fast.plan.steps}
    assert kernels["TensorIterator-1"] == kernels["Loop-5"] == kernels["If-8"] == "bodies"


def test_sizes_that_a_body_has_several_plans_for(in_python: list[str]) -> None:
    """Parts that are stretched, and a state that is: what the first turn takes has other sizes than
    what later ones do.
    """
    model = recurrence(Slicing(1), Slicing(1))
    wide = [draw(3, 5, 4), draw(3, 1, 4)]
    agree(model, wide, [draw(3, 5, 4), draw(1, 1, 4)], wide, [draw(1, 5, 4), draw(3, 1, 4)], wide)
    compiled = compile_model(model)
    with pytest.raises(InputError, match=r"Add.*expected shapes that fit by numpy broadcasting"):
        compiled(draw(3, 5, 4), draw(2, 1, 4))
    del in_python[:]
    assert compiled(*wide)[0].shape == (3, 1, 4)
    assert not in_python


def endless() -> uncork.Model:
    """Ends where an input is no number, or some turns after it."""
    inner = uncork.Builder("body")
    x, most = inner.parameter("x", "f32", []), inner.parameter("most", "f32", [])
    new = add(inner, "Add", x, inner.constant(np.float32(1)))
    inner.result(new, "new")
    inner.result(add(inner, "Less", new, most), "go on")
    maps = {
        "inputs": (BodyInput(2, 0), BodyInput(3, 1)),
        "outputs": (BodyOutput(0, 0), InnerResult(1, purpose="execution_condition")),
        "back_edges": ((0, 0),),
    }
    return loop(inner, maps, np.int64(-1), [], [])


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def test_a_signal_ends_a_long_loop(in_python: list[str]) -> None:
    """What its handler raises is raised; other threads run meanwhile, and may call the model."""
    compiled = compile_model(endless())
    compiled(scalar(0), scalar(3))
    others: list[float] = []

    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    def forever(other: threading.Thread) -> None:
        other.start()
        compiled(scalar(0), scalar(np.inf))

    def call() -> None:
        others.append(float(compiled(scalar(0), scalar(5))[0]))
        signal.pthread_kill(main, signal.SIGALRM)

    main = threading.get_ident()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(3):
            thread = threading.Thread(target=call)
            with pytest.raises(Interrupted):
                forever(thread)
            thread.join()
            np.testing.assert_array_equal(compiled(scalar(0), scalar(4))[0], 4)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert others == [5, 5, 5]
    assert not in_python


def test_a_limit_is_told_of_a_step() -> None:
    compiled = compile_model(endless(), loop_limit=1000)
    assert compiled(scalar(0), scalar(1000))[0] == 1000
    for _ in range(2):
        with pytest.raises(InputError, match="still running after 1000 iterations, the limit"):
            compiled(scalar(0), scalar(np.inf))
    assert compiled(scalar(0), scalar(1000))[0] == 1000


def test_a_state_stays_when_a_loop_is_interrupted() -> None:
    """A variable counts calls; one in which a loop is interrupted does not count."""
    inner = uncork.Builder("body")
    x, most = inner.parameter("x", "f32", [1]), inner.parameter("most", "f32", [1])
    new = add(inner, "Add", x, inner.constant(np.float32(1)))
    inner.result(new, "new")
    inner.result(add(inner, "Less", new, most), "go on")
    b = uncork.Builder("counts")
    most = b.parameter("most", "f32", [1])
    state = {"variable_id": "v", "variable_shape": PartialShape([1]), "variable_type": "f32"}
    value = add(b, "ReadValue", b.constant(np.zeros(1, np.float32)), opset=6, **state)
    count = add(b, "Add", value, b.constant(np.ones(1, np.float32)))
    b.add("Assign", 6, count, variable_id="v")
    maps = BodyMap(
        GraphBody(inner.model()),
        (BodyInput(2, 0), BodyInput(3, 1)),
        (BodyOutput(0, 0), InnerResult(1, purpose="execution_condition")),
        ((0, 0),),
    )
    sources = [b.constant(np.int64(-1)), b.constant(TRUE), count, most]
    b.result(b.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})[0], "y")
    compiled = compile_model(b.model())
    three = np.array([3], np.float32)
    assert compiled(three)[0] == [3]
    with interrupted_after(0.1):
        compiled(np.array([np.inf], np.float32))
    (variable,) = compiled.query_state()
    assert variable.state == [1]
    assert compiled(np.zeros(1, np.float32))[0] == [3], "the second call that counts, and one turn"
