"""Columns of every type of Arrow: kept, rejected, or refused by name before a row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import write_lookup
from tests.score.steps import Here
from uncork.errors import InputError
from uncork.score.columns import take_rows

KEPT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string_view": (pa.string_view(), ["a", "bcdefghijklmnopqrstuvwxyz", None, "d", "e", "f"]),
    "binary_view": (pa.binary_view(), [b"a", b"b", None, b"d", b"e", b"f"]),
    "list of views": (pa.list_(pa.string_view()), [["a"], [], None, ["b", None], ["c"], ["d"]]),
    "list_view": (pa.list_view(pa.int64()), [[1], [], None, [2, 3], [4], [5]]),
    "seconds": (pa.timestamp("s", "UTC"), [1, 2, None, 4, 5, 6]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a", "c", "a"]),
    "decimal": (pa.decimal128(9, 2), [1, 2, None, 4, 5, 6]),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
        [{"x": 1, "y": ["a"]}, None, {}, None, {"x": 5}, {"x": 6}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None, [], [("b", 2)], []]),
    "null": (pa.null(), [None] * 6),
}
REFUSED: dict[str, pa.DataType] = {
    "interval": pa.month_day_nano_interval(),
    "run-end encoded": pa.run_end_encoded(pa.int32(), pa.int64()),
    "union": pa.dense_union([pa.field("a", pa.int64())]),
    "empty struct": pa.struct([]),
    "struct of views": pa.struct([("x", pa.string_view())]),
    "dictionary of structs": pa.dictionary(pa.int32(), pa.struct([("a", pa.int64())])),
}
IDS = [1, 99, 2, 3, 99, 4]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uncork.score._engine", Here)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """model.xml: `ids` i64[?] -> `out` f32[?,3]."""
    return write_lookup(tmp_path / "model.xml")


def as_ipc(path: Path, table: pa.Table) -> Path:
    """Arrow's own file, which holds every type."""
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    return path


def values(kind: str) -> pa.Array:
    found, listed = KEPT[kind]
    if pa.types.is_dictionary(found):
        return pa.array(listed).dictionary_encode().cast(found)
    return pa.array(listed, found)


@pytest.mark.parametrize("kind", list(KEPT))
@pytest.mark.parametrize("output", ["out", "out.parquet"])
def test_kept_and_rejected(model: Path, tmp_path: Path, kind: str, output: str) -> None:
    column = values(kind)
    source = as_ipc(tmp_path / "rows.arrow", pa.table({"ids": IDS, "k": column}))
    options: dict[str, Any] = {
        "keep": ["k"],
        "batch_size": 2,
        "rows_per_part": 2,
        "backend": "reference",
    }
    summary = uncork.score(
        model,
        source,
        tmp_path / output,
        on_error="reject",
        rejects=tmp_path / "bad.parquet",
        **options,
    )
    assert (summary.counts.scored, summary.counts.rejected, summary.parts) == (4, 2, 3)
    expected = column.to_pylist()
    assert pq.read_table(tmp_path / output)["k"].to_pylist() == [expected[i] for i in (0, 2, 3, 5)]
    assert pq.read_table(tmp_path / "bad.parquet")["k"].to_pylist() == [expected[i] for i in (1, 4)]
    uncork.score(model, source, tmp_path / f"null-{output}", on_error="null", **options)
    assert pq.read_table(tmp_path / f"null-{output}")["k"].to_pylist() == expected


@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_parquet_does_not_have_is_refused(model: Path, tmp_path: Path, kind: str) -> None:
    found = REFUSED[kind]
    source = as_ipc(
        tmp_path / "rows.arrow",
        pa.table({"ids": pa.array([], pa.int64()), "k": pa.nulls(0, found)}),
    )
    message = r"source: column 'k' has .*, which cannot be written to Parquet: convert it, or "
    with pytest.raises(InputError, match=f"{message}leave it out of what is kept"):
        uncork.score(model, source, tmp_path / "out", keep=["k"])
    with pytest.raises(
        InputError, match=f"{message}and rejected rows are written with all columns: drop it"
    ):
        uncork.score(
            model, source, tmp_path / "out", on_error="reject", rejects=tmp_path / "bad.parquet"
        )
    assert uncork.score(model, source, tmp_path / "out").counts.rows == 0


def test_columns_of_one_name(model: Path, tmp_path: Path) -> None:
    arrays = [
        pa.array([1, 2]),
        pa.array([5, 6]),
        pa.array(["a", "b"]),
        pa.array([7, 8]),
        pa.array([9, 9]),
    ]
    table = pa.Table.from_arrays(arrays, names=["ids", "k", "k", "row", "row"])
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("ids,k,k,row,row\n1,5,a,7,9\n2,6,b,8,9\n")
    for source in (
        tmp_path / "rows.parquet",
        as_ipc(tmp_path / "rows.arrow", table),
        tmp_path / "rows.csv",
    ):
        uncork.score(model, source, tmp_path / f"{source.suffix[1:]}-out", keep=["ids"])
        assert pq.read_table(tmp_path / f"{source.suffix[1:]}-out")["ids"].to_pylist() == [1, 2]
        for name in ("k", "row"):
            with pytest.raises(InputError, match=f"2 columns are called '{name}'"):
                uncork.score(model, source, tmp_path / "out", keep=[name])
        with pytest.raises(InputError, match="2 columns are called 'k'"):
            uncork.score(model, source, tmp_path / "out", keep=[], inputs={"ids": "k"})
        with pytest.raises(
            InputError,
            match=r"rejects: 2 columns are called 'k', and rejected rows are written with all "
            r"columns: rename one",
        ):
            uncork.score(
                model,
                source,
                tmp_path / "out",
                keep=[],
                on_error="reject",
                rejects=tmp_path / "bad.parquet",
            )
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["ids", "ids"])
    with pytest.raises(InputError, match="input 'ids': 2 columns are called 'ids'"):
        uncork.score(model, as_ipc(tmp_path / "twice.arrow", twice), tmp_path / "out")


def test_rows_by_number() -> None:
    batch = pa.record_batch(
        {"a": pa.array(range(9)), "b": pa.array([str(i) for i in range(9)], pa.string_view())}
    )
    for rows in ([], [0], [8], [3, 4, 5], [0, 2, 3, 8], [5, 5, 5, 1, 2]):
        taken = take_rows(batch.slice(0, 9), rows)
        assert taken.to_pydict() == {"a": rows, "b": [str(i) for i in rows]}
        assert taken.schema == batch.schema
