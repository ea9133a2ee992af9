"""Inputs opened at random, with a fixed seed. `python -m tests.fuzz.run_graphs --opened` does
thousands, and `--empty` gives axes of nothing besides.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.fuzz import run_graphs
from tests.fuzz.opened import case
from tests.fuzz.opened_worker import fenced

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="waits for a process with select")


@pytest.mark.parametrize("empty", [False, True], ids=["sizes", "empty"])
def test_backends_agree_on_opened_inputs(empty: bool) -> None:
    report = run_graphs.fuzz(2026, range(150), opened=True, empty=empty)
    found = "\n".join(f"{finding}\n{finding.traceback}" for finding in report.findings)
    assert not report.findings, found
    assert report.outcomes["ran"] > 100
    assert report.outcomes["calls by plans"] > 300
    assert report.outcomes["answers to nothing"] > (50 if empty else 20)
    assert 0.15 < report.outcomes["calls refused"] / report.outcomes["calls"] < 0.6


def test_most_inputs_are_open_and_calls_differ() -> None:
    made = [one for number in range(60) if (one := case(f"2026:{number}")) is not None]
    open_axes = [
        dim.size is None
        for one in made
        for parameter in one.model.parameters
        for dim in one.model.by_id[parameter].outputs[0].spec.shape
    ]
    assert sum(open_axes) > len(open_axes) / 3
    shapes = [{tuple(array.shape for array in call) for call in one.calls} for one in made]
    assert sum(len(each) > 1 for each in shapes) > len(made) / 2


@pytest.mark.parametrize("first", [False, True])
def test_fenced_arrays_hold_what_was_given(first: bool) -> None:
    array = np.arange(7, dtype=np.float32).reshape(7, 1)
    copy = fenced(array, first)
    assert np.array_equal(copy, array)
