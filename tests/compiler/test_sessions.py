"""`compiled.sessions`: many sequences side by side. Expected values are sums by hand, or those of a
request for each sequence.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.session_batches import Batches
from uncork.compiler.sessions import Sessions
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.surgery import streaming

Array = np.ndarray[Any, Any]


def sums(begin: float = 0, width: int = 2) -> uncork.Model:
    """`total`: the sum of all `x` so far, of each row."""
    b = uncork.Builder("sums")
    x = b.parameter("x", "f32", [None, width])
    start = b.constant(np.full((1, width), begin, np.float32))
    of = {"variable_id": "kept", "variable_type": "f32"}
    shape = uncork.PartialShape([None, width])
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (total,) = b.add("Add", 1, before, x)
    b.add("Assign", 6, total, variable_id="kept")
    b.result(total, "total")
    return b.model()


def counting() -> uncork.Model:
    """`y`: x times the number of calls so far, of which one number is kept for the batch."""
    b = uncork.Builder("counting")
    x = b.parameter("x", "f32", [None, 2])
    start = b.constant(np.zeros(1, np.int32))
    of = {"variable_id": "count", "variable_type": "i32"}
    (before,) = b.add("ReadValue", 6, start, variable_shape=uncork.PartialShape([1]), **of)
    (after,) = b.add("Add", 1, before, b.constant(np.ones(1, np.int32)))
    b.add("Assign", 6, after, variable_id="count")
    (number,) = b.add("Convert", 1, after, destination_type="f32")
    b.result(b.add("Multiply", 1, x, number)[0], "y")
    return b.model()


def gru(hidden: int = 24, seed: int = 0) -> uncork.Model:
    """A GRU over frames in axis 1, of any number of rows."""
    b, random = uncork.Builder("gru"), np.random.default_rng(seed)

    def w(*shape: int) -> Any:
        return b.constant((random.standard_normal(shape) * 0.3).astype(np.float32))

    def c(*values: int) -> Any:
        return b.constant(np.array(values))

    x = b.parameter("x", "f32", [None, None, 6])
    (sizes,) = b.add("ShapeOf", 3, x)
    zero = b.constant(np.array(0))
    (rows,) = b.add("Gather", 8, sizes, c(0), zero)
    (frames,) = b.add("Gather", 8, sizes, c(1), zero)
    (lengths,) = b.add("Broadcast", 3, frames, rows)
    (shape,) = b.add("Concat", 1, rows, c(1), c(hidden), axis=0)
    (begin,) = b.add("Broadcast", 3, b.constant(np.float32(0)), shape)
    weights = w(1, 3 * hidden, 6), w(1, 3 * hidden, hidden), w(1, 3 * hidden)
    y, _ = b.add("GRUSequence", 5, x, begin, lengths, *weights, hidden_size=hidden)
    (y,) = b.add("Squeeze", 1, y, c(1))
    b.result(b.add("MatMul", 1, y, w(5, hidden), transpose_b=True)[0], "scores")
    return b.model()


def opened(model: uncork.Model, names: Any = "abc", capacity: int = 10, **options: Any) -> Sessions:
    sessions = uncork.compile_model(model, threads=1).sessions(capacity, **options)
    for name in names:
        sessions.open(name)
    return sessions


def ones(count: int, value: float = 1) -> Array:
    return np.full((count, 2), value, np.float32)


def totals(sessions: Sessions, names: Any) -> list[float]:
    """The sums so far: what a step of zeros gives."""
    return sessions.step(list(names), ones(len(names), 0))["total"][:, 0].tolist()


# ---- what a step gives


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_each_session_has_its_own_sum(backend: Any) -> None:
    sessions = uncork.compile_model(sums(begin=10), backend=backend).sessions(4)
    for name in ("a", 7, ("c", 1)):
        sessions.open(name)
    x = np.array([[1, 2], [10, 20]], np.float32)
    assert sessions.step(["a", 7], x)["total"].tolist() == [[11, 12], [20, 30]]
    assert sessions.step([("c", 1), "a"], x)["total"].tolist() == [[11, 12], [21, 32]]
    assert sessions.step([7], x=x[:1])["total"].tolist() == [[21, 32]]
    assert (len(sessions), "a" in sessions, "b" in sessions) == (3, True, False)
    assert list(sessions) == ["a", 7, ("c", 1)]


@pytest.mark.parametrize("batch", [None, 1])
def test_sessions_give_what_a_request_for_each_gives(batch: int | None) -> None:
    pytest.importorskip("llvmlite")
    whole = uncork.surgery.reshape(gru(), {"x": [batch, None, 6]})
    compiled = uncork.compile_model(streaming(whole, "x", 1, frames=2), threads=1)
    sessions = compiled.sessions(100)
    requests = [compiled.new_request() for _ in range(90)]
    random = np.random.default_rng(0)
    for name in range(90):
        sessions.open(name)
    for count in (90, 1, 3, 8, 70, 64):
        names = random.permutation(90)[:count].tolist()
        x = random.standard_normal((count, 2, 6)).astype(np.float32)
        expected = [requests[name](x[i : i + 1])["scores"] for i, name in enumerate(names)]
        got = sessions.step(names, x)["scores"]
        np.testing.assert_allclose(got, np.concatenate(expected), rtol=1e-4, atol=1e-5)


def filtered() -> uncork.Model:
    """Causal convolutions over frames in axis 1 of one row."""
    b, random = uncork.Builder("filtered"), np.random.default_rng(0)
    x = b.parameter("x", "f32", [1, None, 6])
    turn = b.constant(np.array([0, 2, 1]))
    kernel = b.constant(random.standard_normal((64, 6, 3)).astype(np.float32))
    pads: dict[str, Any] = {"pads_begin": [2], "pads_end": [0]}
    (y,) = b.add("Transpose", 1, x, turn)
    (y,) = b.add("Convolution", 1, y, kernel, strides=[1], dilations=[1], **pads)
    kernel = b.constant(random.standard_normal((5, 64, 3)).astype(np.float32))
    (y,) = b.add("Convolution", 1, y, kernel, strides=[1], dilations=[1], **pads)
    b.result(b.add("Transpose", 1, y, turn)[0], "scores")
    return b.model()


@pytest.mark.parametrize("whole", [gru, filtered])
@pytest.mark.parametrize("threads", [1, 2])
def test_answers_are_bit_for_bit_the_same_whoever_else_is_in_the_batch(
    whole: Callable[[], uncork.Model], threads: int
) -> None:
    """The first session goes through three steps alone, and among others that change."""
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(streaming(whole(), "x", 1, frames=1), threads=threads)
    random = np.random.default_rng(1)
    own = random.standard_normal((3, 1, 1, 6)).astype(np.float32)
    found = set()
    for counts in ((1, 1, 1), (2, 9, 40), (64, 65, 3), (100, 12, 31)):
        sessions = compiled.sessions(128)
        for name in range(100):
            sessions.open(name)
        bits = []
        for count, frame in zip(counts, own, strict=True):
            place = int(random.integers(count))
            names = [*range(1, place + 1), 0, *range(place + 1, count)]
            x = random.standard_normal((count, 1, 6)).astype(np.float32)
            x[place] = frame
            bits.append(sessions.step(names, x)["scores"][place].tobytes())
        found.add(tuple(bits))
    assert len(found) == 1


def product(b: uncork.Builder, x: Source, seed: int) -> Source:
    weights = np.random.default_rng(seed).standard_normal((300, 300)).astype(np.float32)
    return b.add("MatMul", 1, x, b.constant(weights * np.float32(0.1)))[0]


def branch(seed: int) -> BodyMap:
    """A body of one input, the If's second, times weights."""
    b = uncork.Builder("branch")
    b.result(product(b, b.parameter("p", "f32", [None, 300]), seed), "y")
    return BodyMap(GraphBody(b.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))


def test_products_in_branches_have_the_same_bits_whoever_else_is_in_the_batch() -> None:
    """The branch is chosen by an input that all sessions share, as a sampling rate is."""
    pytest.importorskip("llvmlite")
    b = uncork.Builder("chosen")
    x, rate = b.parameter("x", "f32", [None, 300]), b.parameter("rate", "boolean", [])
    shape = uncork.PartialShape([None, 300])
    start = b.constant(np.zeros((1, 300), np.float32))
    of = {"variable_id": "kept", "variable_type": "f32"}
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (given,) = b.add("Add", 1, before, x)
    bodies = {"then_body": branch(1), "else_body": branch(2)}
    (after,) = b.add_with_bodies("If", 8, rate, given, bodies=bodies)
    b.add("Assign", 6, after, variable_id="kept")
    b.result(after, "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    random = np.random.default_rng(0)
    frames = random.standard_normal((2, 70, 300)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", uncork.UncorkWarning)
        for rate_is in (np.bool_(True), np.bool_(False)):
            request = compiled.new_request()
            alone, among = (compiled.sessions(70, axes={"rate": None}) for _ in range(2))
            for name in range(70):
                alone.open(name)
                among.open(name)
            for frame in frames:
                expected = request(frame[:1], rate_is)["y"]
                single = alone.step([0], frame[:1], rate_is)["y"]
                many = among.step(range(70), frame, rate_is)["y"]
                assert single[0].tobytes() == many[0].tobytes()
                np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-4)
            # As products elsewhere, so that nothing fills a batch up.
            assert among._batches.split(70, [frames[0], rate_is], list).sizes == [64, 6]


def test_states_whose_shape_follows_from_open_frames_are_refused_and_taken_when_fixed() -> None:
    """As Silero's are: what is squeezed, or not, by the number of windows in a frame."""
    b = uncork.Builder("windows")
    x = b.parameter("x", "f32", [None, None])
    (sizes,) = b.add("ShapeOf", 3, x)
    (length,) = b.add("Gather", 8, sizes, b.constant(np.array(1)), b.constant(np.array(0)))
    (one,) = b.add("Equal", 1, length, b.constant(np.array(1)))

    def body(squeezes: bool) -> BodyMap:
        inner = uncork.Builder("branch")
        p = inner.parameter("p", "f32", [None, None])
        axis = inner.constant(np.array([1]))
        inner.result(inner.add("Squeeze", 1, p, axis)[0] if squeezes else p, "y")
        return BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))

    bodies = {"then_body": body(True), "else_body": body(False)}
    (given,) = b.add_with_bodies("If", 8, one, x, bodies=bodies)
    of = {"variable_id": "kept", "variable_type": "f32"}
    start = b.constant(np.zeros(1, np.float32))
    shape = uncork.PartialShape([None])
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (after,) = b.add("Add", 1, before, given)
    b.add("Assign", 6, after, variable_id="kept")
    b.result(after, "total")
    model = b.model()
    with pytest.raises(uncork.InputError, match=r"'kept': is assigned a value whose shape follows"):
        uncork.compile_model(model).sessions(4)
    sessions = opened(uncork.surgery.reshape(model, {"x": [None, 1]}))
    sessions.step(["a", "b"], np.array([[1], [2]], np.float32))
    found = sessions.step(["b", "c"], np.array([[10], [20]], np.float32))
    assert found["total"].tolist() == [12, 20]


def test_one_value_for_a_batch_keeps_sessions_apart_where_it_differs() -> None:
    sessions = opened(counting(), "abcd")
    sessions.step(["a", "b"], ones(2))
    sessions.step(["b"], ones(1))
    x = ones(4) * np.array([[1], [10], [100], [1000]], np.float32)
    assert sessions.step(list("dbca"), x)["y"][:, 0].tolist() == [1, 30, 100, 2000]
    sessions.reset("b")
    assert sessions.step(list("abcd"), ones(4))["y"][:, 0].tolist() == [3, 1, 2, 2]


def test_rows_that_depend_on_each_other_are_calls_of_their_own() -> None:
    """The mean of all rows of a call: that of one session alone is its own."""
    b = uncork.Builder("mixing")
    x = b.parameter("x", "f32", [None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    shape = uncork.PartialShape([None, 2])
    start = b.constant(np.zeros((1, 2), np.float32))
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (mean,) = b.add("ReduceMean", 1, x, b.constant(np.array([0])), keep_dims=True)
    (total,) = b.add("Add", 1, before, b.add("Add", 1, x, mean)[0])
    b.add("Assign", 6, total, variable_id="kept")
    b.result(total, "total")
    sessions = opened(b.model())
    x = np.array([[1, 1], [10, 10]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uncork.UncorkWarning)
        assert sessions.step(["a", "b"], x)["total"][:, 0].tolist() == [2, 20]
        assert sessions.step(["b", "a"], x)["total"][:, 0].tolist() == [22, 22]


def test_sessions_in_another_axis_and_inputs_that_all_share() -> None:
    b = uncork.Builder("columns")
    x, gain = b.parameter("x", "f32", [2, None]), b.parameter("gain", "f32", [1])
    of = {"variable_id": "kept", "variable_type": "f32"}
    start = b.constant(np.zeros((2, 1), np.float32))
    shape = uncork.PartialShape([2, None])
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (total,) = b.add("Add", 1, before, b.add("Multiply", 1, x, gain)[0])
    b.add("Assign", 6, total, variable_id="kept")
    b.result(total, "total")
    compiled = uncork.compile_model(b.model())
    with pytest.raises(uncork.InputError, match=r"'x': axis 0 of \[2,\?\] would count sessions"):
        compiled.sessions(4)
    sessions = compiled.sessions(4, axes={"x": 1, "gain": None})
    for name in "ab":
        sessions.open(name)
    x = np.array([[1, 2], [3, 4]], np.float32)
    gain = np.array([2], np.float32)
    assert sessions.step(["b", "a"], x, gain)["total"].tolist() == [[2, 4], [6, 8]]
    assert sessions.step(["a", "b"], x, gain)["total"].tolist() == [[6, 6], [14, 14]]
    with pytest.raises(uncork.InputError, match="no input or variable is called 'y'"):
        compiled.sessions(4, axes={"y": 1})


def test_names_may_be_an_array() -> None:
    sessions = opened(sums(), range(6))
    sessions.step(np.array([5, 0, 3], np.int32), ones(3))
    assert totals(sessions, np.arange(6)) == [1, 0, 0, 1, 0, 1]
    named = opened(sums(), ["a", "b"])
    named.step(np.array(["b"]), ones(1, 7))
    assert totals(named, "ab") == [0, 7]
    with pytest.raises(uncork.InputError, match="session 3: comes twice in one step"):
        sessions.step(np.array([3, 1, 3]), ones(3))


def test_frames_unlike_those_before_are_looked_at_anew() -> None:
    sessions = opened(sums())
    sessions.step(["a", "b"], ones(2))
    sessions.step(["a"], [[1, 2]])  # a list, converted
    sessions.step(["b"], np.asfortranarray(ones(2))[1:])
    for wrong in (ones(3), np.ones((2, 3), np.float32), np.float32(1), ones(2).astype("f8") / 3):
        with pytest.raises(uncork.InputError, match="'x'"):
            sessions.step(["a", "b"], wrong)
    assert totals(sessions, "ab") == [2, 2]


def test_codes_of_a_small_float_are_no_frames() -> None:
    """What carries bf16 inside is u16: a caller's u16 are numbers, as at a call."""
    b = uncork.Builder("small")
    x = b.parameter("x", "bf16", [None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    shape = uncork.PartialShape([None, 2])
    start = b.constant(np.zeros((1, 2), np.float32))
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (total,) = b.add("Add", 1, before, b.add("Convert", 1, x, destination_type="f32")[0])
    b.add("Assign", 6, total, variable_id="kept")
    b.result(total, "total")
    sessions = opened(b.model())
    sessions.step(["a"], ones(1))
    assert sessions.step(["a"], np.full((1, 2), 3, np.uint16))["total"].tolist() == [[4, 4]]


# ---- the memory


def test_states_take_a_tenth_more_than_there_is_to_keep() -> None:
    sessions = opened(sums(width=50), (), 10_000)
    assert 10_000 * 50 * 4 < sessions.nbytes <= 1.1 * 10_000 * 50 * 4


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_steps_of_more_sessions_than_there_are_spare_rows(backend: Any) -> None:
    """64 rows are spare; steps of all, of few and of all but one take turns, and rows with them."""
    sessions = uncork.compile_model(sums(), backend=backend, threads=1).sessions(300)
    random, expected = np.random.default_rng(0), np.zeros(300)
    for name in range(300):
        sessions.open(name)
    for count in (300, 5, 64, 65, 299, 1, 63, 300, 10):
        names = random.permutation(300)[:count]
        x = random.integers(0, 9, (count, 2)).astype(np.float32)
        got = sessions.step(names.tolist(), x)["total"]
        expected[names] += x[:, 0]
        assert got[:, 0].tolist() == expected[names].tolist()
    assert totals(sessions, range(300)) == expected.tolist()


def test_rows_of_a_variable_whose_sessions_are_in_another_axis() -> None:
    """As the states of layers one behind the other are kept: [layers, sessions, width]."""
    b = uncork.Builder("layers")
    x = b.parameter("x", "f32", [None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    shape = uncork.PartialShape([3, None, 2])
    start = b.constant(np.arange(6, dtype=np.float32).reshape(3, 1, 2))
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (after,) = b.add("Add", 1, before, x)
    b.add("Assign", 6, after, variable_id="kept")
    b.result(b.add("Transpose", 1, after, b.constant(np.array([1, 0, 2])))[0], "y")
    sessions = opened(b.model(), "abc")
    assert sessions.step(["b"], ones(1))["y"].tolist() == [[[1, 2], [3, 4], [5, 6]]]
    got = sessions.step(list("cb"), ones(2, 10))["y"]
    assert got.tolist() == [[[10, 11], [12, 13], [14, 15]], [[11, 12], [13, 14], [15, 16]]]
    sessions.load("a", sessions.save("b"))
    assert sessions.step(["a"], ones(1, 0))["y"].tolist() == [[[11, 12], [13, 14], [15, 16]]]


def test_a_variable_that_begins_with_two_values_is_refused() -> None:
    b = uncork.Builder("two")
    x = b.parameter("x", "f32", [None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    shape = uncork.PartialShape([None, 2])
    reads = [
        b.add(
            "ReadValue", 6, b.constant(np.full((1, 2), v, np.float32)), variable_shape=shape, **of
        )
        for v in (0, 1)
    ]
    (after,) = b.add("Add", 1, b.add("Add", 1, reads[0][0], reads[1][0])[0], x)
    b.add("Assign", 6, after, variable_id="kept")
    b.result(after, "y")
    sessions = opened(b.model())
    with pytest.raises(uncork.InputError, match="begins variable 'kept' with two values"):
        sessions.step(["a"], ones(1))


def test_a_session_alone_is_a_batch_of_one_row() -> None:
    """Products add up every row alike, so nothing fills the batch up."""
    pytest.importorskip("llvmlite")
    sessions = uncork.compile_model(streaming(gru(), "x", 1, frames=1), threads=1).sessions(4)
    sessions.open("a")
    sessions.step(["a"], np.ones((1, 1, 6), np.float32))
    plan = str(sessions._batched.executor.plan())
    assert "StoreRows" in plan and "Gather" in plan and "reference" not in plan
    assert sessions._batches.split(1, [np.ones((1, 1, 6), np.float32)], list).sizes == [1]


def one_sequence() -> uncork.Model:
    """`y`: the sums of all frames so far times a gain, of one sequence; the sum begins as the first
    frame times 100.
    """
    b = uncork.Builder("one sequence")
    x, gain = b.parameter("x", "f32", [1, 2]), b.parameter("gain", "f32", [])
    of = {"variable_id": "kept", "variable_type": "f32"}
    (start,) = b.add("Multiply", 1, x, b.constant(np.float32(100)))
    (before,) = b.add("ReadValue", 6, start, variable_shape=uncork.PartialShape([1, 2]), **of)
    (after,) = b.add("Add", 1, before, x)
    b.add("Assign", 6, after, variable_id="kept")
    (flat,) = b.add("Reshape", 1, after, b.constant(np.array([2])), special_zero=False)
    b.result(b.add("Multiply", 1, flat, gain)[0], "y")
    return b.model()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_model_of_one_sequence_has_sessions_that_are_calls_of_their_own(backend: Any) -> None:
    compiled = uncork.compile_model(one_sequence(), backend=backend, threads=1)
    with pytest.raises(uncork.InputError, match="or say batched=False"):
        compiled.sessions(4, axes={"gain": None})
    sessions = compiled.sessions(4, axes={"gain": None}, batched=False)
    for name in "abc":
        sessions.open(name)
    x, gain = np.array([[[1, 2]], [[3, 4]]], np.float32), np.float32(2)
    assert sessions.step(["b", "a"], x, gain)["y"].tolist() == [[202, 404], [606, 808]]
    assert sessions.step(["a"], x[:1], gain)["y"].tolist() == [[608, 812]]
    sessions.load("c", sessions.save("b"))
    both = sessions.step(["c", "b"], x, np.float32(1))["y"]
    assert both.tolist() == [[102, 204], [104, 206]]
    with pytest.raises(uncork.InputError, match=r"'x': expected 1 rows in axis 0"):
        sessions.step(["a"], x, gain)
    with pytest.raises(uncork.InputError, match=r"'x': axes: expected None with batched=False"):
        compiled.sessions(4, axes={"x": 1}, batched=False)


# ---- what is refused, and moves nobody


WRONG: dict[str, tuple[Callable[[Sessions], object], str]] = {
    "unknown": (lambda s: s.step(["a", "x"], ones(2)), "session 'x': is not open"),
    "twice": (lambda s: s.step(["a", "b", "a"], ones(3)), "session 'a': comes twice in one step"),
    "text": (lambda s: s.step("ab", ones(2)), "expected a list of names, got 'ab'"),
    "none": (lambda s: s.step([], ones(0)), "expected at least one session"),
    "no key": (
        lambda s: s.step([["a"]], ones(1)),
        "expected a name that can be a key of a dict, .* got list",
    ),
    "rows": (lambda s: s.step(["a"], ones(2)), r"'x': expected 1 rows in axis 0, one for each"),
    "shape": (lambda s: s.step(["a"], np.ones((1, 3), np.float32)), r"expected shape \[\?,2\]"),
    "type": (lambda s: s.step(["a"], np.ones((1, 2)) / 3), "is not a value of f32"),
    "no input": (lambda s: s.step(["a"]), "1 of 1 inputs missing"),
    "name": (lambda s: s.step(["a"], z=ones(1)), "'z'"),
    "open no key": (lambda s: s.open(["a"]), "expected a name that can be a key"),
    "load no key": (lambda s: s.load(["a"], b""), "expected a name that can be a key"),
    "open": (lambda s: s.open("a"), "session 'a': is open already"),
    "close": (lambda s: s.close("x"), "session 'x': is not open"),
    "reset": (lambda s: s.reset("x"), "session 'x': is not open"),
    "save": (lambda s: s.save("x"), "session 'x': is not open"),
    "load": (lambda s: s.load("a", b"abc"), "these are no bytes that save"),
    "full": (lambda s: s.open("d"), "there are 3 sessions, and room for no more"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_and_moves_nobody(name: str) -> None:
    wrong, message = WRONG[name]
    sessions = opened(sums(), capacity=3)
    sessions.step(list("abc"), ones(3))
    with pytest.raises(uncork.InputError, match=message):
        wrong(sessions)
    assert totals(sessions, "abc") == [1, 1, 1]
    assert len(sessions) == 3


@pytest.mark.parametrize("kind", [uncork.InputError, KeyboardInterrupt, MemoryError])
def test_a_step_that_fails_in_the_middle_moves_nobody(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(range(100))
    sessions = opened(sums(), names, 100)
    sessions.step(names, ones(100))
    made, call = [], Batches.call

    def second_fails(self: Batches, *given: Any) -> Any:
        made.append(1)
        if len(made) > 1:
            raise kind("no")
        return call(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "call", second_fails)
        with pytest.raises(uncork.InputError if kind is MemoryError else kind):
            sessions.step(names, ones(100))
    assert len(made) > 1
    assert totals(sessions, names) == [1] * 100


def test_closed_sessions_make_room_and_begin_anew() -> None:
    sessions = opened(sums(), capacity=3)
    sessions.step(list("abc"), ones(3))
    sessions.close("b")
    with pytest.raises(uncork.InputError, match="session 'b': is not open"):
        sessions.step(["b"], ones(1))
    sessions.open("d")
    assert totals(sessions, "adc") == [1, 0, 1]
    sessions.reset("a")
    assert totals(sessions, "ac") == [0, 1]


def test_models_whose_rows_cannot_be_sessions_are_refused() -> None:
    b = uncork.Builder("plain")
    b.result(b.add("ReLU", 1, b.parameter("x", "f32", [None, 2]))[0], "y")
    plain = uncork.compile_model(b.model())
    with pytest.raises(uncork.InputError, match="has no variables that a session could keep"):
        plain.sessions(4)
    b = uncork.Builder("fixed")
    x = b.parameter("x", "f32", [1, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    start = b.constant(np.zeros((1, 2), np.float32))
    shape = uncork.PartialShape([1, 2])
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (total,) = b.add("Add", 1, before, x)
    (total,) = b.add("Reshape", 1, total, b.constant(np.array([1, 2])), special_zero=False)
    b.add("Assign", 6, total, variable_id="kept")
    b.result(total, "y")
    with pytest.raises(uncork.InputError, match=r"count sessions; make the stream of a model with"):
        uncork.compile_model(b.model()).sessions(4)
    b = uncork.Builder("growing")
    x = b.parameter("x", "f32", [None, None, 2])
    start = b.constant(np.zeros((1, 0, 2), np.float32))
    shape = uncork.PartialShape([None, None, 2])
    of = {"variable_id": "kept", "variable_type": "f32"}
    (before,) = b.add("ReadValue", 6, start, variable_shape=shape, **of)
    (both,) = b.add("Concat", 1, before, x, axis=1)
    b.add("Assign", 6, both, variable_id="kept")
    b.result(both, "y")
    with pytest.raises(uncork.InputError, match=r"'kept': has shape .* grows by calls"):
        uncork.compile_model(b.model()).sessions(4)
    for capacity in (0, -1, 1.5, True, None):
        with pytest.raises(uncork.InputError, match="capacity: expected the number of sessions"):
            uncork.compile_model(sums()).sessions(capacity)  # type: ignore[arg-type]
    with pytest.raises(uncork.InputError, match="timeout: expected seconds"):
        uncork.compile_model(sums()).sessions(1, timeout=0)
    with pytest.raises(uncork.InputError, match="do not fit into memory"):
        uncork.compile_model(sums()).sessions(1 << 50)


# ---- time


def test_sessions_without_a_step_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    sessions = opened(sums(), capacity=3, timeout=60)
    sessions.step(list("abc"), ones(3))
    clock[0] += 50
    sessions.step(["b"], ones(1))
    clock[0] += 20
    assert (sessions.late(), "a" in sessions, "b" in sessions) == (["a", "c"], False, True)
    with pytest.raises(uncork.InputError, match="'a': had no step for 60 seconds and timed out"):
        sessions.step(["b", "a"], ones(2))
    assert totals(sessions, "b") == [2]
    sessions.open("d")  # there is room, as two timed out
    sessions.open("a")
    assert (sorted(map(str, sessions)), totals(sessions, "abd")) == (["a", "b", "d"], [0, 2, 0])
    clock[0] += 61
    sessions.open("a")  # the same name again
    assert totals(sessions, "a") == [0]
    assert sorted(map(str, sessions.close_late())) == ["b", "d"]


def test_a_session_in_a_long_step_does_not_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    sessions = opened(sums(), capacity=3, timeout=60)
    sessions.step(list("abc"), ones(3))
    call = Batches.call

    def slow(self: Batches, *given: Any) -> Any:
        clock[0] += 100
        with pytest.raises(uncork.InputError, match="'a': is open already"):
            sessions.open("a")
        assert sessions.close_late() == ["b", "c"]
        return call(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "call", slow)
        sessions.step(["a"], ones(1))
    assert totals(sessions, "a") == [2]


# ---- saved sessions


def test_a_session_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    uncork.write_model(streaming(gru(), "x", 1, frames=1), tmp_path / "s.xml")
    sessions = uncork.load(tmp_path / "s.xml").sessions(4)
    x = np.random.default_rng(0).standard_normal((3, 1, 6)).astype(np.float32)
    for name in "abc":
        sessions.open(name)
    sessions.step(list("abc"), x)
    (tmp_path / "a.bin").write_bytes(sessions.save("a"))
    expected = sessions.step(["a"], x[1:2])["scores"]
    there = (
        "import sys, numpy as np, uncork\n"
        "sessions = uncork.load('s.xml').sessions(4)\n"
        "sessions.load('z', open('a.bin', 'rb').read())\n"
        "np.save('y.npy', sessions.step(['z'], np.load('x.npy'))['scores'])\n"
    )
    np.save(tmp_path / "x.npy", x[1:2])
    subprocess.run([sys.executable, "-c", there], cwd=tmp_path, check=True)
    assert np.load(tmp_path / "y.npy").tobytes() == expected.tobytes()


def test_saved_sessions_are_those_of_one_model() -> None:
    sessions, other, narrow = opened(sums()), opened(sums(begin=1)), opened(sums(width=1), "a")
    sessions.step(["a"], ones(1, 5))
    data, fresh = sessions.save("a"), sessions.save("b")
    sessions.load("c", data)
    sessions.load("a", fresh)
    sessions.load("new", data)
    assert totals(sessions, ["a", "b", "c", "new"]) == [0, 0, 5, 5]
    for wrong in (other, narrow):
        with pytest.raises(uncork.InputError, match="it is of another model"):
            wrong.load("a", data)
        with pytest.raises(uncork.InputError, match="it is of another model"):
            wrong.load("unknown", data)
        assert "unknown" not in wrong
    for bad in (data[:-30], data[: len(data) // 2], b"", None, 5):
        with pytest.raises(uncork.InputError):
            sessions.load("c", bad)  # type: ignore[arg-type]
    assert totals(sessions, "c") == [5]


# ---- threads, forks and what comes between


def test_four_threads_step_sessions_of_their_own_and_shared_ones() -> None:
    sessions = opened(sums(), range(40), 41)
    sessions.open("shared")
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            random = np.random.default_rng(first)
            for _ in range(60):
                own = random.permutation(np.arange(first, first + 10))[: random.integers(1, 10)]
                sessions.step([*own.tolist(), "shared"], ones(len(own) + 1))
                counts[own] += 1
        except BaseException as error:
            wrong.append(error)

    counts = np.zeros(40)
    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert totals(sessions, range(40)) == counts.tolist()
    assert totals(sessions, ["shared"]) == [240]


def test_closing_waits_for_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = opened(sums())
    sessions.step(["a"], ones(1))
    begun, goes_on, call = threading.Event(), threading.Event(), Batches.call

    def slow(self: Batches, *given: Any) -> Any:
        begun.set()
        assert goes_on.wait(20)
        return call(self, *given)

    monkeypatch.setattr(Batches, "call", slow)
    stepping = threading.Thread(target=lambda: sessions.step(["a"], ones(1)))
    stepping.start()
    assert begun.wait(20)
    closing = threading.Thread(target=lambda: sessions.close("a"))
    closing.start()
    assert "a" in sessions
    goes_on.set()
    stepping.join()
    closing.join()
    assert "a" not in sessions


def test_a_step_within_a_step_of_the_same_session_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a signal handler, or a destructor, may begin one."""
    sessions = opened(sums())
    sessions.step(["a", "b"], ones(2))
    call, between = Batches.call, []

    def comes_between(self: Batches, *given: Any) -> Any:
        if not between:
            between.append("begun")
            with pytest.raises(uncork.InputError, match="a step of this very thread"):
                sessions.step(["a"], ones(1))
            sessions.step(["b"], ones(1))
        return call(self, *given)

    monkeypatch.setattr(Batches, "call", comes_between)
    sessions.step(["a"], ones(1))
    assert between
    assert totals(sessions, "ab") == [2, 2]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("count", [40, 100], ids=["spare rows", "rows copied"])
def test_interrupts_at_any_moment_tear_no_step_and_leave_no_session_busy(count: int) -> None:
    pytest.importorskip("llvmlite")

    class Interrupt(Exception):
        pass

    came, raised = 0, 0

    def interrupt(*_: object) -> None:
        nonlocal came
        came += 1
        raise Interrupt

    names = list(range(count))
    sessions = opened(sums(), names, count + 1)
    for _ in range(2):  # the second one writes batches where they stay
        sessions.step(names, ones(count))
    random = np.random.default_rng(0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, float(random.uniform(1e-5, 5e-4)))
                while came == number:  # or it was lost
                    sessions.step(names, ones(count))
            except Interrupt:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised == 400
    found = totals(sessions, names)
    assert found[0] > 2
    assert found == [found[0]] * count
    rows = [*sessions._memory.rows, *sessions._memory.spare]
    assert sorted(rows) == list(range(len(rows)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_has_sessions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while another thread is in a step, which the child does not make."""
    sessions = opened(sums())
    sessions.step(list("abc"), ones(3))
    begun, goes_on, call, me = threading.Event(), threading.Event(), Batches.call, os.getpid()

    def slow(self: Batches, *given: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert goes_on.wait(20)
        return call(self, *given)

    monkeypatch.setattr(Batches, "call", slow)
    thread = threading.Thread(target=lambda: sessions.step(["a"], ones(1)))
    thread.start()
    assert begun.wait(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        found = 1
        try:
            sessions.step(["a", "b"], ones(2, 10))
            found = 0 if totals(sessions, "abc") == [11, 11, 1] else 2
        finally:
            os._exit(found)
    assert os.getpid() == me
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    goes_on.set()
    thread.join()
    assert totals(sessions, "abc") == [2, 1, 1]
