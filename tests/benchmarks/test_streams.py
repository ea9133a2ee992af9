"""`benchmarks.streams`: what is measured streams right, and what is wrong is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import streams
from benchmarks.options import Options, Peers
from benchmarks.streams_models import STREAMS

from uncork import compile_model
from uncork.surgery import stream_info, streaming


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(Peers(("numpy",), 1), tmp_path, tmp_path / "none", quick=True, seconds=0.01)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_every_stream_streams_at_once(stream: streams.Stream) -> None:
    made = streaming(stream.model(), stream.axes, frames=stream.frames)
    assert (stream_info(made).delay, stream_info(made).limit) == (0, None)
    assert compile_model(made).inputs[0].shape.static[1] == 1


def test_a_run_is_written_with_what_was_found(options: Options) -> None:
    pytest.importorskip("llvmlite")
    assert streams.main(replace(options, only=re.compile("gate|best"))) == 0
    found = json.loads((options.out / "streams-quick.json").read_text())["cases"]
    assert [case["contender"] for case in found] == [
        "uncork",
        "uncork, a call each",
        "1 sessions",
        "8 sessions",
        "64 sessions",
    ]
    assert all(case["error"] < 1e-4 and case["min_us"] > 0 for case in found)
    assert streams.main(replace(options, only=re.compile("nothing has this name"))) == 2


def test_the_page_holds_results_against_openvino() -> None:
    result = streams.Result
    page = streams.page(
        [
            result("a", "uncork", 10, 11, 0),
            result("a", "openvino bound", 20, 21, 0),
            result("a", "openvino infer(dict)", 30, 31, 0),
            result("a", "64 sessions", 2, 3, 0),
        ]
    )
    rows = [[cell.strip() for cell in row.split("|")] for row in page.splitlines()]
    assert rows[2][5:7] == ["2.00 (>= 1.5)", "3.00"]
    assert rows[5][5:7] == ["10.00 (**misses** 12)", "15.00 (**misses** 28)"]
