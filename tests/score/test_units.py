"""Units scored one by one: what comes out for each row, and what becomes of rows that cannot be
scored.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score._units import UnitResult, score_unit
from tests.score.conftest import TABLE, Row, random_rows, summed
from uncork.errors import InputError
from uncork.score import prepare_score
from uncork.score.batch import BadRowError
from uncork.score.options import ScoreOptions
from uncork.score.outputs import best
from uncork.score.unit import Counts

BAGS = {"ids": "values(items)", "offsets": "offsets(items)"}


def write(path: Path, rows: Sequence[Row], group: int = 1000) -> Path:
    table = pa.table(
        {
            "user": pa.array([row.user for row in rows], pa.int64()),
            "items": pa.array([row.items for row in rows], pa.list_(pa.int64())),
        }
    )
    pq.write_table(table, path, row_group_size=group)
    return path


def scored(model: Path, source: Path, **options: Any) -> list[UnitResult]:
    """The results of all units. Job and units go through pickle first, as they do on their way to a
    worker.
    """
    prepared = prepare_score(model, source, ScoreOptions(**options))
    return [
        score_unit(*pickle.loads(pickle.dumps((prepared.job, unit)))) for unit in prepared.units
    ]


def column(results: Sequence[UnitResult], name: str) -> list[Any]:
    return [value for result in results for value in result.table[name].to_pylist()]


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("group", [5, 1000])
def test_every_row_gets_its_sum(bags: Path, tmp_path: Path, batch_size: int, group: int) -> None:
    rows = random_rows(100)
    source = write(tmp_path / "rows.parquet", rows, group)
    results = scored(
        bags, source, inputs=BAGS, keep=["row", "user"], batch_size=batch_size, rows_per_part=30
    )
    assert column(results, "sums") == [summed(row.items) for row in rows]
    assert column(results, "user") == [row.user for row in rows]
    assert column(results, "row") == list(range(100))
    assert len(results) >= 2


def test_segments(segments: Path, tmp_path: Path) -> None:
    rows = random_rows(50, 1)
    mapping = {"ids": "values(items)", "owners": "segments(items)", "rows": "rows()"}
    results = scored(
        segments, write(tmp_path / "rows.parquet", rows), inputs=mapping, batch_size=16
    )
    assert column(results, "sums") == [summed(row.items) for row in rows]


def quads(path: Path, ids: Sequence[Sequence[int | None]], weight: Sequence[float | None]) -> Path:
    pq.write_table(
        pa.table(
            {"ids": pa.array(ids, pa.list_(pa.int64())), "weight": pa.array(weight, pa.float32())}
        ),
        path,
    )
    return path


GOOD = [[i % 20, (i + 3) % 20, 0, 19] for i in range(40)]


@pytest.mark.parametrize("model", ["picks", "pairs"])
@pytest.mark.parametrize("count", [1, 39, 40])
def test_results_of_any_rank_and_models_of_fixed_size(
    model: str, count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = quads(tmp_path / "rows.parquet", GOOD[:count], [i / 4 for i in range(count)])
    results = scored(
        request.getfixturevalue(model),
        source,
        outputs={"picked": "rows", "w": "weight_out"},
        keep=[],
    )
    assert results[0].table.schema == pa.schema(
        {"picked": pa.list_(pa.list_(pa.float32(), 3), 4), "w": pa.float32()}
    )
    assert column(results, "picked") == [[TABLE[i].tolist() for i in ids] for ids in GOOD[:count]]
    assert column(results, "w") == [i / 4 for i in range(count)]


def spoiled() -> tuple[list[Any], list[Any], dict[int, tuple[str, str, str]]]:
    """Rows, weights, and of the bad rows: column, value, and the beginning of the reason."""
    ids: list[Any] = [list(row) for row in GOOD]
    weight: list[Any] = [i / 4 for i in range(40)]
    ids[3][2] = 20
    ids[4] = [-21, 5, 5, 5]
    ids[17] = [1, 2, 3]
    ids[21] = [20, 21, 22, 23]
    ids[38] = [2**40, 0, 0, 0]
    weight[9] = None
    weight[39] = None
    bad = {
        3: ("ids", "20", "input 'indices': indices[0, 2] is 20, expected -20 to 19"),
        4: ("ids", "-21", "input 'indices': indices[0, 0] is -21, expected -20 to 19"),
        9: ("weight", "null", "is null: give a fill"),
        17: ("ids", "a list of 3", "expected 4 values"),
        21: ("ids", "20", "input 'indices': indices[0, 0] is 20"),
        38: ("ids", "1099511627776", "input 'indices': indices[0, 0] is 1099511627776"),
        39: ("weight", "null", "is null: give a fill"),
    }
    return ids, weight, bad


@pytest.mark.parametrize("model", ["picks", "pairs"])
@pytest.mark.parametrize("batch_size", [2, 40, 16])
@pytest.mark.parametrize("on_error", ["null", "reject"])
def test_bad_rows_lose_nothing(
    model: str, batch_size: int, on_error: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ids, weight, bad = spoiled()
    source = quads(tmp_path / "rows.parquet", ids, weight)
    size = 2 if model == "pairs" else batch_size
    results = scored(request.getfixturevalue(model), source, on_error=on_error, batch_size=size)
    good = [i for i in range(40) if i not in bad]
    expected = {i: [TABLE[j].tolist() for j in ids[i]] for i in good}
    if on_error == "null":
        assert column(results, "row") == list(range(40))
        assert column(results, "rows") == [expected.get(i) for i in range(40)]
        assert column(results, "weight_out") == [None if i in bad else i / 4 for i in range(40)]
    else:
        assert column(results, "row") == good
        assert column(results, "rows") == [expected[i] for i in good]
        assert column(results, "weight_out") == [i / 4 for i in good]
        rejects = pa.concat_tables([result.rejects for result in results]).to_pydict()
        assert rejects["reject_row"] == list(bad)
        assert rejects["ids"] == [ids[i] for i in bad]
        assert rejects["weight"] == [weight[i] for i in bad]
        for i, (name, value, reason) in enumerate(bad.values()):
            assert (rejects["reject_column"][i], rejects["reject_value"][i]) == (name, value)
            assert rejects["reject_reason"][i].startswith(reason)
            assert rejects["reject_layer"][i] == (
                "layer 'pick' (Gather-8, id 4)" if "indices" in reason else None
            )
    assert sum((result.counts for result in results), Counts()) == Counts(40, 33, 7)


def test_the_first_bad_row_is_an_error_by_default(picks: Path, bags: Path, tmp_path: Path) -> None:
    ids, weight, _ = spoiled()
    with pytest.raises(
        BadRowError,
        match=r"^row 3, column 'ids', value 20: layer 'pick' \(Gather-8, id 4\): input "
        r"'indices': indices\[0, 2\] is 20",
    ):
        scored(picks, quads(tmp_path / "rows.parquet", ids, weight))
    ids[3] = ids[4] = [1, 2, 3, 4]
    with pytest.raises(
        BadRowError,
        match=r"^row 9, column 'weight', value null: is null: give a fill to replace it$",
    ):
        scored(picks, quads(tmp_path / "rows.parquet", ids, weight))
    rows = random_rows(30)
    rows[11].items[:] = [3, 99, 4]
    with pytest.raises(
        BadRowError,
        match=r"^row 11, column 'items', value 99: layer 'bag' .*: indices\[1\] is 99, expected "
        r"0 to 19$",
    ):
        scored(bags, write(tmp_path / "rows.parquet", rows), inputs=BAGS)


def test_without_strict_gather_gives_zeros(picks: Path, tmp_path: Path) -> None:
    results = scored(picks, quads(tmp_path / "rows.parquet", [[0, 20, 1, -1]], [1.0]), strict=False)
    assert column(results, "rows") == [
        [TABLE[0].tolist(), [0, 0, 0], TABLE[1].tolist(), TABLE[19].tolist()]
    ]


def test_many_bad_bags(bags: Path, tmp_path: Path) -> None:
    rows = random_rows(200, 5)
    bad = {i for i in range(200) if i % 3 == 1 or 50 <= i < 80}
    for i in bad:
        rows[i].items.insert(len(rows[i].items) // 2, 20 + i)
    results = scored(
        bags, write(tmp_path / "rows.parquet", rows), inputs=BAGS, on_error="reject", batch_size=64
    )
    assert column(results, "row") == [i for i in range(200) if i not in bad]
    assert column(results, "sums") == [summed(rows[i].items) for i in range(200) if i not in bad]
    rejects = pa.concat_tables([result.rejects for result in results]).to_pydict()
    assert rejects["reject_row"] == sorted(bad)
    assert rejects["reject_value"] == [str(20 + i) for i in sorted(bad)]
    assert rejects["user"] == [1000 + i for i in sorted(bad)]


def test_all_rows_bad(bags: Path, tmp_path: Path) -> None:
    results = scored(
        bags,
        write(tmp_path / "rows.parquet", [Row(i, [77]) for i in range(9)]),
        inputs=BAGS,
        on_error="reject",
    )
    assert [result.counts for result in results] == [Counts(9, 0, 9)]
    assert results[0].table.num_rows == 0


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_best_is_a_stable_sort(dtype: type, count: int) -> None:
    generator = np.random.default_rng(0)
    scores = generator.integers(0, 6, (200, 12)).astype(dtype)
    if dtype is np.float32:
        scores[generator.random(scores.shape) < 0.1] = np.nan
        scores[generator.random(scores.shape) < 0.1] = -np.inf
    elif dtype is np.int64:
        scores[generator.random(scores.shape) < 0.2] = np.iinfo(np.int64).min
    places, found = best(scores, count)
    for row, got, values in zip(scores.tolist(), places.tolist(), found.tolist(), strict=True):
        order = sorted(
            range(12), key=lambda i: (row[i] != row[i], -row[i] if row[i] == row[i] else 0, i)
        )[:count]
        assert got == order
        assert all(v == row[i] or v != v for v, i in zip(values, order, strict=True))


def test_top_k(picks: Path, bags: Path, tmp_path: Path) -> None:
    rows = random_rows(40, 2)
    results = scored(
        bags, write(tmp_path / "rows.parquet", rows), inputs=BAGS, top_k=2, outputs={"best": "sums"}
    )
    for row, items, scores in zip(
        rows, column(results, "best_items"), column(results, "best"), strict=True
    ):
        sums = summed(row.items)
        assert items == sorted(range(3), key=lambda i: (-sums[i], i))[:2]
        assert scores == [sums[i] for i in items]
    with pytest.raises(InputError, match=r"output 'best': top_k: expected 1 to 3, got 4"):
        scored(bags, tmp_path / "rows.parquet", inputs=BAGS, top_k=4, outputs={"best": "sums"})
    with pytest.raises(
        InputError,
        match=r"output 'r': top_k is for results \[rows, items\] of numbers, and this one is "
        r"f32\[\?,4,3\]",
    ):
        scored(
            picks,
            quads(tmp_path / "quads.parquet", GOOD, [0.0] * 40),
            top_k=1,
            outputs={"r": "rows"},
        )


def test_output_columns_are_checked(bags: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", random_rows(3))
    with pytest.raises(
        InputError,
        match=r"output 's': the model has no output 'sumz'; did you mean 'sums'\?; outputs: sums "
        r"f32\[\?,3\]",
    ):
        scored(bags, source, inputs=BAGS, outputs={"s": "sumz"})
    with pytest.raises(InputError, match="two columns of the output would be called 'user'"):
        scored(bags, source, inputs=BAGS, outputs={"user": "sums"}, keep=["user"])
    with pytest.raises(InputError, match=r"there is no column 'usr'; did you mean 'user'\?"):
        scored(bags, source, inputs=BAGS, keep=["usr"])


def test_a_model_with_state_is_refused(tmp_path: Path) -> None:
    import uncork

    builder = uncork.Builder("state")
    x = builder.parameter("x", "f32", [None])
    (kept,) = builder.add(
        "ReadValue",
        6,
        x,
        variable_id="v",
        variable_shape=uncork.PartialShape([None]),
        variable_type=uncork.ElementType.f32,
    )
    builder.add("Assign", 6, kept, variable_id="v")
    builder.result(kept, "y")
    uncork.write_model(builder.model(), tmp_path / "state.xml")
    with pytest.raises(
        InputError, match="has variables, which carry state from one call to the next"
    ):
        scored(
            tmp_path / "state.xml",
            quads(tmp_path / "rows.parquet", [[1]], [1.0]),
            inputs={"x": "weight"},
        )


def test_what_products_round(tmp_path: Path) -> None:
    """Options are of the run, where they are not the defaults; a run by others is another one."""
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("stored")
    x = builder.parameter("x", "f32", [None, 64])
    generator = np.random.default_rng(5)
    codes = generator.integers(0, 16, (256, 64)).astype(np.uint8)
    scale = np.float16(0.01)
    (half,) = builder.add("Convert", 1, builder.constant(codes, "u4"), destination_type="f16")
    (matrix,) = builder.add("Multiply", 1, half, builder.constant(scale))
    (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
    builder.result(builder.add("MatMul", 1, x, matrix, transpose_b=True)[0], "y")
    uncork.write_model(builder.model(), tmp_path / "stored.xml")
    rows = generator.standard_normal((5, 64)).astype(np.float32)
    column_of_lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 64)
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": column_of_lists}), source)
    exact = rows.astype(np.float64) @ (codes * np.float64(scale)).T
    errors = {}
    for activations in ("f32", "i8"):
        given = {"decompression": "f32", "activations": activations}
        results = scored(tmp_path / "stored.xml", source, **given)
        errors[activations] = abs(np.array(column(results, "y")) - exact).max() / abs(exact).max()
        prepared = prepare_score(tmp_path / "stored.xml", source, ScoreOptions(**given))
        told = prepared.describe()["load options"]
        assert ("activations" in told) == (activations != "f32") and "precision" not in told
    assert errors["f32"] < 1e-6 and 1e-4 < errors["i8"] < 1e-2
    with pytest.raises(TypeError, match="unexpected keyword argument 'activation'"):
        uncork.score(tmp_path / "stored.xml", source, tmp_path / "out", activation="i8")
