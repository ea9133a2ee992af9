"""`Scorer` and `uncork.score` of tables in memory: what comes in comes out, in the same rows and
the same kind.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork

pa = pytest.importorskip("pyarrow")
#: What `rows` gives for the ids of TABLE: row i of the model's table is [i, 10 * i].
TABLE = pa.table({"key": ["a", "b", "c"], "ids": [[1, 2], [0, 3], [3, 3]]})
SUMS = [[3.0, 30.0], [3.0, 30.0], [6.0, 60.0]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """`sums` are those of the two rows that `ids` i64[?,2] names, of a table of 4."""
    builder = uncork.Builder("bags")
    table = builder.constant(np.array([[i, 10 * i] for i in range(4)], np.float32), name="table")
    ids = builder.parameter("ids", "i64", [None, 2])
    builder.result(builder.add("EmbeddingBagPackedSum", 3, table, ids)[0], "sums")
    uncork.write_model(builder.model(), tmp_path / "bags.xml")
    return tmp_path / "bags.xml"


def test_arrow_tables(model: Path) -> None:
    scored = uncork.score(model, TABLE, keep=["key"])
    assert isinstance(scored, pa.Table)
    assert scored.to_pydict() == {"key": ["a", "b", "c"], "sums": SUMS}
    assert uncork.score(model, TABLE, keep=["key"], batch_size=2) == scored
    assert uncork.score(model, TABLE, limit=2).to_pydict() == {"sums": SUMS[:2]}
    batch = uncork.score(model, TABLE.to_batches()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pydict() == {"sums": SUMS}
    assert uncork.score(model, TABLE.to_batches()[0].slice(0, 0)).num_rows == 0
    assert uncork.score(model, TABLE, inputs={"ids": "padded(ids, 2)"}, top_k=1).column_names == [
        "sums_items",
        "sums",
    ]


def test_dictionaries_of_columns(model: Path) -> None:
    """As Ray Data hands batches over."""
    for ids in (np.array([[1, 2], [0, 3]]), [[1, 2], [0, 3]]):
        scored = uncork.score(model, {"ids": ids})
        assert [list(row) for row in scored["sums"]] == SUMS[:2]


def test_lists_of_dictionaries(model: Path) -> None:
    rows = TABLE.to_pylist()
    scored = uncork.score(model, rows, keep=["key"])
    assert scored == [{"key": k, "sums": s} for k, s in zip("abc", SUMS, strict=True)]
    assert uncork.score(model, rows, limit=1) == [{"sums": SUMS[0]}]
    with pytest.raises(uncork.InputError, match="row 1: expected the keys of row 0, 'ids', got "):
        uncork.score(model, [{"ids": [1, 2]}, {"ids": [1, 2], "key": "a"}])
    with pytest.raises(uncork.InputError, match="source: expected paths, or rows as dictionaries"):
        uncork.score(model, [])


def test_datasets(model: Path, tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    dataset.write_dataset(TABLE, tmp_path / "rows", format="parquet", partitioning=["key"])
    found = dataset.dataset(tmp_path / "rows", partitioning=["key"])
    scored = uncork.score(model, found, keep=["key"]).to_pylist()
    assert sorted((row["key"], row["sums"]) for row in scored) == [*zip("abc", SUMS, strict=True)]
    assert uncork.score(model, found, limit=2).num_rows == 2
    assert uncork.score(model, found.filter(dataset.field("key") == "b")).num_rows == 1


def test_pandas(model: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE.to_pydict(), index=[7, 8, 9])
    scored = uncork.score(model, frame, keep=["key"])
    assert isinstance(scored, pandas.DataFrame)
    assert list(scored.index) == [7, 8, 9]
    assert [list(row) for row in scored["sums"]] == SUMS
    assert list(scored["key"]) == ["a", "b", "c"]
    assert len(uncork.score(model, frame, limit=1)) == 1


def test_polars(model: Path) -> None:
    polars = pytest.importorskip("polars")
    scored = uncork.score(model, polars.DataFrame(TABLE.to_pydict()), keep=["key"])
    assert isinstance(scored, polars.DataFrame)
    assert scored["sums"].to_list() == SUMS
    assert scored["key"].to_list() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"output": "scores"},
            "score: a table in memory is scored in this process and returned: leave out output=",
        ),
        ({"workers": 2, "resume": True}, "leave out workers=, resume="),
        ({"on_error": "reject"}, "on_error: expected fail or null, got 'reject'"),
        ({"keep": ["row"]}, "keep: 'row' is the number of a row in a whole source"),
        ({"keep": ["kye"]}, "kye"),
        ({"batch_size": 0}, "batch_size: expected a number of at least 1, got 0"),
        ({"outputs": {"x": "nothing"}}, "the model has no output 'nothing'"),
    ],
)
def test_options_that_do_not_fit(model: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        uncork.score(model, TABLE, **options)


def test_sources_that_are_none(model: Path) -> None:
    with pytest.raises(
        uncork.InputError,
        match=r"source: expected paths, a table of .*, or a list of dictionaries, got int",
    ):
        uncork.score(model, 5)
    with pytest.raises(
        uncork.InputError,
        match=r"output: expected where the scores go: a name that ends in \.parquet, or a folder",
    ):
        uncork.score(model, "rows.parquet")
    with pytest.raises(
        uncork.InputError,
        match=r"list: expected a pyarrow, pandas or Polars table|rows: expected a pyarrow",
    ):
        uncork.score.Scorer(model)([1])
    with pytest.raises(uncork.InputError, match="dict: cannot be made an Arrow table"):
        uncork.score.Scorer(model)({"ids": [[1, 2]], "key": ["a", "b"]})


def test_outputs_by_position(model: Path) -> None:
    for outputs in ({"best": 0}, {"best": "0"}, {"best": "sums"}):
        assert uncork.score(model, TABLE, outputs=outputs).to_pydict() == {"best": SUMS}
    with pytest.raises(uncork.InputError, match="the model has no output '1'"):
        uncork.score(model, TABLE, outputs={"best": 1})


def test_a_model_is_given_by_its_path(model: Path) -> None:
    with pytest.raises(
        uncork.InputError, match=r"^model: expected the path of a model\.xml, .*got CompiledModel$"
    ):
        uncork.score(uncork.load(model), TABLE)


def test_a_frame_without_rows_yet(model: Path) -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(uncork.InputError, match=r"got LazyFrame; give its \.collect\(\)"):
        uncork.score(model, polars.LazyFrame(TABLE.to_pydict()))


def test_bad_rows(model: Path) -> None:
    bad = pa.table({"ids": [[1, 2], [0, 9], None]})
    with pytest.raises(uncork.InputError, match=r"row 1.*9"):
        uncork.score(model, bad)
    assert uncork.score(model, bad, on_error="null").to_pydict() == {"sums": [SUMS[0], None, None]}


def test_a_scorer_is_pickled_by_path(model: Path, tmp_path: Path) -> None:
    scorer = uncork.score.Scorer(model, keep=["key"])
    expected = scorer(TABLE)
    again = pickle.loads(pickle.dumps(scorer))
    assert len(pickle.dumps(scorer)) < 2000
    assert again(TABLE) == expected
    assert again.compiled is scorer.compiled, "a process loads a model once"
    assert again.schema(TABLE.schema) == expected.schema
    (batch,) = scorer.map_batches(TABLE.to_batches())
    assert batch.to_pydict() == expected.to_pydict()
    assert batch.schema.field("sums").type == pa.list_(pa.float32()), "Spark knows no other lists"
    (tmp_path / "scorer.pickle").write_bytes(pickle.dumps(scorer))
    code = (
        "import pickle, pyarrow as pa; s = pickle.load(open('scorer.pickle', 'rb'));"
        "print(s(pa.table({'key': ['a'], 'ids': [[1, 2]]})).to_pydict())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "{'key': ['a'], 'sums': [[3.0, 30.0]]}"


def test_a_changed_model_is_loaded_again(model: Path) -> None:
    scorer = uncork.score.Scorer(model)
    before = scorer.compiled
    model.write_text(model.read_text() + "\n")
    assert scorer.compiled is not before
    assert scorer(TABLE).to_pydict() == {"sums": SUMS}


def test_models_with_state_are_refused(tmp_path: Path) -> None:
    builder = uncork.Builder("counter")
    x = builder.parameter("x", "f32", [None])
    (before,) = builder.add(
        "ReadValue",
        6,
        x,
        variable_id="v",
        variable_type="f32",
        variable_shape=uncork.PartialShape([None]),
    )
    builder.add("Assign", 6, builder.add("Add", 1, before, x)[0], variable_id="v")
    builder.result(before, "y")
    uncork.write_model(builder.model(), tmp_path / "counter.xml")
    with pytest.raises(
        uncork.InputError, match="has variables, which carry state from one call to the next"
    ):
        uncork.score.Scorer(tmp_path / "counter.xml")


# ---- inside engines


def test_duckdb(model: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("source", TABLE)
    relation = connection.sql("select key, ids from source order by key desc")
    scorer = uncork.score.Scorer(model, keep=["key"])
    scored = scorer(relation.to_arrow_table())
    assert scored.to_pydict() == {"key": ["c", "b", "a"], "sums": SUMS[::-1]}
    connection.register("scored", scored)
    assert connection.sql("select key from scored where sums[1] > 5").fetchall() == [("c",)]


def test_ray_data(model: Path) -> None:
    """In a process of its own, which ends with everything that Ray has started."""
    pytest.importorskip("ray.data")
    code = f"""
import pyarrow as pa, ray, uncork
ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
rows = pa.table({{"key": ["a", "b", "c"], "ids": [[1, 2], [0, 3], [3, 3]]}})
scorer = uncork.score.Scorer({str(model)!r}, keep=["key"])
print(ray.data.from_arrow(rows).map_batches(scorer, batch_format="pyarrow").take_all())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [{"key": key, "sums": sums} for key, sums in zip("abc", SUMS, strict=True)]
    assert done.stdout.strip().splitlines()[-1] == str(rows)


def test_polars_calls_it(model: Path) -> None:
    """In a query that is planned before there are rows."""
    polars = pytest.importorskip("polars")
    scorer = uncork.score.Scorer(model, keep=["key"])
    rows = polars.LazyFrame(TABLE.to_pydict(), schema_overrides={"ids": polars.List(polars.Int64)})
    columns = scorer(rows.head(0).collect()).schema
    scored = rows.map_batches(scorer, schema=columns).filter(polars.col("key") != "b").collect()
    assert scored["key"].to_list() == ["a", "c"]
    assert scored["sums"].to_list() == [SUMS[0], SUMS[2]]


def test_spark(model: Path) -> None:
    """In a process of its own, as Ray Data."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("no Spark, or no Java for it")
    code = f"""
import uncork
from pyspark.sql import SparkSession
settings = {{"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = [("a", [1, 2]), ("b", [0, 3]), ("c", [3, 3])]
rows = spark.createDataFrame(rows, "key string, ids array<long>")
scorer = uncork.score.Scorer({str(model)!r}, inputs={{"ids": "padded(ids, 2)"}}, keep=["key"])
scored = rows.mapInArrow(scorer.map_batches, "key string, sums array<float>")
print([tuple(row) for row in scored.collect()])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == str(list(zip("abc", SUMS, strict=True)))
