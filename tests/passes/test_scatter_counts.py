"""Counts of Unique that are scattered to what they count: what becomes one step, what stays, and
the results.
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
from uncork.passes.scatter_counts import scatter_counts


def model(kind: str = "ScatterUpdate", opset: int = 3, **other: Any) -> uncork.Model:
    """Counts of keys over what data there are; `other` changes a detail."""
    detail: dict[str, Any] = {
        "keys": "i64", "key_rank": 1, "data": "i64", "shape": [None], "axis": 0, "numbers": 0,
        "counts": 3, "attributes": {}, "convert": "", "along": None,
    }  # fmt: skip
    detail.update(other)
    b = uncork.Builder("counts")
    data = b.parameter("data", detail["data"], detail["shape"])
    keys = b.parameter("keys", detail["keys"], [None] * detail["key_rank"])
    axis = [] if detail["along"] is None else [b.constant(np.array(detail["along"]))]
    unique = b.add("Unique", 10, keys, *axis, sorted=False)
    counts = unique[detail["counts"]]
    if detail["convert"]:
        counts = b.add("Convert", 1, counts, destination_type=detail["convert"])[0]
    b.result(
        b.add(
            kind,
            opset,
            data,
            unique[detail["numbers"]],
            counts,
            b.constant(np.int64(detail["axis"])),
            **detail["attributes"],
        )[0],
        "y",
    )
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


GOOD = [
    ("ScatterUpdate", 3, {}),
    ("ScatterUpdate", 3, {"keys": "i32"}),
    ("ScatterUpdate", 3, {"key_rank": 2}),
    ("ScatterUpdate", 3, {"along": 0}),
    ("ScatterUpdate", 3, {"data": "i32", "convert": "i32"}),
    ("ScatterUpdate", 3, {"data": "f32", "convert": "f32"}),
    ("ScatterElementsUpdate", 3, {}),
    ("ScatterElementsUpdate", 12, {}),
]


@pytest.mark.parametrize(("kind", "opset", "detail"), GOOD, ids=str)
def test_counts_are_made_where_they_go(kind: str, opset: int, detail: dict[str, Any]) -> None:
    built = model(kind, opset, **detail)
    after = scatter_counts(built)
    assert kinds(after) == ["ScatteredCounts"]
    types = {name: detail.get(name, "i64").replace("i", "int").replace("f", "float") for name in
             ("data", "keys")}  # fmt: skip
    data = np.array([9, 9, 9, 9, 9, 9]).astype(types["data"])
    keys = np.array([4, 0, 4, 4, 3, 0]).astype(types["keys"])
    if detail.get("key_rank") == 2:
        keys = keys.reshape(2, 3)
    expected = [2, 9, 9, 1, 3, 9]
    np.testing.assert_array_equal(interpret(after, [data, keys])[0], expected)
    compiled = compile_model(built)
    for _ in range(2):
        got = compiled(data, keys)["y"]
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == data.dtype
    if compiled.plan.steps[0].kernel != "reference":  # without llvmlite
        assert [step.kernel.partition("_")[0] for step in compiled.plan.steps] == ["count"]


@pytest.mark.parametrize(
    ("kind", "opset", "detail"),
    [
        ("ScatterUpdate", 3, {"numbers": 1}),  # the first places of keys
        ("ScatterUpdate", 3, {"counts": 1}),
        ("ScatterUpdate", 3, {"counts": 0}),
        ("ScatterUpdate", 3, {"data": "f64", "convert": "f64"}),
        ("ScatterUpdate", 3, {"data": "i8", "convert": "i8"}),  # counts of 8 bits go round
        ("ScatterElementsUpdate", 12, {"attributes": {"reduction": "sum"}}),
        ("ScatterElementsUpdate", 12, {"attributes": {"reduction": "max"}}),
    ],
    ids=str,
)
def test_what_stays(kind: str, opset: int, detail: dict[str, Any]) -> None:
    built = model(kind, opset, **detail)
    assert scatter_counts(built) is built


def test_counts_that_others_read_stay_too() -> None:
    b = uncork.Builder("both")
    data, keys = b.parameter("data", "i64", [None]), b.parameter("keys", "i64", [None])
    unique = b.add("Unique", 10, keys)
    b.result(b.add("ScatterUpdate", 3, data, unique[0], unique[3], b.constant(np.int64(0)))[0], "y")
    b.result(unique[0], "numbers")
    after = scatter_counts(b.model())
    assert sorted(kinds(after)) == ["ScatteredCounts", "Unique"]
    y, numbers = interpret(after, [np.zeros(3, np.int64), np.array([2, 0, 2])])
    np.testing.assert_array_equal(y, [1, 0, 2])
    np.testing.assert_array_equal(numbers, [0, 2])


@pytest.mark.parametrize(("kind", "opset", "detail"), GOOD[:1] + GOOD[-1:], ids=str)
def test_random_against_the_layers(kind: str, opset: int, detail: dict[str, Any]) -> None:
    """Keys that are no places as well."""
    built = model(kind, opset, **detail)
    fast, slow = compile_model(built), compile_model(built, backend="reference")

    @settings(max_examples=100, deadline=None)
    @given(
        places=st.integers(1, 9),
        keys=st.lists(st.integers(0, 8), min_size=1, max_size=30),
        outside=st.sampled_from([None, None, -1, 9, -9, 1 << 40]),
    )
    def run(places: int, keys: list[int], outside: int | None) -> None:
        data = np.arange(50, 50 + places)
        numbers = np.array(keys) % places
        if outside is not None:
            numbers[-1] = outside
        outcomes = []
        for compiled in (fast, slow):
            try:
                outcomes.append(compiled(data, numbers)["y"].tolist())
            except UncorkError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]

    run()
