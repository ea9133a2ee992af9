"""Variables: what a call assigns is there in the next one, and only when the call succeeded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork


def running_sum() -> uncork.Model:
    """sum += x, from 0.5; refuses ids outside its table of three rows."""
    builder = uncork.Builder("sum")
    x, ids = builder.parameter("x", "f32", [2]), builder.parameter("ids", "i64", [1])
    start = builder.constant(np.full(2, 0.5, np.float32))
    (old,) = builder.add("ReadValue", 6, start, variable_id="s", variable_type="f32", variable_shape=uncork.PartialShape([2]))
    (new,) = builder.add("Add", 1, old, x)
    (kept,) = builder.add("Assign", 6, new, variable_id="s")
    (bag,) = builder.add("EmbeddingBagOffsetsSum", 3, builder.constant(np.ones((3, 2), np.float32)), ids, builder.constant(np.array([0])))
    builder.result(new, "sum")
    builder.result(bag, "bag")
    del kept
    return builder.model()


X, GOOD, BAD = np.array([1, 2], np.float32), np.array([0]), np.array([7])


def test_state_is_kept_reset_and_independent(tmp_path: Path) -> None:
    uncork.write_model(running_sum(), tmp_path / "sum.xml")
    compiled = uncork.load(tmp_path / "sum.xml")
    assert compiled(X, GOOD)["sum"].tolist() == [1.5, 2.5]
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]
    other = compiled.new_request()
    assert other(X, GOOD)["sum"].tolist() == [1.5, 2.5]
    compiled.reset_state()
    assert compiled(X, GOOD)["sum"].tolist() == [1.5, 2.5]


def test_a_call_that_fails_changes_nothing() -> None:
    compiled = uncork.compile_model(running_sum())
    compiled(X, GOOD)
    with pytest.raises(uncork.InputError, match=r"indices\[0\] is 7"):
        compiled(X, BAD)
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]


def test_the_state_is_not_the_callers_array() -> None:
    compiled = uncork.compile_model(running_sum())
    given = X.copy()
    compiled(given, GOOD)["sum"][...] = np.nan
    given[...] = np.nan
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]


def test_an_assignment_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    uncork.write_model(running_sum(), tmp_path / "sum.xml")
    path = tmp_path / "sum.xml"
    text = path.read_text(encoding="utf-8")
    first = text.index('variable_id="s"')
    path.write_text(text[:first] + 'variable_id="t"' + text[first + len('variable_id="s"') :], encoding="utf-8")
    with pytest.raises(uncork.ValidationError, match="assigns to variable 's', which no ReadValue reads"):
        uncork.load(path)
