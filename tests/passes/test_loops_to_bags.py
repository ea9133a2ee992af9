"""Loops that sum rows of a table by parts of the ids: what becomes bags, what stays, and the
results.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, InnerResult, JoinedOutput, Slicing, TurnNumber
from uncork.passes.loops_to_bags import loops_to_bags

TABLE = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)
WEIGHTS = np.array([0.5, 1, 2, 3, 4], np.float32)
IDS = np.array([1, 6, 2, 2, 0])


def model(**other: Any) -> uncork.Model:
    """The loop as torch's exporter writes it; `other` changes a detail."""
    detail: dict[str, Any] = {
        "reduction": "ReduceSum", "weights": False, "last": False, "axis": 0, "first": 1,
        "keep": False, "table_axis": 0, "step": 1, "go_on": True, "turns": None, "same": True,
        "stacked": 0, "inner_table": True, "lead": "shape",
    }  # fmt: skip
    assert not other.keys() - detail.keys()
    detail.update(other)

    def body() -> GraphBody:
        b = uncork.Builder("turn")

        def n(value: Any) -> Any:
            return b.constant(np.array(value, np.int64))

        turn = b.parameter("turn", "i64", [])
        b.parameter("condition", "boolean", [])
        starts, ends = b.parameter("starts", "i64", [None]), b.parameter("ends", "i64", [None])
        ids, weights = b.parameter("ids", "i64", [None]), b.parameter("weights", "f32", [None])
        given = b.parameter("table", "f32", [7, 3])
        start, end = (
            b.add("Unsqueeze", 1, b.add("Gather", 8, v, turn, n(0))[0], n([0]))[0]
            for v in (starts, ends)
        )

        def part(data: Any) -> Any:
            return b.add("Slice", 8, data, start, end, n([detail["step"]]), n([0]))[0]

        table = b.constant(TABLE) if detail["inner_table"] else given
        (rows,) = b.add("Gather", 8, table, part(ids), n(detail["table_axis"]))
        if detail["weights"]:
            (column,) = b.add("Unsqueeze", 1, part(weights), n([1]))
            (rows,) = b.add("Multiply", 1, rows, column)
        (total,) = b.add(
            detail["reduction"], 1, rows, n([detail["axis"]]), keep_dims=detail["keep"]
        )
        if not detail["keep"]:
            (total,) = b.add("Unsqueeze", 1, total, n([detail["stacked"]]))
        b.result(b.constant(np.array(detail["go_on"])))
        b.result(total)
        return GraphBody(b.model())

    b = uncork.Builder("bags")

    def n(value: Any) -> Any:
        return b.constant(np.array(value, np.int64))

    ids, starts = b.parameter("ids", "i64", [None]), b.parameter("starts", "i64", [None])
    weights = b.parameter("weights", "f32", [None])
    size = b.add("ShapeOf", 3, ids)[0] if detail["lead"] == "shape" else n([5])
    marks = starts if detail["last"] else b.add("Concat", 1, starts, size, axis=0)[0]
    (ends,) = b.add("Slice", 8, marks, n([detail["first"]]), n([2**62]), n([1]), n([0]))
    (counts,) = b.add("ShapeOf", 3, ends if detail["turns"] is None else starts)
    (turns,) = b.add("Squeeze", 1, counts, n([0]))
    if detail["turns"] is not None:
        (turns,) = b.add("Minimum", 1, turns, n(detail["turns"]))
    ports = [turns, b.constant(np.array(True)), marks, ends, ids, weights, b.constant(TABLE)]
    ports[2] = marks if detail["same"] else b.add("Add", 1, marks, n([0]))[0]
    inputs = [TurnNumber(0)]
    inputs += [BodyInput(i, i) for i in range(1, 7)]
    outputs = [
        InnerResult(0, purpose="execution_condition"),
        JoinedOutput(0, 1, Slicing(detail["stacked"])),
    ]
    bodies = {"body": BodyMap(body(), tuple(inputs), tuple(outputs), ((0, 1),))}
    b.result(b.add_with_bodies("Loop", 5, *ports, bodies=bodies)[0], "bags")
    return b.model()


def kinds(model: uncork.Model) -> set[str]:
    return {node.type_name for node in model.nodes}


def expected(ids: Any, bounds: Any, weights: Any = None, mean: bool = False) -> Any:
    """By NumPy, bag by bag."""
    found = []
    for start, end in itertools.pairwise(bounds):
        rows = TABLE[ids[start:end]]
        if weights is not None:
            rows = rows * weights[start:end, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = rows.sum(0, dtype=np.float64)
            found.append(total / np.float64(len(rows)) if mean else total)
    return np.array(found).reshape(-1, 3)


BOUNDS = ([0, 2, 2, 5], [0, 5], [0, 0, 5], [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("inner_table", [True, False])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["sum", "weighted", "mean"])
def test_such_loops_are_bags(kind: str, last: bool, inner_table: bool) -> None:
    reduction = "ReduceMean" if kind == "mean" else "ReduceSum"
    given = model(
        reduction=reduction, weights=kind == "weighted", last=last, inner_table=inner_table
    )
    made = loops_to_bags(given)
    assert "Loop" not in kinds(made)
    assert "EmbeddingBagOffsets" in kinds(made)
    compiled = uncork.compile_model(given)
    for bounds in BOUNDS:
        starts = np.array(bounds if last else bounds[:-1])
        weights = WEIGHTS if kind == "weighted" else None
        found = compiled(ids=IDS, starts=starts, weights=WEIGHTS)[0]
        wanted = expected(IDS, bounds, weights, kind == "mean")
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_lies_behind_the_last_mark_is_in_no_bag() -> None:
    found = uncork.compile_model(model(last=True))(ids=IDS, starts=[0, 1, 3], weights=WEIGHTS)[0]
    np.testing.assert_allclose(found, expected(IDS, [0, 1, 3]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("starts", [[1, 2], [0, 3, 1], [0, -2], [0, 9], [4, 4, 4]])
def test_marks_that_are_no_offsets_mean_what_the_loop_makes_of_them(starts: list[int]) -> None:
    found = uncork.compile_model(model())(ids=IDS, starts=starts, weights=WEIGHTS)[0]
    wanted = expected(IDS, [*starts, len(IDS)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_ids_from_the_end_and_outside_mean_what_they_mean_to_a_gather() -> None:
    ids = np.array([-1, 0, 7])
    found = uncork.compile_model(model())(ids=ids, starts=[0], weights=WEIGHTS[:3])[0]
    np.testing.assert_allclose(found[0], TABLE[6] + TABLE[0], rtol=1e-5)


def test_no_bags() -> None:
    compiled = uncork.compile_model(model())
    found = compiled(ids=IDS, starts=np.zeros(0, np.int64), weights=WEIGHTS)[0]
    assert found.shape[0] == 0


@pytest.mark.parametrize(
    "detail",
    [
        {"reduction": "ReduceMax"},
        {"axis": 1, "stacked": 0},
        {"first": 2},
        {"keep": True},
        {"step": 2},
        {"go_on": False},
        {"turns": 1},
        {"same": False},
        {"stacked": 1},
    ],
)
def test_others_stay(detail: dict[str, Any]) -> None:
    given = model(**detail)
    assert loops_to_bags(given) is given


def test_a_size_that_is_not_of_the_ids_is_where_the_last_bag_ends() -> None:
    made = model(lead="number")
    assert "EmbeddingBagOffsets" in kinds(loops_to_bags(made))
    ids = np.array([1, 6, 2, 2, 0, 3, 3])
    found = uncork.compile_model(made)(ids=ids, starts=[0, 2], weights=np.ones(7, np.float32))[0]
    np.testing.assert_allclose(found, expected(ids, [0, 2, 5]), rtol=1e-5, atol=1e-6)
