"""Units: every row in exactly one, whatever the row groups; and readers that give batches of one
size.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncork.errors import InputError
from uncork.score.read import Reader, SourceError
from uncork.score.source import File, Source, Unit, open_source, plan_units
from uncork.score.unit_queue import UnitQueue


def source_of(files: list[list[int]]) -> Source:
    schema = pa.schema({"x": pa.int64()})
    return Source(
        "made",
        "parquet",
        None,
        tuple(File(f"{i}", 1, 1, tuple(groups)) for i, groups in enumerate(files)),
        schema,
    )


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=4),
    st.integers(1, 20),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_every_row_is_in_one_unit(
    files: list[list[int]], batch_size: int, rows_per_unit: int | None
) -> None:
    source = source_of(files)
    units = plan_units(source, batch_size, rows_per_unit)
    seen: list[tuple[int, int, int]] = []
    for number, unit in enumerate(units):
        assert unit.number == number
        assert unit.first_row == len(seen)
        assert unit.rows == sum(span.rows for span in unit.spans) > 0
        for span in unit.spans:
            groups = source.files[span.file].groups[span.first : span.last + 1]
            rows = [
                (span.file, span.first + g, r)
                for g, count in enumerate(groups)
                for r in range(count)
            ]
            assert span.first == span.last or span.skip == 0
            seen.extend(rows[span.skip : span.skip + span.rows])
    assert seen == [
        (f, g, r)
        for f, groups in enumerate(files)
        for g, count in enumerate(groups)
        for r in range(count)
    ]


def handed_out(
    units: list[Unit], workers: int, turns: st.DataObject | None = None
) -> list[list[Unit]]:
    """What each worker gets, when they ask by turns or in an order that is drawn."""
    waiting = UnitQueue(units)
    given_to: list[list[Unit]] = [[] for _ in range(workers)]
    number = 0
    while len(waiting):
        number = (
            (number + 1) % workers if turns is None else turns.draw(st.integers(0, workers - 1))
        )
        unit = waiting.take(given_to[number][-1] if given_to[number] else None)
        assert unit is not None
        given_to[number].append(unit)
    assert waiting.take(None) is None
    return given_to


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=4),
    st.integers(1, 60),
    st.integers(1, 4),
    st.data(),
)
def test_every_unit_is_handed_out_once(
    files: list[list[int]], rows_per_unit: int, workers: int, turns: st.DataObject
) -> None:
    units = plan_units(source_of(files), 1, rows_per_unit)
    given_to = handed_out(units, workers, turns)
    assert (
        sorted((unit for some in given_to for unit in some), key=lambda unit: unit.number) == units
    )
    if workers == 1:
        assert given_to[0] == units


def test_pieces_of_a_group_stay_together() -> None:
    """Whoever has begun a group reads it to its end; others begin groups of their own."""
    units = plan_units(source_of([[90] * 4]), 10, 30)
    given_to = handed_out(units, 2)
    assert [[unit.number for unit in some] for some in given_to] == [
        [3, 4, 5, 9, 10, 11],
        [0, 1, 2, 6, 7, 8],
    ]


def test_a_group_for_several_workers() -> None:
    """Where one is all there is, the second worker begins in the middle of what is left, and both
    read on.
    """
    units = plan_units(source_of([[100]]), 10, 10)
    waiting = UnitQueue(units)
    first = [waiting.take(None)]
    second = [waiting.take(None)]
    assert (first[0], second[0]) == (units[0], units[5])
    for _ in range(4):
        first.append(waiting.take(first[-1]))
        second.append(waiting.take(second[-1]))
    assert [first, second] == [units[:5], units[5:]]


def test_units_that_come_back() -> None:
    units = plan_units(source_of([[10] * 5]), 10, 10)
    waiting = UnitQueue(units)
    taken = [waiting.take(None) for _ in range(3)]
    assert taken == units[:3]
    waiting.add([units[1]])
    assert [waiting.take(units[2]) for _ in range(3)] == [units[1], *units[3:]]


def test_default_units() -> None:
    assert [unit.rows for unit in plan_units(source_of([[1_000_000]]), 4096)] == [32768] * 30 + [
        16960
    ]
    assert {unit.rows for unit in plan_units(source_of([[1_048_576] * 10]), 4096)} == {131_072}
    # Small groups and files are taken together; a large group is cut at whole batches.
    assert [unit.rows for unit in plan_units(source_of([[100] * 50, [100] * 14]), 64, 640)] == [
        600
    ] * 10 + [400]
    assert plan_units(source_of([]), 4096) == []


@pytest.mark.parametrize("batch_size", [1, 7, 100, 1000])
@pytest.mark.parametrize("order", ["in turn", "every other", "backwards"])
def test_readers_give_the_rows_of_units_in_any_order(
    tmp_path: Path, batch_size: int, order: str
) -> None:
    for name, start, count, group in (
        ("a", 0, 500, 500),
        ("b", 500, 230, 20),
        ("c", 730, 270, 100),
    ):
        table = pa.table(
            {
                "x": list(range(start, start + count)),
                "y": ["y"] * count,
                "l": [[i] for i in range(start, start + count)],
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=group)
    source = open_source(tmp_path)
    assert source.rows == 1000
    units = plan_units(source, batch_size, 70)
    reader = Reader(source, ["l", "x"], batch_size)
    chosen = {"in turn": units, "every other": units[::2], "backwards": units[::-1]}[order]
    for unit in chosen:
        batches = list(reader.batches(unit))
        assert [batch.num_rows for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        expected = list(range(unit.first_row, unit.first_row + unit.rows))
        assert [x for batch in batches for x in batch["x"].to_pylist()] == expected
        assert [x for batch in batches for (x,) in batch["l"].to_pylist()] == expected
        assert batches[0].schema.names == ["l", "x"]


def test_a_reader_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one row group, as a worker among two gets them: the group is opened once."""
    pq.write_table(pa.table({"x": list(range(1000))}), tmp_path / "x.parquet", row_group_size=1000)
    source = open_source(tmp_path / "x.parquet")
    reader = Reader(source, ["x"], 10)
    opened: list[int] = []
    groups = reader._groups
    monkeypatch.setattr(reader, "_groups", lambda span: (opened.append(span.skip), groups(span))[1])
    for unit in plan_units(source, 10, 100)[::2]:
        assert [x for batch in reader.batches(unit) for x in batch["x"].to_pylist()] == list(
            range(unit.first_row, unit.first_row + 100)
        )
    assert opened == [0]


def test_a_source_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Before and while a span is read: rows of the old and the new file are never in one output."""
    for name, value in (("a", 0), ("b", 1)):
        pq.write_table(
            pa.table({"ids": np.full(40, value)}), tmp_path / f"{name}.parquet", row_group_size=10
        )
    source = open_source(tmp_path / "a.parquet")
    first, second, *_ = plan_units(source, 5, 10)
    message = (
        r"a.parquet: cannot be read, at row \d+ of groups 1 to 1: it has changed \(size "
        r"or time\) while it was scored: put back"
    )
    reader = Reader(source, ["ids"], 5)
    assert [batch.num_rows for batch in reader.batches(first)] == [5, 5]
    rows = reader.batches(second)
    assert next(rows)["ids"].to_pylist() == [0] * 5
    os.replace(tmp_path / "b.parquet", tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=message):
        list(rows)
    with pytest.raises(SourceError, match=message):
        next(Reader(source, ["ids"], 5).batches(second))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceError, match="it is gone: put back what the run began with"):
        next(Reader(source, ["ids"], 5).batches(second))


def test_files_with_columns_of_one_name(tmp_path: Path) -> None:
    """They are no harm, unless the files differ in them."""

    def file(name: str, **types: list[pa.DataType]) -> Path:
        pairs = [(column, found) for column, several in types.items() for found in several]
        pq.write_table(
            pa.Table.from_arrays(
                [pa.nulls(2, found) for _, found in pairs], names=[n for n, _ in pairs]
            ),
            tmp_path / name,
        )
        return tmp_path / name

    i64, text = pa.int64(), pa.string()
    one = file("0.parquet", ids=[i64], k=[i64, text])
    assert open_source([one, file("1.parquet", k=[i64, text], ids=[i64], more=[i64])]).rows == 4
    with pytest.raises(InputError, match=r"2.parquet: has 1 columns 'k', and .*0.parquet has 2"):
        open_source([one, file("2.parquet", ids=[i64], k=[i64])])
    with pytest.raises(
        InputError,
        match=r"3.parquet: column 'k' has string, int64, and int64, string in .*0.parquet",
    ):
        open_source([one, file("3.parquet", ids=[i64], k=[text, i64])])
    with pytest.raises(InputError, match=r"4.parquet: has 2 columns 'ids', and .*0.parquet has 1"):
        open_source([one, file("4.parquet", ids=[i64, i64], k=[i64, text])])
