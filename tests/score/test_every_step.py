"""A run that ends at any step on the file system: the old output or the new one is whole, and it is
resumed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests._steps import found_by
from tests.score.conftest import write_lookup

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every run is a fork")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """model.xml (`ids` i64[?] -> `out` f32[?,3]), rows.parquet (20 rows, ids 3 and 13 bad),
    good.parquet.
    """
    write_lookup(tmp_path / "model.xml")
    values = [99 if i in (3, 13) else i % 20 for i in range(20)]
    pq.write_table(pa.table({"ids": values}), tmp_path / "rows.parquet", row_group_size=10)
    pq.write_table(
        pa.table({"ids": [i % 20 for i in range(20)]}), tmp_path / "good.parquet", row_group_size=10
    )
    return tmp_path


FOLDER, FILE, SIMPLE = ("out", "bad.parquet"), ("out.parquet", "bad.parquet"), ("out.parquet", "")
CASES = [
    (*kind, before, "killed")
    for kind in (FOLDER, FILE, SIMPLE)
    for before in ("fresh", "overwrite")
]
CASES += [
    (*kind, "overwrite", how)
    for kind in (FOLDER, FILE)
    for how in ("interrupted", "full", "denied")
]


@pytest.mark.parametrize(("output", "rejects", "before", "how"), CASES)
def test_a_run_that_ends_at_any_step(
    folder: Path, output: str, rejects: str, before: str, how: str
) -> None:
    found = found_by("tests.score.steps", str(folder), output, rejects, before, how)
    assert found["steps"] > 10
    assert found["failed"] == []
