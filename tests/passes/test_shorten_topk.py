"""Sorted rows of which only the first are read: what is shortened, what stays, and the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.passes.shorten_topk import shorten_topk
from uncork.types import Array


def sliced(b: uncork.Builder, data: Source, stop: int, axes: list[int] | None, **at: int) -> Source:
    """The elements from 0 (or `start`) to a stop by steps of 1 (or `step`)."""
    bounds = [[at.get("start", 0)], [stop], [at.get("step", 1)], axes]
    given = [b.constant(np.array(bound)) for bound in bounds if bound is not None]
    return b.add("Slice", 8, data, *given)[0]


def model(
    stops: tuple[int | None, int | None] = (3, 3),
    axes: list[int] | None = [-1],  # noqa: B006
    element: str = "f32",
    rows: int | None = None,
    **detail: Any,
) -> uncork.Model:
    """A sort of rows whose results are sliced; None leaves one as it is."""
    at = {name: detail.pop(name) for name in ("start", "step") if name in detail}
    settings: dict[str, Any] = {"axis": -1, "mode": "min", "sort": "value", **detail}
    b = uncork.Builder("sorted")
    x = b.parameter("x", element, [rows, None])
    k = b.parameter("k", "i64", [])
    results = b.add("TopK", 11, x, k, **settings)
    for result, stop, name in zip(results, stops, ("values", "places"), strict=True):
        b.result(result if stop is None else sliced(b, result, stop, axes, **at), name)
    return b.model()


def kinds(model: uncork.Model) -> list[str]:
    return [n.type_name for n in model.nodes if n.type_name not in ("Parameter", "Const", "Result")]


def test_slices_of_a_whole_sort_are_what_it_makes() -> None:
    assert kinds(shorten_topk(model())) == ["LeadingBest"]
    assert kinds(shorten_topk(model(axis=0, axes=None))) == ["LeadingBest"]
    assert kinds(shorten_topk(model(sort="none"))) == ["LeadingBest"]


def test_the_longest_slice_says_how_many_are_made() -> None:
    assert kinds(shorten_topk(model(stops=(2, 5)))) == ["LeadingBest", "Slice"]


@pytest.mark.parametrize(
    "other",
    [
        {"stops": (None, 3)},  # all values are a result
        {"stops": (-1, 3)},
        {"start": 1},
        {"step": 2},
        {"axes": [0]},  # fewer rows, each of them whole
        {"sort": "index"},  # the first places, not the best
    ],
)
def test_what_reads_more_than_the_first_stays(other: dict[str, Any]) -> None:
    before = model(**other)
    assert shorten_topk(before) is before


# Worked by hand: the order of equal elements is that of their places.
ROWS = np.array([[5, 1, 4, 1, 3, 9, 2, 6], [0, 0, 0, 0, 7, -1, 8, -1]])
FIRST = {
    "min": ([[1, 1, 2], [-1, -1, 0]], [[1, 3, 6], [5, 7, 0]]),
    "max": ([[9, 6, 5], [8, 7, 0]], [[5, 7, 0], [6, 4, 0]]),
}


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("element", ["f32", "i64", "f16"])
@pytest.mark.parametrize("mode", FIRST)
def test_the_first_of_sorted_rows(mode: str, element: str, backend: str) -> None:
    compiled = compile_model(model(mode=mode, element=element), backend=backend)
    data = ROWS.astype({"f32": np.float32, "i64": np.int64, "f16": np.float16}[element])
    values, places = (np.array(expected) for expected in FIRST[mode])
    for count in (8, 3, 2, 0):  # fewer than the slices ask for, too
        found = compiled(data, np.array(count))
        assert found["values"].dtype == data.dtype
        np.testing.assert_array_equal(found["values"], values[:, :count])
        np.testing.assert_array_equal(found["places"], places[:, :count])
    unlike = compile_model(model(stops=(2, 3), mode=mode, element=element), backend=backend)
    found = unlike(data, np.array(8))
    np.testing.assert_array_equal(found["values"], values[:, :2])
    np.testing.assert_array_equal(found["places"], places)
    short = compiled(data[:, :2], np.array(2))  # rows that are shorter than the slices
    np.testing.assert_array_equal(short["values"], np.sort(data[:, :2])[:, :: _way(mode)])


def _way(mode: str) -> int:
    return 1 if mode == "min" else -1


def test_more_than_the_rows_have_is_refused_as_before() -> None:
    compiled = compile_model(model())
    data: Array = ROWS.astype(np.float32)
    compiled(data, np.array(8))
    for count in (9, -1):
        with pytest.raises(uncork.InputError, match=f"input 'k' is {count}, expected 0 to 8"):
            compiled(data, np.array(count))
