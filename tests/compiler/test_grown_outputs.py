"""Loops that end when their bodies say so and put outputs together: without a loop in Python."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests._openvino import OpenVino
from tests.compiler._interrupts import interrupted_after
from tests.compiler.test_turns import add, agree, draw
from uncork.compiler import step_bodies
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.kernels.runtime.loop_layout import KEPT_ROOM
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

FORWARD, BACKWARD = Slicing(0), Slicing(0, -1, 0, -1)
Array = Any


def doubling(
    *ways: Slicing, shape: Sequence[int | None] = (1, None), trips: int | None = -1
) -> uncork.Model:
    """Doubles a tensor while the largest element is below an input: the outputs are the last value,
    and for each way of joining those of all turns. Without `trips` the call says how many there are
    at most, and whether there is one at all.
    """
    inner = uncork.Builder("body")
    x = inner.parameter("x", "f32", [None] * len(shape))
    most = inner.parameter("most", "f32", [])
    new = add(inner, "Add", x, x)
    inner.result(new, "new")
    axes = inner.constant(np.arange(len(shape)))
    inner.result(add(inner, "Less", add(inner, "ReduceMax", new, axes), most), "go on")
    b = uncork.Builder("doubling")
    if trips is None:
        limits = [b.parameter("trips", "i64", []), b.parameter("go on", "boolean", [])]
    else:
        limits = [b.constant(np.int64(trips)), b.constant(np.array(True))]
    start, limit = b.parameter("start", "f32", shape), b.parameter("most", "f32", [])
    maps = BodyMap(
        GraphBody(inner.model()),
        (BodyInput(2, 0), BodyInput(3, 1)),
        (
            BodyOutput(0, 0),
            InnerResult(1, purpose="execution_condition"),
            *(JoinedOutput(port, 0, way) for port, way in enumerate(ways, 1)),
        ),
        ((0, 0),),
    )
    made = b.add_with_bodies("Loop", 5, *limits, start, limit, bodies={"body": maps})
    for number, y in enumerate(made):
        b.result(y, f"y{number}")
    return b.model()


def scalar(value: float) -> Array:
    return np.array(value, np.float32)


def turns_of(start: Array, most: float, trips: float = np.inf) -> list[Array]:
    """What the turns give, by hand."""
    values: list[Array] = []
    while len(values) < trips and (not values or values[-1].max() < most):
        values.append((values[-1] if values else start) * 2)
    return values


def test_outputs_have_a_part_of_each_turn(in_python: list[str]) -> None:
    """Forwards and backwards, of one turn, of few, and again of one."""
    compiled = compile_model(doubling(FORWARD, BACKWARD))
    for width, most in ((3, 100), (3, 1), (1, 7), (5, 1e30), (3, 100)):
        start = np.abs(draw(1, width)) + 1
        wanted = turns_of(start, most)
        last, forward, backward = compiled(start, scalar(most))
        np.testing.assert_array_equal(last, wanted[-1])
        np.testing.assert_array_equal(forward, np.concatenate(wanted))
        np.testing.assert_array_equal(backward, np.concatenate(wanted[::-1]))
    assert not in_python


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2])
def test_parts_along_any_axis(axis: int, size: int, in_python: list[str]) -> None:
    """Several elements of an axis in a part, and parts that do not lie behind each other."""
    sizes = [3, 5, 4]
    sizes[axis] = size
    ways = Slicing(axis, part_size=size), Slicing(axis, -1, 0, -size, size)
    shape: list[int | None] = [None] * 3
    shape[axis] = size
    compiled = compile_model(doubling(*ways, shape=shape))
    start = np.abs(draw(*sizes)) + 1
    for most in (50, 1, 1000):
        wanted = turns_of(start, most)
        _, forward, backward = compiled(start, scalar(most))
        np.testing.assert_array_equal(forward, np.concatenate(wanted, axis))
        np.testing.assert_array_equal(backward, np.concatenate(wanted[::-1], axis))
    assert not in_python


def test_a_limit_of_turns_and_no_turn_at_all(in_python: list[str]) -> None:
    """The outputs are empty then, and the last value is the first."""
    compiled = compile_model(doubling(FORWARD, trips=None))
    start = np.ones((1, 2), np.float32)
    for trips, most, begins in (
        (4, 1e9, True), (-1, 50, True), (3, 5, True), (0, 9, True), (7, 9, False), (5, 9, True)
    ):  # fmt: skip
        wanted = turns_of(start, most, (np.inf if trips < 0 else trips) if begins else 0)
        last, every = compiled(np.array(trips), np.array(begins), start, scalar(most))
        np.testing.assert_array_equal(last, wanted[-1] if wanted else start)
        np.testing.assert_array_equal(every, np.concatenate([np.empty((0, 2)), *wanted]))
        assert every.dtype == np.float32
    assert not in_python


def counting(width: int, sliced: bool = False, steps: bool = False) -> uncork.Model:
    """Rows of the numbers 1, 2, .. up to an input, of so many columns. With `sliced` the turns look
    at the parts of another input, and with `steps` at the row of a table that their number says.
    """
    inner = uncork.Builder("body")
    x, most = inner.parameter("x", "f32", [1, width]), inner.parameter("most", "f32", [])
    new = add(inner, "Add", x, inner.constant(np.float32(1)))
    inner.result(new, "new")
    axes = inner.constant(np.array([0, 1]))
    inner.result(add(inner, "Less", add(inner, "ReduceMax", new, axes), most), "go on")
    row = new
    inputs = [BodyInput(2, 0), BodyInput(3, 1)]
    if sliced:
        inputs.append(SlicedInput(4, 2, Slicing(0)))
        row = add(inner, "Add", new, inner.parameter("part", "f32", [1, width]))
    if steps:
        inputs += BodyInput(4, 2), TurnNumber(3)
        table = inner.parameter("table", "f32", [None, width])
        number = inner.parameter("number", "i64", [1])
        bag = add(inner, "Unsqueeze", number, inner.constant(np.array([0])))
        found = add(inner, "EmbeddingBagPackedSum", table, bag, opset=3)
        row = add(inner, "Add", new, found)
    inner.result(row, "row")
    b = uncork.Builder("counting")
    given = [b.parameter("start", "f32", [1, width]), b.parameter("most", "f32", [])]
    if sliced or steps:
        given.append(b.parameter("data", "f32", [None, width]))
    maps = BodyMap(
        GraphBody(inner.model()),
        tuple(inputs),
        (
            InnerResult(1, purpose="execution_condition"),
            JoinedOutput(0, 2, FORWARD),
            JoinedOutput(1, 2, Slicing(1, part_size=width)),
        ),
        ((0, 0),),
    )
    sources = [b.constant(np.int64(-1)), b.constant(np.array(True)), *given]
    made = b.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})
    for number_, y in enumerate(made):
        b.result(add(b, "Negative", y), f"y{number_}")
    return b.model()


def numbers(turns: int) -> Array:
    return np.arange(1, turns + 1, dtype=np.float32)[:, None]


@pytest.mark.parametrize("turns", [1, 63, 64, 65, 5000])
def test_rooms_grow_and_are_given_back(turns: int, in_python: list[str]) -> None:
    compiled = compile_model(counting(1024))
    start = np.zeros((1, 1024), np.float32)
    wanted = np.repeat(-np.arange(1, turns + 1, dtype=np.float32)[:, None], 1024, 1)
    for _ in range(2):
        rows, columns = compiled(start, scalar(turns))
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(columns, wanted.reshape(1, -1))
    kept = compiled.plan.working_bytes
    assert kept is not None and 2 * wanted.nbytes <= kept < 100_000 + 7 * wanted.nbytes
    compiled.release_memory()
    assert compiled.plan.working_bytes in (0, None)
    np.testing.assert_array_equal(compiled(start, scalar(2))[0], wanted[:2] if turns > 1 else
                                  -np.repeat(np.float32([[1], [2]]), 1024, 1))  # fmt: skip
    assert not in_python


def test_other_layers_stand_before_and_behind(in_python: list[str]) -> None:
    """All of it is one native call: sizes that the loop finds go on."""
    b = uncork.Builder("around")
    model = doubling(FORWARD)
    (loop,) = [node for node in model.nodes if node.type_name == "Loop"]
    x, most = b.parameter("x", "f32", [None, None]), b.parameter("most", "f32", [])
    start = add(b, "ReduceMax", x, b.constant(np.array([0])), keep_dims=True)
    sources = [b.constant(np.int64(-1)), b.constant(np.array(True)), start, most]
    _, every = b.add_with_bodies("Loop", 5, *sources, bodies=loop.operation.bodies)
    b.result(add(b, "ReduceSum", every, b.constant(np.array([0]))), "sum")
    b.result(add(b, "Transpose", every, b.constant(np.array([1, 0]))), "turned")
    b.result(b.add("ShapeOf", 3, every, output_type="i64")[0], "shape")
    compiled = compile_model(b.model())
    for rows, width, limit in ((4, 3, 50), (1, 7, 3), (9, 3, 1000)):
        data = np.abs(draw(rows, width)) + 1
        wanted = np.concatenate(turns_of(data.max(0, keepdims=True), limit))
        total, turned, shape = compiled(data, scalar(limit))
        np.testing.assert_allclose(total, wanted.sum(0), rtol=1e-6)
        np.testing.assert_array_equal(turned, wanted.T)
        assert list(shape) == list(wanted.shape)
    assert not in_python


def test_parts_that_run_out_are_told(in_python: list[str]) -> None:
    """A loop that ends before them needs no more."""
    compiled = compile_model(counting(3, sliced=True))
    start, data = np.zeros((1, 3), np.float32), draw(4, 3)
    for turns in (2, 4, 1):
        rows, _ = compiled(start, scalar(turns), data)
        np.testing.assert_array_equal(rows, -(data[:turns] + numbers(turns)))
    assert not in_python
    for _ in range(2):
        with pytest.raises(InputError, match=r"Loop-5.*iteration 4 has no slice: the axis of 4"):
            compiled(start, scalar(9), data)
    rows, _ = compiled(start, scalar(3), data)
    np.testing.assert_array_equal(rows, -(data[:3] + numbers(3)))


def test_an_error_in_a_turn_is_that_of_the_references(in_python: list[str]) -> None:
    """A turn looks up a row that the table has not; the model is usable afterwards."""
    model = counting(2, steps=True)
    compiled, slow = compile_model(model), compile_model(model, backend="reference")
    start, table = np.zeros((1, 2), np.float32), draw(3, 2)
    for _ in range(2):
        messages, told = [], r"layer 'EmbeddingBag.*is 3, .*\(in iteration 3\)$"
        for each in (compiled, slow):
            with pytest.raises(InputError, match=told) as refused:
                each(start, scalar(9), table)
            messages.append(str(refused.value))
        assert messages[0] == messages[1]
        rows, _ = compiled(start, scalar(3), table)
        np.testing.assert_array_equal(rows, -(table + numbers(3)))


def test_an_endless_loop_is_refused_by_its_limit() -> None:
    compiled = compile_model(counting(2), loop_limit=100)
    start = np.zeros((1, 2), np.float32)
    assert compiled(start, scalar(100))[0].shape == (100, 2)
    for _ in range(2):
        with pytest.raises(InputError, match="still running after 100 iterations, the limit"):
            compiled(start, scalar(np.inf))
    assert compiled(start, scalar(100))[1].shape == (1, 200)


def test_outputs_beyond_the_memory_of_a_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python makes such a loop, or refuses it."""
    monkeypatch.setattr(step_bodies, "room_bytes", lambda plan: 50_000)
    compiled = compile_model(counting(2))
    start = np.zeros((1, 2), np.float32)
    wanted = -np.arange(1, 20_001, dtype=np.float32)
    np.testing.assert_array_equal(compiled(start, scalar(100))[0][:, 0], wanted[:100])
    np.testing.assert_array_equal(compiled(start, scalar(20_000))[0][:, 0], wanted)
    monkeypatch.setattr("uncork.ops._turns.available", lambda: (50_000, "this machine's memory"))
    with pytest.raises(InputError, match=r"Loop-5.*: its outputs need .* iterations, more than"):
        compiled(start, scalar(np.inf))
    np.testing.assert_array_equal(compiled(start, scalar(100))[0][:, 0], wanted[:100])


def test_a_signal_ends_an_endless_loop(in_python: list[str]) -> None:
    """Its outputs grow until then; the state stays as it was before the call."""
    b = uncork.Builder("counts")
    most = b.parameter("most", "f32", [])
    state = {"variable_id": "v", "variable_shape": PartialShape([1, 1]), "variable_type": "f32"}
    value = add(b, "ReadValue", b.constant(np.zeros((1, 1), np.float32)), opset=6, **state)
    count = add(b, "Add", value, b.constant(np.ones((1, 1), np.float32)))
    b.add("Assign", 6, count, variable_id="v")
    (loop,) = [node for node in counting(1).nodes if node.type_name == "Loop"]
    sources = [b.constant(np.int64(-1)), b.constant(np.array(True)), count, most]
    rows, _ = b.add_with_bodies("Loop", 5, *sources, bodies=loop.operation.bodies)
    b.result(rows, "rows")
    compiled = compile_model(b.model())
    np.testing.assert_array_equal(compiled(scalar(4))[0], [[2], [3], [4]])
    for _ in range(2):
        with interrupted_after(0.05):
            compiled(scalar(np.inf))
    assert compiled.plan.working_bytes is not None
    assert compiled.plan.working_bytes < KEPT_ROOM + 100_000, "what grew was given back"
    assert compiled.query_state()[0].state == [[1]]
    np.testing.assert_array_equal(compiled(scalar(5))[0], [[3], [4], [5]])
    assert not in_python


def test_threads_share_a_model(in_python: list[str]) -> None:
    compiled = compile_model(counting(64))
    start = np.zeros((1, 64), np.float32)
    meet = threading.Barrier(4)

    def call(number: int) -> None:
        meet.wait()
        for turns in itertools.islice(itertools.cycle((3, 70 + number, 900)), 60):
            rows, columns = compiled(start, scalar(turns))
            assert rows.shape == (turns, 64)
            np.testing.assert_array_equal(rows[:, 63], -np.arange(1, turns + 1))
            np.testing.assert_array_equal(columns.reshape(rows.shape), rows)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(call, number) for number in range(4)]:
            done.result()
    assert not in_python


def test_such_a_loop_in_the_body_of_another() -> None:
    """How large its outputs are is found anew in each turn."""
    (loop,) = [node for node in doubling(FORWARD).nodes if node.type_name == "Loop"]
    inner = uncork.Builder("inner")
    part, most = inner.parameter("part", "f32", [1, None]), inner.parameter("most", "f32", [])
    sources = [inner.constant(np.int64(-1)), inner.constant(np.array(True)), part, most]
    _, every = inner.add_with_bodies("Loop", 5, *sources, bodies=loop.operation.bodies)
    total = add(inner, "ReduceSum", every, inner.constant(np.array([0])), keep_dims=True)
    inner.result(total, "total")
    b = uncork.Builder("nested")
    data, limit = b.parameter("data", "f32", [None, None]), b.parameter("most", "f32", [])
    maps = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, FORWARD), BodyInput(1, 1)),
        (JoinedOutput(0, 0, FORWARD),),
        (),
    )
    b.result(b.add_with_bodies("TensorIterator", 1, data, limit, bodies={"body": maps})[0], "y")
    arrays = np.abs(draw(5, 3)) + np.float32([[1], [9], [2], [40], [1]])
    wanted = [np.concatenate(turns_of(row[None], 60)).sum(0) for row in arrays]
    compiled = agree(b.model(), [arrays, scalar(60)])
    np.testing.assert_allclose(compiled(arrays, scalar(60))[0], wanted, rtol=1e-6)


@pytest.mark.oracle
def test_openvino_gives_the_same(tmp_path: Path, openvino: OpenVino) -> None:
    path = tmp_path / "loop.xml"
    uncork.write_model(doubling(FORWARD, BACKWARD), path)
    compiled = uncork.load(path)
    for width, most in ((3, 100), (3, 1), (2, 1e6)):
        call = [np.abs(draw(1, width)) + 1, scalar(most)]
        for ours, theirs in zip(compiled(*call), openvino.run(path, call), strict=True):
            np.testing.assert_array_equal(ours, theirs)
