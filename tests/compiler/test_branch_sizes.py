"""An If whose branches give tensors of different sizes is a part of a native segment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests._openvino import OpenVino
from tests.compiler.test_turns import add, agree, draw
from uncork.compiler import step_bodies
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, SlicedInput, Slicing

YES, NO = np.array(True), np.array(False)


def branch(b: uncork.Builder, repeats: int) -> BodyMap:
    """The tensor so many times behind itself, its columns turned round, and its negative."""
    x = b.parameter("x", "f32", [None, None])
    b.result(b.add("Concat", 1, *[x] * repeats, axis=0)[0] if repeats else first(b, x), "long")
    b.result(add(b, "Negative", x), "alike")
    b.result(b.add("Concat", 1, *[x] * (repeats + 1), axis=1)[0], "wide")
    return BodyMap(
        GraphBody(b.model()),
        (BodyInput(1, 0),),
        (BodyOutput(0, 0), BodyOutput(1, 1), BodyOutput(2, 2)),
    )


def first(b: uncork.Builder, x: Any) -> Any:
    """Nothing of a tensor but its columns."""
    return add(b, "Slice", x, *(b.constant(np.array([n])) for n in (0, 0, 1, 0)), opset=8)


def model(then: int = 3, other: int = 1) -> uncork.Model:
    b = uncork.Builder("if")
    condition, x = b.parameter("c", "boolean", []), b.parameter("x", "f32", [None, None])
    start = add(b, "Add", x, b.constant(np.float32(1)))
    names = {"then_body": then, "else_body": other}
    bodies = {name: branch(uncork.Builder(name), repeats) for name, repeats in names.items()}
    long, alike, wide = b.add_with_bodies("If", 8, condition, start, bodies=bodies)
    b.result(add(b, "Negative", long), "long")
    b.result(alike, "alike")
    b.result(wide, "wide")
    b.result(b.add("ShapeOf", 3, long, output_type="i64")[0], "shape")
    return b.model()


def finding(b: uncork.Builder, twice: bool) -> BodyMap:
    """The places of what is not 0 in a tensor, last, and all different numbers of it, first: of
    these those above 1 too, where it finds `twice`.
    """
    x = b.parameter("x", "f32", [None, None])
    found = add(b, "NonZero", x, opset=3, output_type="i64")
    different = b.add("Unique", 10, x)[0]
    if twice:
        above = add(b, "Greater", different, b.constant(np.float32(1)))
        rows = add(b, "NonZero", above, opset=3, output_type="i64")
        where = add(b, "Reshape", rows, b.constant(np.array([-1])), special_zero=False)
        different = add(b, "Gather", different, where, b.constant(np.array(0)), opset=8)
    b.result(different, "different")
    b.result(add(b, "Convert", found, destination_type="f32"), "places")
    return BodyMap(GraphBody(b.model()), (BodyInput(1, 0),), (BodyOutput(0, 0), BodyOutput(1, 1)))


def test_branches_find_sizes_on_their_way(in_python: list[str]) -> None:
    """Several, one behind the other, and results in another order than they are made."""
    b = uncork.Builder("finding")
    condition, x = b.parameter("c", "boolean", []), b.parameter("x", "f32", [None, None])
    bodies = {n: finding(uncork.Builder(n), n == "then_body") for n in ("then_body", "else_body")}
    different, places = b.add_with_bodies("If", 8, condition, x, bodies=bodies)
    b.result(add(b, "Negative", different), "different")
    b.result(places, "places")
    compiled = compile_model(b.model(), threads=1)
    generator = np.random.default_rng(5)
    for rows, columns in ((2, 3), (1, 1), (90, 70), (4, 5), (200, 300)):
        values = generator.integers(0, 2 + rows, (rows, columns)).astype(np.float32)
        for taken in (YES, NO, YES):
            kinds = np.unique(values)
            results = compiled(taken, values)
            np.testing.assert_array_equal(results[0], -(kinds[kinds > 1] if taken else kinds))
            np.testing.assert_array_equal(results[1], np.nonzero(values))
    assert not in_python


def holds(compiled: Any, condition: Any, x: Any, repeats: int) -> None:
    """The results, by hand."""
    long, alike, wide, shape = compiled(condition, x)
    start = x + np.float32(1)
    np.testing.assert_array_equal(long, -np.tile(start, (repeats, 1)))
    np.testing.assert_array_equal(alike, -start)
    np.testing.assert_array_equal(wide, np.tile(start, (1, repeats + 1)))
    assert list(shape) == [len(x) * repeats, x.shape[1]]


def test_sizes_are_those_of_the_branch(in_python: list[str]) -> None:
    """Larger and smaller from call to call."""
    compiled = compile_model(model())
    for rows, columns in ((2, 3), (1, 1), (300, 70), (5, 4)):
        for condition, repeats in ((YES, 3), (NO, 1), (YES, 3), (NO, 1)):
            holds(compiled, condition, draw(rows, columns), repeats)
    assert not in_python
    compiled.release_memory()
    assert compiled.plan.working_bytes in (0, None)
    holds(compiled, YES, draw(2, 3), 3)
    assert not in_python


def test_a_branch_that_gives_nothing(in_python: list[str]) -> None:
    compiled = compile_model(model(other=0))
    for condition, repeats in ((NO, 0), (YES, 3), (NO, 0)):
        holds(compiled, condition, draw(4, 2), repeats)
    assert not in_python


def test_threads_share_a_model(in_python: list[str]) -> None:
    compiled = compile_model(model())

    def call(number: int) -> None:
        for turn in range(60):
            yes = (turn + number) % 2
            holds(compiled, np.array(bool(yes)), draw(1 + turn, 1 + number), 3 if yes else 1)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(call, number) for number in range(4)]:
            done.result()
    assert not in_python


def test_results_beyond_the_memory_of_a_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs the branch then."""
    monkeypatch.setattr(step_bodies, "room_bytes", lambda plan: 1000)
    compiled = compile_model(model())
    for rows in (2, 400, 2):
        holds(compiled, YES, draw(rows, 3), 3)
        holds(compiled, NO, draw(rows, 3), 1)


def test_a_branch_that_refuses_its_input() -> None:
    """The error is that of the references, and the next call is as ever."""
    b = uncork.Builder("rows")
    condition, x = b.parameter("c", "boolean", []), b.parameter("x", "f32", [None, 3])
    at = b.parameter("at", "i64", [None, 1])
    bodies = {}
    for name, times in (("then_body", 1), ("else_body", 2)):
        inner = uncork.Builder(name)
        table, places = (
            inner.parameter("t", "f32", [None, 3]),
            inner.parameter("i", "i64", [None, 1]),
        )
        rows = add(inner, "EmbeddingBagPackedSum", table, places, opset=3)
        inner.result(inner.add("Concat", 1, *[rows] * times, axis=1)[0], "y")
        maps = (BodyInput(1, 0), BodyInput(2, 1)), (BodyOutput(0, 0),)
        bodies[name] = BodyMap(GraphBody(inner.model()), *maps)
    b.result(b.add_with_bodies("If", 8, condition, x, at, bodies=bodies)[0], "y")
    compiled, data = compile_model(b.model()), draw(4, 3)
    for _ in range(2):
        for condition_, times in ((YES, 1), (NO, 2)):
            got = compiled(condition_, data, np.array([[1], [3]]))[0]
            np.testing.assert_array_equal(got, np.tile(data[[1, 3]], (1, times)))
            with pytest.raises(InputError, match=r"indices.1, 0. is 4, expected 0 to 3"):
                compiled(condition_, data, np.array([[1], [4]]))


def test_such_a_branch_in_a_loop() -> None:
    """The sum of what its branches give in each turn."""
    inner = uncork.Builder("inner")
    part, state = (
        inner.parameter("part", "f32", [1, None]),
        inner.parameter("state", "f32", [1, None]),
    )
    above = add(inner, "Greater", add(inner, "ReduceMax", part, inner.constant(np.array([0, 1]))),
                inner.constant(np.float32(0)))  # fmt: skip
    bodies = {
        name: branch(uncork.Builder(name), n) for name, n in (("then_body", 3), ("else_body", 1))
    }
    long = inner.add_with_bodies("If", 8, above, part, bodies=bodies)[0]
    total = add(inner, "ReduceSum", long, inner.constant(np.array([0])), keep_dims=True)
    inner.result(add(inner, "Add", state, total), "new")
    b = uncork.Builder("loop")
    data, start = b.parameter("data", "f32", [None, None]), b.parameter("start", "f32", [1, None])
    inputs = (SlicedInput(0, 0, Slicing(0)), BodyInput(1, 1))
    maps = BodyMap(GraphBody(inner.model()), inputs, (BodyOutput(0, 0),), ((0, 1),))
    b.result(b.add_with_bodies("TensorIterator", 1, data, start, bodies={"body": maps})[0], "y")
    x, zero = np.float32([[1, 2], [-3, -1], [4, -9]]), np.zeros((1, 2), np.float32)
    compiled = agree(b.model(), [x, zero])
    np.testing.assert_array_equal(compiled(x, zero)[0], [[3 - 3 + 12, 6 - 1 - 27]])


@pytest.mark.oracle
def test_openvino_gives_the_same(tmp_path: Path, openvino: OpenVino) -> None:
    path = tmp_path / "if.xml"
    uncork.write_model(model(), path)
    compiled = uncork.load(path)
    for condition in (YES, NO, YES):
        call = [condition, draw(3, 4)]
        for ours, theirs in zip(compiled(*call), openvino.run(path, call), strict=True):
            np.testing.assert_array_equal(ours, theirs)
