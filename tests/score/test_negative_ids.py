"""Ids that Gather counts from the end: how many a run has had, and rows that are rejected for them.
And ids beyond 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score._units import UnitResult, score_unit
from tests.score.conftest import TABLE
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.score import prepare_score
from uncork.score.batch import BadRowError
from uncork.score.options import ScoreOptions
from uncork.score.unit import Counts


def scored(model: Path, source: Path, **options: Any) -> list[UnitResult]:
    prepared = prepare_score(model, source, ScoreOptions(**options))
    return [score_unit(prepared.job, unit) for unit in prepared.units]


def counts(results: Sequence[UnitResult]) -> Counts:
    return sum((result.counts for result in results), Counts())


def column(results: Sequence[UnitResult], name: str) -> list[Any]:
    return [value for result in results for value in result.table[name].to_pylist()]


def quads(path: Path, ids: Sequence[Sequence[int]]) -> Path:
    pq.write_table(
        pa.table(
            {
                "ids": pa.array(ids, pa.list_(pa.int64())),
                "weight": pa.array([1.0] * len(ids), pa.float32()),
            }
        ),
        path,
    )
    return path


#: Seven rows, four negative ids in three of them.
IDS = [
    [0, 1, 2, 3],
    [-1, 5, 5, 5],
    [7, 7, 7, 7],
    [1, -20, -3, 1],
    [4, 4, 4, 4],
    [0, 0, 0, -2],
    [6, 6, 6, 6],
]


@pytest.mark.parametrize("model", ["picks", "pairs"])
def test_negative_ids_are_counted(
    model: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also where the model takes two rows at a time, and the last batch is filled up with the last
    row again.
    """
    results = scored(
        request.getfixturevalue(model), quads(tmp_path / "rows.parquet", IDS[:6] + IDS[5:6])
    )
    assert counts(results) == Counts(7, 7, 0, 5)
    assert column(results, "rows")[1] == [TABLE[i].tolist() for i in (19, 5, 5, 5)]


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_rows_that_are_rejected_count_for_nothing(
    picks: Path, tmp_path: Path, batch_size: int
) -> None:
    ids = [*IDS, [-1, 20, 0, 0], [-21, -1, 0, 0]]
    results = scored(
        picks, quads(tmp_path / "rows.parquet", ids), on_error="null", batch_size=batch_size
    )
    assert counts(results) == Counts(9, 7, 2, 4)
    results = scored(picks, quads(tmp_path / "rows.parquet", ids), strict=False)
    assert counts(results) == Counts(9, 9, 0, 6)  # -21 gives zeros: it is not counted from the end


@pytest.mark.parametrize("batch_size", [1, 3, 7])
@pytest.mark.parametrize("strict", [True, False])
def test_rows_with_negative_ids_are_rejected_on_request(
    picks: Path, tmp_path: Path, batch_size: int, strict: bool
) -> None:
    source = quads(tmp_path / "rows.parquet", IDS)
    results = scored(
        picks, source, negative_ids=False, on_error="reject", batch_size=batch_size, strict=strict
    )
    assert counts(results) == Counts(7, 4, 3, 0)
    assert column(results, "row") == [0, 2, 4, 6]
    rejects = pa.concat_tables([result.rejects for result in results]).to_pydict()
    assert rejects["reject_row"] == [1, 3, 5]
    assert rejects["reject_column"] == ["ids"] * 3
    assert rejects["reject_value"] == ["-1", "-20", "-2"]
    assert rejects["reject_layer"] == ["layer 'pick' (Gather-8, id 4)"] * 3
    assert rejects["reject_reason"][1] == (
        "input 'ids' of the model: ids[0, 1] is -20, expected 0 to 19: negative ids, which would "
        "count from the end, are refused"
    )


def test_a_negative_id_is_an_error_where_bad_rows_are(picks: Path, tmp_path: Path) -> None:
    message = (
        r"^row 1, column 'ids', value -1: layer 'pick' \(Gather-8, id 4\): input 'ids' of "
        r"the model: ids\[0, 0\] is -1, expected 0 to 19"
    )
    with pytest.raises(BadRowError, match=message):
        scored(picks, quads(tmp_path / "rows.parquet", IDS), negative_ids=False)


def test_bags_have_no_negative_ids(bags: Path, tmp_path: Path) -> None:
    """There a negative id is outside in any case; a last step that a constant takes with -1 is no
    id at all.
    """
    pq.write_table(
        pa.table({"items": pa.array([[1, 2], [3]], pa.list_(pa.int64()))}),
        tmp_path / "rows.parquet",
    )
    mapping = {"ids": "values(items)", "offsets": "offsets(items)"}
    assert counts(
        scored(bags, tmp_path / "rows.parquet", inputs=mapping, negative_ids=False)
    ) == Counts(2, 2, 0, 0)


def flat_model(path: Path) -> Path:
    """Gather of a flat list of ids through a Convert to i32, summed by segment."""
    builder = uncork.Builder("flat")
    ids, owners = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("owners", "i64", [None]),
    )
    count = builder.parameter("count", "i64", [])
    (cut,) = builder.add("Convert", 1, ids, destination_type="i32")
    (places,) = builder.add(
        "Gather",
        8,
        builder.constant(np.arange(20)),
        cut,
        builder.constant(np.int64(0)),
        name="places",
    )
    builder.result(
        builder.add("EmbeddingSegmentsSum", 3, builder.constant(TABLE), places, owners, count)[0],
        "sums",
    )
    uncork.write_model(builder.model(), path)
    return path


def test_values_belong_to_rows(tmp_path: Path) -> None:
    """Lists of any length, ids behind a conversion, and the row that each negative one is in."""
    lists = [[1], [], [2, -1, -2], [-20], [5, 6], []]
    pq.write_table(
        pa.table({"items": pa.array(lists, pa.list_(pa.int64()))}), tmp_path / "rows.parquet"
    )
    model = flat_model(tmp_path / "flat.xml")
    mapping = {"ids": "values(items)", "owners": "segments(items)", "count": "rows()"}
    results = scored(model, tmp_path / "rows.parquet", inputs=mapping)
    assert counts(results) == Counts(6, 6, 0, 3)
    results = scored(
        model, tmp_path / "rows.parquet", inputs=mapping, negative_ids=False, on_error="reject"
    )
    assert counts(results) == Counts(6, 4, 2, 0)
    assert column(results, "row") == [0, 1, 4, 5]


def test_bodies_look_ids_up_too(tmp_path: Path) -> None:
    joined = {}
    for name in ("then_body", "else_body"):
        inner = uncork.Builder(name)
        ids = inner.parameter("ids", "i64", [None])
        (picked,) = inner.add(
            "Gather", 8, inner.constant(TABLE), ids, inner.constant(np.int64(0)), name="inside"
        )
        inner.result(picked)
        joined[name] = BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    builder = uncork.Builder("if")
    flag, ids = builder.parameter("flag", "boolean", []), builder.parameter("ids", "i64", [None])
    builder.result(builder.add_with_bodies("If", 8, flag, ids, bodies=joined)[0], "rows")
    uncork.write_model(builder.model(), tmp_path / "if.xml")
    pq.write_table(pa.table({"ids": [1, -1, 2]}), tmp_path / "rows.parquet")
    mapping = {"flag": True}
    results = scored(tmp_path / "if.xml", tmp_path / "rows.parquet", inputs=mapping)
    assert counts(results) == Counts(3, 3, 0, 1)
    with pytest.raises(
        BadRowError, match=r"^row 1, .*layer 'inside' .*ids\[0\] is -1, expected 0 to 19"
    ):
        scored(tmp_path / "if.xml", tmp_path / "rows.parquet", inputs=mapping, negative_ids=False)


def test_a_table_of_unknown_size(tmp_path: Path) -> None:
    """Every negative id that is looked up in it counts from its end."""
    builder = uncork.Builder("open")
    wide = builder.parameter("wide", "f32", [None, 3])
    (table,) = builder.add("Concat", 1, builder.constant(TABLE), wide, axis=0)
    ids = builder.parameter("ids", "i64", [None])
    builder.result(
        builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)), name="pick")[0], "rows"
    )
    uncork.write_model(builder.model(), tmp_path / "open.xml")
    pq.write_table(pa.table({"ids": [1, -1, -2]}), tmp_path / "rows.parquet")
    mapping = {"wide": "[[1, 2, 3]]"}
    with pytest.raises(
        BadRowError, match=r"ids\[0\] is -1, expected 0 or more: negative ids, which would"
    ):
        scored(tmp_path / "open.xml", tmp_path / "rows.parquet", inputs=mapping, negative_ids=False)
    assert (
        counts(
            scored(tmp_path / "open.xml", tmp_path / "rows.parquet", inputs=mapping)
        ).negative_ids
        == 2
    )


def test_the_summary_says_how_many(picks: Path, tmp_path: Path) -> None:
    source = quads(tmp_path / "rows.parquet", IDS)
    summary = uncork.score(picks, source, tmp_path / "out", workers=1)
    assert str(summary).splitlines()[1] == (
        "4 negative ids were counted from the end of their table (--no-negative-ids, "
        "negative_ids=False: such rows are rejected)"
    )
    assert summary.to_json()["negative_ids"] == 4
    summary = uncork.score(
        picks, source, tmp_path / "other", workers=1, negative_ids=False, on_error="null"
    )
    assert (summary.to_json()["negative_ids"], summary.to_json()["rejected"]) == (0, 3)
    assert "negative ids were" not in str(summary)


# ---- ids beyond 32 bits


def converted(path: Path, type_name: str, opset: int) -> Path:
    """`ids` i64[?,4] through a Convert to i32, as OpenVINO's PyTorch frontend writes it, into a
    look-up in TABLE.
    """
    builder = uncork.Builder("converted")
    (cut,) = builder.add(
        "Convert", 1, builder.parameter("ids", "i64", [None, 4]), destination_type="i32", name="cut"
    )
    axis = [builder.constant(np.int64(0))] if type_name == "Gather" else []
    builder.result(
        builder.add(type_name, opset, builder.constant(TABLE), cut, *axis, name="look up")[0],
        "rows",
    )
    uncork.write_model(builder.model(), path)
    return path


@pytest.mark.parametrize(("type_name", "opset"), [("Gather", 8), ("EmbeddingBagPackedSum", 3)])
@pytest.mark.parametrize("batch_size", [2, 7])
def test_rows_with_ids_beyond_32_bits_are_rejected(
    tmp_path: Path, type_name: str, opset: int, batch_size: int
) -> None:
    model = converted(tmp_path / "model.xml", type_name, opset)
    ids = [[1, 2, 3, 4], [1, 2, 3, 2**32 + 1], [5, 6, 7, 8], [10**12, 1, 1, 1]]
    source = quads(tmp_path / "rows.parquet", ids)
    results = scored(model, source, on_error="reject", batch_size=batch_size)
    assert counts(results) == Counts(4, 2, 2)
    assert column(results, "row") == [0, 2]
    rejects = pa.concat_tables([result.rejects for result in results]).to_pydict()
    assert rejects["reject_value"] == ["4294967297", "1000000000000"]
    assert rejects["reject_column"] == ["ids", "ids"]
    assert rejects["reject_layer"][0].startswith("layer 'look up' (")


def test_strict_conversions_reject_rows(tmp_path: Path) -> None:
    """A number that a conversion would change, wherever it goes; without `strict` it is changed."""
    builder = uncork.Builder("numbers")
    (cut,) = builder.add(
        "Convert", 1, builder.parameter("ids", "i64", [None]), destination_type="i32", name="cut"
    )
    (more,) = builder.add("Add", 1, cut, builder.constant(np.int32(1)))
    builder.result(more, "more")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    pq.write_table(pa.table({"ids": [1, 2**32 + 1, 5]}), tmp_path / "rows.parquet")
    results = scored(tmp_path / "model.xml", tmp_path / "rows.parquet", on_error="reject")
    assert column(results, "more") == [2, 6]
    (fault,) = results[0].faults
    assert (fault.row, fault.column, fault.value) == (1, "ids", "4294967297")
    assert fault.layer == "layer 'cut' (Convert-1, id 1)"
    assert (
        fault.reason
        == "input 'data': data[0] is 4294967297, expected -2147483648 to 2147483647, the numbers "
        "of i32"
    )
    assert column(
        scored(tmp_path / "model.xml", tmp_path / "rows.parquet", strict=False), "more"
    ) == [2, 2, 6]
