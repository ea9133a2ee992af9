"""`uncork score`: the options reach `uncork.score`; what is printed, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.conftest import Command

MAP = ("--input", "ids=stack(a, b)")


@pytest.fixture
def source(tmp_path: Path) -> str:
    """source.parquet: columns a, b and user, four rows; the third has an id that `rows.xml` has no
    row for.
    """
    pq.write_table(
        pa.table({"a": [0, 1, 9, 3], "b": [1, 2, 3, 0], "user": ["k", "l", "m", "n"]}),
        tmp_path / "source.parquet",
    )
    return "source.parquet"


def test_scores(command: Command, rows: Path, source: str, tmp_path: Path) -> None:
    answer = command(
        "score",
        rows,
        source,
        "out.parquet",
        *MAP,
        "--no-strict",
        "--keep",
        "row,user",
        "-o",
        "words=text",
        "--workers",
        1,
    )
    assert (answer.status, answer.out) == (0, "")
    assert answer.err.startswith("4 rows in = 4 scored + 0 rejected\n")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "row": [0, 1, 2, 3],
        "user": ["k", "l", "m", "n"],
        "words": [["zero", "één"], ["één", "twee"], ["", ""], ["", "zero"]],
    }


def test_json(command: Command, rows: Path, source: str) -> None:
    words = (
        "score",
        rows,
        source,
        "out",
        *MAP,
        "--on-error",
        "reject",
        "bad.parquet",
        "--json",
        "--workers",
        1,
    )
    answer = command(*words)
    assert answer.status == 0
    found = answer.json
    assert {k: found[k] for k in ("schema", "rows", "scored", "rejected", "parts")} == {
        "schema": "uncork-score-1",
        "rows": 4,
        "scored": 3,
        "rejected": 1,
        "parts": 1,
    }
    (fault,) = found["faults"]
    assert (fault["row"], fault["value"], fault["layer"]) == (
        2,
        "9",
        "layer 'pick' (Gather-8, id 4)",
    )
    assert pq.read_table("bad.parquet")["user"].to_pylist() == ["m"]


def test_a_bad_row_is_an_error(command: Command, rows: Path, source: str, tmp_path: Path) -> None:
    answer = command("score", rows, source, "out", *MAP, "--workers", 1)
    assert answer.status == 1
    assert answer.message.startswith(
        "row 2, value 9: layer 'pick' (Gather-8, id 4): input 'indices': indices[0, 0] is 9, "
        "expected -4 to 3"
    )
    assert answer.message.endswith("\nnothing was written")
    assert not (tmp_path / "out").exists()


def test_null(command: Command, rows: Path, source: str) -> None:
    answer = command(
        "score",
        rows,
        source,
        "out.parquet",
        *MAP,
        "--on-error",
        "null",
        "-o",
        "t=text",
        "--keep",
        "",
        "--workers",
        1,
    )
    assert answer.status == 0
    assert "rejected rows are in the output, without results" in answer.err
    assert pq.read_table("out.parquet").to_pydict() == {
        "t": [["zero", "één"], ["één", "twee"], None, ["", "zero"]]
    }


def test_show_mapping(command: Command, rows: Path, source: str, tmp_path: Path) -> None:
    answer = command("score", "--show-mapping", rows, source, *MAP, "--keep", "user")
    assert answer.status == 0
    assert answer.out.splitlines() == [
        "4 rows in 1 parquet file(s), 1 unit(s), batches of 4 rows",
        "inputs of the model:",
        "  ids i64[?,2] = stack(a, b)    from a int64, b int64; as it is",
        "columns of the output:",
        "  user string    kept",
        "  rows fixed_size_list<item: fixed_size_list<item: float>[3]>[2]    output 0 of the model",
        "  text fixed_size_list<item: string>[2]    output 1 of the model",
    ]
    assert not (tmp_path / "out").exists()
    assert command("score", "--show-mapping", "--json", rows, source, *MAP).json["mapping"] == {
        "ids": "stack(a, b)"
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.xml", "in.parquet"], "the following arguments are required: OUTPUT"),
        (
            ["a", "b", "c", "--on-error", "reject"],
            "argument --on-error: expected fail, null or reject FILE.parquet, got 'reject'",
        ),
        (
            ["a", "b", "c", "--on-error", "skip"],
            "argument --on-error: expected fail, null or reject FILE.parquet, got 'skip'",
        ),
        (
            ["a", "b", "c", "--top-k", "0"],
            "argument --top-k: expected a whole number of at least 1, got '0'",
        ),
        (["a", "b", "c", "--input", "x"], "argument -i/--input: expected NAME=VALUE, got 'x'"),
        (["a", "b", "c", "--input", "x=1", "--input", "x=2"], "--input: 'x' is given twice"),
        (["a", "b", "c", "--rezume"], "there is no option '--rezume'; did you mean '--resume'?"),
    ],
)
def test_usage(command: Command, words: list[str], message: str) -> None:
    answer = command("score", *words)
    assert answer.status == 2
    assert answer.message.startswith(message + "\n")


def test_without_pyarrow(
    command: Command, rows: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [n for n in sys.modules if n.startswith("uncork.score.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert (
        command("score", rows, source, "out", *MAP).message
        == "uncork score: needs pyarrow, which is not installed: pip install 'uncork[score]'"
    )


def test_negative_ids(command: Command, rows: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [0, -1, 1], "b": [1, -4, 3]}), tmp_path / "negative.parquet")
    words = ("score", rows, "negative.parquet", "out.parquet", *MAP, "--workers", 1)
    answer = command(*words, "--json")
    assert answer.json["negative_ids"] == 2
    assert answer.err.splitlines()[1].startswith(
        "2 negative ids were counted from the end of their table (--no-negative-ids"
    )
    answer = command(*words, "--overwrite", "--no-negative-ids", "--on-error", "null", "--json")
    assert (
        answer.json["negative_ids"],
        answer.json["rejected"],
        answer.json["faults"][0]["row"],
    ) == (0, 1, 1)
    assert answer.json["faults"][0]["reason"].endswith(
        "negative ids, which would count from the end, are refused"
    )


def test_summary_is_one_json_object(command: Command, rows: Path, source: str) -> None:
    answer = command("score", rows, source, "out", *MAP, "--no-strict", "--json", "--workers", 1)
    assert json.loads(answer.out)["rejects"] is None
