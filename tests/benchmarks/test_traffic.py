"""The benchmark of traffic: what is judged follows from what was measured, and every model does
what the references do.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import traffic
from benchmarks.options import Options, Peers
from benchmarks.traffic import Record, agree, misses
from benchmarks.traffic_cases import CASES, Traffic

import uncork


def record(system: str, time: float, memory: list[float], kernels: list[int]) -> Record:
    """Eleven turns of ten calls."""
    return Record(
        "sessions", system, [time] * 110, [time - 5] * 110, memory, kernels, [1] * len(kernels)
    )


FLAT = [100.0, *[150.0] * 10]


def test_what_grows_after_the_start_is_missed() -> None:
    assert (
        misses([record("uncork", 20, FLAT, [3, 7, *[7] * 9]), record("openvino", 30, FLAT, [])])
        == []
    )
    slower = misses([record("uncork", 40, FLAT, [7] * 11), record("openvino", 30, FLAT, [])])
    assert slower == ["sessions: slower than OpenVINO"]
    grows = misses(
        [record("uncork", 20, [100.0 + 10 * n for n in range(11)], [3 + n for n in range(11)])]
    )
    assert grows == [
        "sessions: memory grows by 67% after the start",
        "sessions: kernels grow from 5 to 13 after the start",
    ]


def test_new_sizes_are_held_against_the_same_once_more() -> None:
    dear = record("uncork", 100, FLAT, [7] * 11)
    dear.again = [60.0] * 110
    assert dear.dearer == 40
    assert misses([dear]) == ["sessions: a new size costs 40 us more"]
    dear.again = []
    assert dear.dearer is None


def test_sums_agree_to_a_thousandth() -> None:
    assert agree([[100.0, 0.0]], [[100.05, 0.0]])
    assert not agree([[100.0]], [[100.5]])
    assert not agree([[100.0]], [[100.0, 1.0]])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_models_do_what_the_references_do(case: Traffic) -> None:
    model = case.model()
    compiled, reference = (
        uncork.compile_model(model, backend=backend, threads=1) for backend in ("cpu", "reference")
    )
    for number in range(2):
        inputs = case.call(number)
        for got, wanted in zip(compiled(*inputs), reference(*inputs), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_calls_depend_on_their_number_alone() -> None:
    for case in CASES:
        for one, other in zip(case.call(5), case.call(5), strict=True):
            np.testing.assert_array_equal(one, other)
    shapes = {tuple(array.shape for array in CASES[0].call(number)) for number in range(40)}
    assert len(shapes) > 15


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_traffic_is_measured(tmp_path: Path) -> None:
    import re

    options = Options(
        Peers(("numpy",), 1), tmp_path, tmp_path, only=re.compile("sessions"), quick=True
    )
    assert traffic.main(options) == 0
    (found,) = json.loads((tmp_path / "traffic-quick.json").read_text())["traffic"]
    assert (found["case"], found["system"], len(found["new"]), len(found["again"])) == (
        "sessions",
        "uncork",
        40,
        40,
    )
    assert len(found["memory"]) == 3
    assert "| sessions" in (tmp_path / "traffic-quick.md").read_text()


def test_a_system_that_fails_is_said_to(tmp_path: Path) -> None:
    notes: list[str] = []
    broken = Traffic(
        "sessions", lambda: uncork.Builder().model(), lambda generator, number: [], 1, 1
    )
    options = Options(Peers(("numpy",), 1), tmp_path, tmp_path, quick=True)
    assert traffic.measured(broken, options, tmp_path, notes) == []
    assert notes and notes[0].startswith("sessions: uncork failed: ")
