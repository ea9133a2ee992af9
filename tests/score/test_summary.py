"""Progress is a bar on terminals and a line now and then elsewhere; the summary is for all."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import pytest

from uncork.score.columns import RowError
from uncork.score.summary import Summary, progress_bar, progress_lines
from uncork.score.unit import Counts


def test_no_bar_on_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(100, True) as show:
        show(50)
    with progress_bar(100, False) as show:
        show(50)
    assert capsys.readouterr() == ("", "")


def test_a_line_every_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 10.0, 29.0, 31.0, 40.0, 60.0, 61.5])
    say = progress_lines(10_000, lambda: next(times))
    for rows in (1000, 1500, 4100, 5000, 6000, 7150):  # 1,000 are of an earlier run
        say(rows)
    assert capsys.readouterr() == (
        "",
        "4,100 of 10,000 rows, 100 rows/s, 59 s left\n"
        "7,150 of 10,000 rows, 100 rows/s, 28 s left\n",
    )


def test_a_line_before_any_row_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 31.0])
    progress_lines(10, lambda: next(times))(0)
    assert capsys.readouterr().err == "0 of 10 rows, 0 rows/s\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    ours, theirs = os.openpty()
    with io.TextIOWrapper(io.FileIO(theirs, "w"), write_through=True) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        with progress_bar(1000, True) as show:
            show(250)
            show(500)
    text = b""
    with contextlib.suppress(OSError):  # how a pseudo-terminal ends
        while read := os.read(ours, 100_000):
            text += read
    os.close(ours)
    assert b"500/1000" in text
    assert b"50%" in text


def test_the_summary_names_rows_and_their_sum() -> None:
    faults = (
        RowError(7, "is null: give a fill to replace it", "a", "null"),
        RowError(9, "indices[0] is 5", "ids", "5", "layer 'bag'"),
    )
    summary = Summary("/out", "/bad", Counts(1000, 990, 10), 200, 4, 2.0, 2, 1, "reject", faults)
    assert str(summary).splitlines() == [
        "1,000 rows in = 990 scored + 10 rejected",
        "2.0 s, 400 rows/s, 2 workers, 1 replaced (200 rows by an earlier run)",
        "  row 7, column 'a', value null: is null: give a fill to replace it",
        "  row 9, column 'ids', value 5: layer 'bag': indices[0] is 5",
        "  and 8 more",
        "output: /out; rejected rows: /bad",
    ]
