"""Whole runs by worker processes: files in, files out, formats, and what is refused before anything
is written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import TABLE, Row, random_rows, summed
from tests.score.test_units import BAGS, GOOD, quads, spoiled, write
from uncork.errors import InputError

ROWS = random_rows(500, 3)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def check(output: Path, rows: list[Row] = ROWS) -> pa.Table:
    table = pq.read_table(output)
    assert table["sums"].to_pylist() == [summed(row.items) for row in rows]
    assert table["row"].to_pylist() == list(range(len(rows)))
    return table


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_folder_of_parts_in_order(bags: Path, tmp_path: Path, workers: int) -> None:
    source = write(tmp_path / "rows.parquet", ROWS, 60)
    summary = uncork.score(
        bags, source, tmp_path / "out", inputs=BAGS, workers=workers, batch_size=32
    )
    check(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["_SUCCESS", *(f"part-{i:05d}.parquet" for i in range(summary.parts))]
    assert summary.parts > 4
    assert (summary.counts.rows, summary.counts.scored, summary.counts.rejected) == (500, 500, 0)
    assert hidden(tmp_path) == []


def test_one_file(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", ROWS, 60)
    uncork.score(
        bags,
        source,
        tmp_path / "out.parquet",
        inputs=BAGS,
        workers=2,
        batch_size=32,
        keep=["user", "row"],
    )
    assert check(tmp_path / "out.parquet").column_names == ["user", "row", "sums"]
    assert hidden(tmp_path) == []


def test_many_files_of_all_kinds(bags: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    write(folder / "a.parquet", ROWS[:100])
    write(folder / "b" / "0.parquet", ROWS[100:350], 30)
    write(folder / "c.parquet", [])
    write(folder / "d.parquet", ROWS[350:])
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.parquet").write_text("no parquet")
    uncork.score(bags, folder, tmp_path / "out", inputs=BAGS, workers=2, batch_size=64)
    check(tmp_path / "out")
    uncork.score(bags, str(folder / "**" / "*.parquet"), tmp_path / "glob", inputs=BAGS, workers=1)
    check(tmp_path / "glob")
    uncork.score(bags, f"file://{folder}", tmp_path / "uri", inputs=BAGS, workers=1)
    check(tmp_path / "uri")
    uncork.score(
        bags,
        [folder / "d.parquet", folder / "a.parquet"],
        tmp_path / "list",
        inputs=BAGS,
        workers=1,
    )
    check(tmp_path / "list", ROWS[350:] + ROWS[:100])


def test_arrow_ipc(bags: Path, tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "rows.parquet", ROWS))
    with (
        pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        for start in range(0, 500, 70):
            writer.write_table(table.slice(start, 70))
    uncork.score(
        bags, tmp_path / "rows.arrow", tmp_path / "out", inputs=BAGS, workers=2, batch_size=32
    )
    check(tmp_path / "out")
    pyarrow.feather.write_feather(table, str(tmp_path / "rows.feather"), compression="lz4")
    uncork.score(bags, tmp_path / "rows.feather", tmp_path / "feather", inputs=BAGS, workers=1)
    check(tmp_path / "feather")


def test_csv(picks: Path, tmp_path: Path) -> None:
    text = "a,b,c,d,weight\n" + "".join(
        f"{','.join(map(str, ids))},{i / 4}\n" for i, ids in enumerate(GOOD)
    )
    (tmp_path / "rows.csv").write_text(text)
    mapping = {"ids": "stack(a, b, c, d)", "weight": "weight"}
    uncork.score(
        picks,
        tmp_path / "rows.csv",
        tmp_path / "out",
        inputs=mapping,
        workers=2,
        batch_size=8,
        keep=["a", "weight"],
    )
    table = pq.read_table(tmp_path / "out")
    assert table["weight_out"].to_pylist() == [i / 4 for i in range(40)]
    assert table["a"].to_pylist() == [ids[0] for ids in GOOD]
    pacsv.write_csv(pacsv.read_csv(tmp_path / "rows.csv"), tmp_path / "rows2.csv")
    uncork.score(picks, str(tmp_path / "rows*.csv"), tmp_path / "two", inputs=mapping, workers=1)
    assert (
        pq.read_table(tmp_path / "two")["weight_out"].to_pylist() == [i / 4 for i in range(40)] * 2
    )


def test_rejects(picks: Path, tmp_path: Path) -> None:
    ids, weight, bad = spoiled()
    source = quads(tmp_path / "rows.parquet", ids, weight)
    options: dict[str, Any] = {
        "on_error": "reject",
        "rejects": tmp_path / "bad.parquet",
        "workers": 2,
        "batch_size": 4,
    }
    summary = uncork.score(picks, source, tmp_path / "out.parquet", **options)
    assert (summary.counts.rows, summary.counts.scored, summary.counts.rejected) == (40, 33, 7)
    assert [fault.row for fault in summary.faults] == list(bad)[:5]
    assert str(summary).startswith("40 rows in = 33 scored + 7 rejected\n")
    rejects = pq.read_table(tmp_path / "bad.parquet").to_pydict()
    assert rejects["reject_row"] == list(bad)
    assert rejects["ids"] == [ids[i] for i in bad]
    assert pq.read_table(tmp_path / "out.parquet")["row"].to_pylist() == [
        i for i in range(40) if i not in bad
    ]
    # The rejected rows are rows: mended, they are scored as any.
    good = quads(tmp_path / "good.parquet", GOOD, [0.5] * 40)
    uncork.score(
        picks,
        good,
        tmp_path / "out2",
        on_error="reject",
        rejects=tmp_path / "none.parquet",
        workers=1,
    )
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
    assert hidden(tmp_path) == []


def test_nothing_to_score(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", [])
    for name in ("out", "out.parquet"):
        summary = uncork.score(bags, source, tmp_path / name, inputs=BAGS, workers=1)
        assert summary.counts.rows == 0
        assert pq.read_table(tmp_path / name).column_names == ["row", "sums"]


def test_an_output_that_is_there_stays(bags: Path, tmp_path: Path) -> None:
    old = write(tmp_path / "old.parquet", ROWS[:100])
    source = write(tmp_path / "rows.parquet", ROWS)
    for name in ("out", "out.parquet"):
        uncork.score(bags, old, tmp_path / name, inputs=BAGS, workers=1)
        with pytest.raises(
            InputError,
            match=rf"{name}: is there already: choose another name, or overwrite it "
            r"\(--overwrite\)",
        ):
            uncork.score(bags, source, tmp_path / name, inputs=BAGS, workers=1)
        check(tmp_path / name, ROWS[:100])
        uncork.score(bags, source, tmp_path / name, inputs=BAGS, workers=1, overwrite=True)
        check(tmp_path / name)
    assert hidden(tmp_path) == []


def test_what_cannot_be_is_refused_before_anything_is_written(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", ROWS)
    data = source.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    other = tmp_path / "other"
    other.mkdir()
    write(other / "a.parquet", ROWS)
    pq.write_table(pa.table({"user": ["x"], "items": pa.array([[1]])}), other / "b.parquet")
    pq.write_table(pa.table({"user": [1]}), other / "c.parquet")
    (other / "d.parquet").write_text("PAR1")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (tmp_path / "none.parquet", {}, "none.parquet: there is no such file"),
        (tmp_path / "no*.parquet", {}, "no*.parquet: there is no such file"),
        (
            tmp_path / "cut.parquet",
            {},
            "cut.parquet: cannot be read as parquet: Parquet magic bytes not found in footer",
        ),
        (bags, {}, "expected files of one format (parquet, ipc, csv), told by their suffixes"),
        (source, {"format": "csw"}, "got csw"),
        (source, {"on_error": "skip"}, "on_error: expected fail, null or reject, got 'skip'"),
        (
            source,
            {"on_error": "reject"},
            "rejects: on_error='reject' and the file for rejected rows go together",
        ),
        (source, {"workers": 0}, "workers: expected a number of at least 1, got 0"),
        (source, {"batch_size": 0}, "batch_size: expected a number of at least 1, got 0"),
        (source, {"limit": 0}, "limit: expected a number of at least 1, got 0"),
        (
            source,
            {"inputs": {}},
            "2 problems:\n  1. input 'ids': i64[?] is not mapped, and no column has its name; "
            "columns: user, items",
        ),
    ]
    for where, options, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            uncork.score(bags, where, tmp_path / "out", **{"inputs": BAGS, "workers": 1, **options})
    with pytest.raises(InputError) as caught:
        uncork.score(bags, other, tmp_path / "out", inputs=BAGS, workers=1)
    text = str(caught.value)
    assert "b.parquet: column 'user' has string, and int64 in " in text
    assert "c.parquet: has no column 'items', which " in text
    assert "d.parquet: cannot be read as parquet: " in text
    with pytest.raises(InputError, match="cannot be written: there is no such folder"):
        uncork.score(bags, source, tmp_path / "none" / "out", inputs=BAGS, workers=1)
    assert not (tmp_path / "out").exists()
    assert hidden(tmp_path) == []


def test_a_mapping_file(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", ROWS)
    text = (
        'keep = ["user"]\ntop_k = 1\n[inputs]\nids = "values(items)"\n'
        'offsets = "offsets(items)"\n[outputs]\nbest = "sums"\n'
    )
    (tmp_path / "mapping.toml").write_text(text)
    uncork.score(bags, source, tmp_path / "out", mapping=tmp_path / "mapping.toml", workers=1)
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["user", "best_items", "best"]
    assert table["best"].to_pylist() == [[max(summed(row.items))] for row in ROWS]


def test_tables_from_files(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", ROWS[:50])
    np.save(tmp_path / "table.npy", 2 * TABLE)
    uncork.score(
        bags,
        source,
        tmp_path / "out",
        inputs=BAGS,
        workers=1,
        tables={"bag": tmp_path / "table.npy"},
    )
    doubled = [[2 * number for number in summed(row.items)] for row in ROWS[:50]]
    assert pq.read_table(tmp_path / "out")["sums"].to_pylist() == doubled


def test_the_module_is_the_function() -> None:
    import uncork.score as module

    assert uncork.score is module
    assert callable(uncork.score)
    assert "Parquet" in (module.score.__doc__ or "")
