"""Rows of different ids that are taken for each place: what becomes a look-up of each id, what
stays, and the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import UncorkError
from uncork.ir.interpret import interpret
from uncork.ir.model import Source
from uncork.passes.undo_unique import undo_unique

TABLE = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)


def taken(b: uncork.Builder, kind: str = "Gather", **other: Any) -> list[Source]:
    """Rows of a table of different ids, and then for each place; `other` changes a detail."""
    detail: dict[str, Any] = {
        "ids": "i64", "rank": 1, "first": 0, "places": 2, "axis": 0, "table_axis": 0, "convert": "",
        "default": None, "batch": 0, "sorted": True,
    }  # fmt: skip
    detail.update(other)

    def number(value: Any) -> Source:
        return b.constant(np.array(value, np.int64))

    ids = b.parameter("ids", detail["ids"], [None] * detail["rank"])
    unique = b.add("Unique", 10, ids, sorted=detail["sorted"])
    table = b.constant(TABLE if detail["table_axis"] == 0 else np.ascontiguousarray(TABLE.T))
    rows = b.add("Gather", 8, table, unique[detail["first"]], number(detail["table_axis"]))[0]
    places = unique[detail["places"]]
    if detail["convert"]:
        places = b.add("Convert", 1, places, destination_type=detail["convert"])[0]
    if kind == "Gather":
        return b.add("Gather", 8, rows, places, number(detail["axis"]))
    marks = b.parameter("marks", "i64", [None])
    more = [] if detail["default"] is None else [number(detail["default"])]
    if kind == "EmbeddingSegmentsSum":
        return b.add(kind, 3, rows, places, marks, number(4), *more)
    return b.add(kind, 3, rows, places, marks, *more)


def model(kind: str = "Gather", **detail: Any) -> uncork.Model:
    builder = uncork.Builder("taken")
    builder.result(taken(builder, kind, **detail)[0], "y")
    return builder.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


MARKS = {
    "Gather": [],
    "EmbeddingSegmentsSum": [np.array([0, 0, 1, 3, 3])],
    "EmbeddingBagOffsetsSum": [np.array([0, 2, 2, 5])],
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize(
    "detail", [{}, {"sorted": False}, {"ids": "i64", "convert": "i64"}], ids=str
)
def test_each_id_is_looked_up(kind: str, detail: dict[str, Any]) -> None:
    built = model(kind, **detail)
    after = undo_unique(built)
    assert kinds(after) == [kind]
    ids = np.array([6, 0, 6, 2, 0])
    given = [ids, *MARKS[kind]]
    expected = interpret(built, given)[0]
    np.testing.assert_allclose(interpret(after, given)[0], expected, rtol=1e-6)
    if kind == "Gather":
        np.testing.assert_array_equal(expected, TABLE[ids])


def test_ids_that_are_put_together_again_are_the_ids() -> None:
    builder = uncork.Builder("again")
    ids = builder.parameter("ids", "i32", [None])
    unique = builder.add("Unique", 10, ids, index_element_type="i32")
    (again,) = builder.add(
        "Gather", 8, unique[0], unique[2], builder.constant(np.int64(0)), name="again"
    )
    builder.result(again, "same")
    builder.result(builder.add("Add", 1, again, again)[0], "twice")
    built = builder.model()
    after = undo_unique(built)
    assert kinds(after) == ["Add"]
    given = np.array([5, -2, 5, 9], np.int32)
    for run in (lambda: interpret(after, [given]), lambda: compile_model(built)(given).values()):
        same, twice = run()
        np.testing.assert_array_equal(same, given)
        np.testing.assert_array_equal(twice, 2 * given)


def test_a_unique_that_others_read_stays() -> None:
    builder = uncork.Builder("read")
    builder.result(taken(builder)[0], "y")
    (unique,) = (n for n in builder.model().nodes if n.type_name == "Unique")
    builder.result(Source(unique.id, 3), "counts")
    after = undo_unique(builder.model())
    assert sorted(kinds(after)) == ["Gather", "Unique"]
    rows, counts = interpret(after, [np.array([3, 1, 3])])
    np.testing.assert_array_equal(rows, TABLE[[3, 1, 3]])
    np.testing.assert_array_equal(counts, [1, 2])


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        ("Gather", {"first": 1}),  # rows by places, not by ids
        ("Gather", {"first": 3}),
        ("Gather", {"places": 1}),  # the first place of each, not that of all
        ("Gather", {"places": 3}),
        ("Gather", {"axis": 1}),  # columns
        ("Gather", {"table_axis": 1}),
        ("Gather", {"rank": 2}),  # places are flat, ids are not
        ("EmbeddingSegmentsSum", {"default": 0}),  # the first of the different ids
        ("EmbeddingBagOffsetsSum", {"default": 1}),
        ("EmbeddingSegmentsSum", {"ids": "i32"}),  # ids and segments of one type
    ],
    ids=str,
)
def test_what_stays(kind: str, detail: dict[str, Any]) -> None:
    built = model(kind, **detail)
    assert undo_unique(built) is built


def test_floats_stay() -> None:
    """Of 0 and -0, which are equal, the first one is given for both."""
    builder = uncork.Builder("zeros")
    x = builder.parameter("x", "f32", [None])
    unique = builder.add("Unique", 10, x)
    zero = builder.constant(np.int64(0))
    builder.result(builder.add("Gather", 8, unique[0], unique[2], zero)[0], "y")
    built = builder.model()
    assert undo_unique(built) is built
    got = compile_model(builder.model())(np.array([0.0, -0.0], np.float32))["y"]
    assert not np.signbit(got).any()


@pytest.mark.parametrize("kind", ["Gather", "EmbeddingSegmentsSum"])
def test_random_against_the_layers(kind: str) -> None:
    """Ids below 0, which Gather counts from the end, and ids outside of the table as well."""
    built = model(kind)
    fast, slow = compile_model(built), compile_model(built, backend="reference")

    @settings(max_examples=80, deadline=None)
    @given(
        ids=st.lists(st.integers(-9, 9), min_size=1, max_size=12),
        rows=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    )
    def run(ids: list[int], rows: list[int]) -> None:
        marks = [] if kind == "Gather" else [np.sort(np.array(rows[: len(ids)]))]
        outcomes = []
        for compiled in (fast, slow):
            try:
                outcomes.append(np.round(compiled(np.array(ids), *marks)["y"], 4).tolist())
            except UncorkError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]

    run()
