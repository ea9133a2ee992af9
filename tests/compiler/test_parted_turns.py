"""Turns of loops whose bodies find sizes by their data, or whose state grows: several segments a
turn, in native calls that make many turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler._interrupts import interrupted_after
from tests.compiler.test_turns import FOREVER, add, agree, alone
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, InnerResult, JoinedOutput, Slicing

__all__ = ["alone"]


def number(b: uncork.Builder, value: int) -> Source:
    return b.constant(np.array(value))


def chosen(b: uncork.Builder, x: Source, where: Source) -> Source:
    """The elements of a vector at the places where another one is not zero."""
    places = add(b, "NonZero", where, opset=3, output_type="i64")
    return add(b, "Gather", x, add(b, "Squeeze", places, number(b, 0)), number(b, 0), opset=8)


def over(body: uncork.Builder, trips: Any, *more: BodyOutput | InnerResult) -> uncork.Model:
    """A Loop that carries a vector of i64, its first result; `more` outputs."""
    b = uncork.Builder("loop")
    outputs = (BodyOutput(0, 0), *more)
    maps = BodyMap(GraphBody(body.model()), (BodyInput(2, 0),), outputs, ((0, 0),))
    sources = [b.constant(trips), b.constant(np.array(True)), b.parameter("x", "i64", [None])]
    made = b.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})
    for port in (o.port for o in outputs if isinstance(o, BodyOutput)):
        b.result(made[port], f"y{port}")
    return b.model()


def sieve() -> uncork.Builder:
    """A turn takes the first number out, and with it what it divides; all turns' first numbers are
    put together.
    """
    inner = uncork.Builder("sieve")
    x = inner.parameter("x", "i64", [None])
    first = add(inner, "Gather", x, inner.constant(np.array([0])), number(inner, 0), opset=8)
    rest = chosen(inner, x, add(inner, "FloorMod", x, first))
    inner.result(rest, "rest")
    size = add(inner, "ShapeOf", rest, opset=3, output_type="i64")
    inner.result(add(inner, "Greater", size, number(inner, 0)), "more")
    inner.result(first, "first")
    return inner


SIEVED = (InnerResult(1, purpose="execution_condition"), JoinedOutput(1, 2, Slicing(0)))
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83]


def test_a_state_whose_size_the_data_tell(alone: list[int]) -> None:
    """The sieve of Eratosthenes, for longer and shorter ranges in turn."""
    compiled = compile_model(over(sieve(), FOREVER, *SIEVED))
    for end in (12, 84, 3, 84, 30):
        rest, primes = compiled(np.arange(2, end))
        assert rest.shape == (0,)
        assert primes.tolist() == [p for p in PRIMES if p < end]
    assert len(alone) <= 3, "Python makes turns only before there is a plan"


def test_a_state_that_grows_as_the_data_tell(alone: list[int]) -> None:
    """Each turn doubles the numbers below 6 and appends all of those: it grows, then stays."""
    inner = uncork.Builder("grow")
    x = inner.parameter("x", "i64", [None])
    small = chosen(inner, x, add(inner, "Less", x, number(inner, 6)))
    inner.result(
        add(inner, "Concat", x, add(inner, "Add", small, number(inner, 1)), axis=0), "longer"
    )
    compiled = compile_model(over(inner, np.int64(9)))
    for given in ([5], [0, 9], [3, 4], [], [6, 7, 8], [0, 9]):
        wanted = np.array(given, np.int64)
        for _ in range(9):
            wanted = np.concatenate([wanted, wanted[wanted < 6] + 1])
        for _ in range(2):
            np.testing.assert_array_equal(compiled(np.array(given, np.int64))[0], wanted)
    assert len(alone) <= 3


def test_parts_of_sizes_that_the_data_tell(alone: list[int]) -> None:
    """The odd numbers of each turn lie behind each other: as many in each turn, as the data tell of
    every call.
    """
    inner = uncork.Builder("parts")
    x = inner.parameter("x", "i64", [None])
    odd = chosen(inner, x, add(inner, "FloorMod", x, number(inner, 2)))
    inner.result(add(inner, "Add", x, number(inner, 2)), "next")
    inner.result(add(inner, "Unsqueeze", odd, number(inner, 0)), "odd")
    inner.result(add(inner, "Unsqueeze", odd, number(inner, 1)), "column")
    parts = JoinedOutput(1, 1, Slicing(0)), JoinedOutput(2, 2, Slicing(1, -1, 0, -1))
    compiled = compile_model(over(inner, np.int64(6), *parts))
    for given in ([1, 2, 3, 40], [63, 62], [8, 8, 8], [0], [63, 61, 5, 7]):
        x = np.array(given)
        rows = np.stack([x[x % 2 == 1] + 2 * turn for turn in range(6)])
        for _ in range(2):
            last, odd_rows, columns = compiled(x)
            np.testing.assert_array_equal(last, x + 12)
            np.testing.assert_array_equal(odd_rows, rows)
            np.testing.assert_array_equal(columns, rows.T[:, ::-1])
    assert len(alone) <= 3


def test_two_sizes_found_one_after_the_other(alone: list[int]) -> None:
    """Unique after NonZero, and both counts put together: three segments."""
    inner = uncork.Builder("two")
    x = inner.parameter("x", "i64", [None])
    kept = chosen(inner, x, x)
    unique = inner.add("Unique", 10, kept, sorted=True, index_element_type="i64")[0]
    inner.result(add(inner, "Subtract", unique, number(inner, 1)), "next")
    for n, found in enumerate((kept, unique)):
        inner.result(add(inner, "ShapeOf", found, opset=3, output_type="i64"), f"count {n}")
    counts = JoinedOutput(1, 1, Slicing(0)), JoinedOutput(2, 2, Slicing(0))
    compiled = compile_model(over(inner, np.int64(4), *counts))
    some = [5, 4, 4, 0, 5, 6], [9, 9, 9, 9, 8, 7, 0], [5, 4, 4, 0, 5, 6]
    for given in (*some, [0, 0], [1], some[0]):
        x, kept_counts, unique_counts = np.array(given), [], []
        for _ in range(4):
            kept_counts.append(np.count_nonzero(x))
            x = np.unique(x[x != 0]) - 1
            unique_counts.append(len(x))
        for _ in range(2):
            last, *counted = compiled(np.array(given))
            np.testing.assert_array_equal(last, x)
            assert [c.tolist() for c in counted] == [kept_counts, unique_counts]
        # Of an empty tensor the reference of Unique makes nothing.
        assert len(alone) <= 3 or given not in some, "Python makes turns before there is a plan"
        alone.clear()


def test_a_loop_that_finds_sizes_in_a_loop() -> None:
    """What two inner turns leave, once as it is and once with 2 added."""
    inner = uncork.Builder("inner")
    x = inner.parameter("x", "i64", [None])
    inner.result(add(inner, "Subtract", chosen(inner, x, x), number(inner, 1)), "less")
    outer = uncork.Builder("outer")
    x = outer.parameter("x", "i64", [None])
    maps = BodyMap(GraphBody(inner.model()), (BodyInput(2, 0),), (BodyOutput(0, 0),), ((0, 0),))
    sources = number(outer, 2), outer.constant(np.array(True)), x
    (y,) = outer.add_with_bodies("Loop", 5, *sources, bodies={"body": maps})
    outer.result(add(outer, "Concat", y, add(outer, "Add", y, number(outer, 2)), axis=0), "y")
    compiled = compile_model(over(outer, np.int64(4)))
    for given in ([1, 2, 3], [0], [], [5, 5, 1, 0, 9, 9], [7]):
        wanted = np.array(given, np.int64)
        for _ in range(4):
            for _ in range(2):
                wanted = wanted[wanted != 0] - 1
            wanted = np.concatenate([wanted, wanted + 2])
        np.testing.assert_array_equal(compiled(np.array(given, np.int64))[0], wanted)


def test_a_loop_that_finds_sizes_meets_its_limit() -> None:
    """And the model is usable afterwards."""
    compiled = compile_model(over(sieve(), FOREVER, *SIEVED), loop_limit=4)
    for _ in range(2):
        with pytest.raises(InputError, match="still running after 4 iterations, the limit given"):
            compiled(np.arange(2, 84))
        assert compiled(np.arange(2, 8))[1].tolist() == [2, 3, 5, 7]


def test_a_size_that_a_later_segment_refuses() -> None:
    """Numbers above 1 are put into pairs, but in the second turn there are three."""
    inner = uncork.Builder("pairs")
    x = inner.parameter("x", "i64", [None])
    above = chosen(inner, x, add(inner, "Subtract", x, number(inner, 1)))
    shape = inner.constant(np.array([-1, 2]))
    pairs = add(inner, "Reshape", above, shape, special_zero=False, name="pairs")
    inner.result(add(inner, "Subtract", above, number(inner, 1)), "next")
    inner.result(add(inner, "ReduceSum", pairs, number(inner, 0), keep_dims=True), "sums")
    compiled = compile_model(over(inner, np.int64(2), JoinedOutput(1, 1, Slicing(0))))
    for _ in range(2):
        assert compiled(np.array([4, 9, 3, 5]))[1].tolist() == [[7, 14], [5, 12]]
        with pytest.raises(InputError, match=r"'pairs' .*\[3\], got \[-1, 2\] \(in iteration 1"):
            compiled(np.array([4, 9, 2, 5]))


def test_a_state_that_outgrows_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before its memory is taken, and the model is usable afterwards."""
    inner = uncork.Builder("twice")
    x = inner.parameter("x", "i64", [None])
    inner.result(add(inner, "Concat", x, x, axis=0), "twice")
    endless = compile_model(over(inner, np.int64(60)))
    monkeypatch.setattr("uncork.ops._turns.available", lambda: (50_000, "this machine's memory"))
    for _ in range(2):
        with pytest.raises(InputError, match=r"Loop-5.*: its outputs need .* after \d+ iterations"):
            endless(np.arange(3))
        assert endless(np.arange(0))[0].shape == (0,)


def test_a_loop_that_finds_sizes_is_interrupted() -> None:
    inner = uncork.Builder("endless")
    x = inner.parameter("x", "i64", [None])
    inner.result(chosen(inner, x, x), "same")
    compiled = compile_model(over(inner, np.int64(2**62)))
    for _ in range(2):
        with interrupted_after(0.2):
            compiled(np.array([1, 0, 2]))


def random_body(rng: np.random.Generator) -> uncork.Builder:
    """A body of layers drawn at random, about half of which find sizes, so that sizes go up and
    down from turn to turn, and stay below about a hundred.
    """
    b = uncork.Builder("random")
    x = given = b.parameter("x", "i64", [None])
    for _ in range(rng.integers(1, 5)):
        constant = number(b, int(rng.integers(2, 6)))
        kind = rng.choice(["chosen", "below", "unique", "concat", "add", "range", "slice"])
        if kind == "chosen":
            x = chosen(b, x, add(b, "FloorMod", x, constant))
        elif kind == "below":
            x = chosen(b, x, add(b, "Less", x, number(b, int(rng.integers(3, 12)))))
        elif kind == "unique":
            x = b.add("Unique", 10, x, sorted=True, index_element_type="i64")[0]
        elif kind == "concat":
            x = add(b, "Concat", x, add(b, "Add", x, constant), axis=0)
        elif kind == "add":
            x = add(b, "FloorMod", add(b, "Add", x, constant), number(b, 13))
        elif kind == "range":
            stop = add(b, "ReduceSum", add(b, "FloorMod", x, constant), number(b, 0))
            x = add(b, "Range", number(b, 0), stop, number(b, 1), opset=4, output_type="i64")
        else:
            end = b.constant(np.array([int(rng.integers(1, 9))]))
            one = b.constant(np.array([1]))
            x = b.add("Slice", 8, x, b.constant(np.array([0])), end, one)[0]
    end, one = b.constant(np.array([40])), b.constant(np.array([1]))
    b.result(b.add("Slice", 8, x, b.constant(np.array([0])), end, one)[0], "x")
    odd = chosen(b, given, add(b, "FloorMod", given, number(b, 2)))
    b.result(add(b, "ReduceSum", odd, b.constant(np.array([0])), keep_dims=True), "sum")
    return b


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed: int) -> None:
    """Kernels and references agree, whatever sizes turns find."""
    rng = np.random.default_rng(seed)
    model = over(random_body(rng), np.int64(5), JoinedOutput(1, 1, Slicing(0)))
    agree(model, *([rng.integers(0, 13, size)] for size in (4, 1, 9, 0, 23)))
