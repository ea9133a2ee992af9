"""`python -m tools.durations`: seconds by folder, and tests beyond the budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.durations import main

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.ops.test_every_op" name="test_sample[Abs-1: a]" time="0.5"/>
<testcase classname="tests.ops.test_random" name="test_seeds" time="1.25"/>
<testcase classname="tests.test_types" name="test_text" time="30"/>
</testsuite></testsuites>"""


def test_seconds_by_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.xml").write_text(RESULTS, encoding="utf-8")
    assert main([str(tmp_path / "results.xml")]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["tests", "1", "tests", "30.0", "s"],
        ["tests/ops", "2", "tests", "1.8", "s"],
        ["all", "3", "tests", "31.8", "s"],
    ]


def test_a_test_beyond_the_budget_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.xml").write_text(RESULTS, encoding="utf-8")
    assert main([str(tmp_path / "results.xml"), "--budget", "20"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "tests.test_types::test_text took 30 s, more than the 20 it may take"
