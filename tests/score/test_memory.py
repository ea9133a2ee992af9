"""Memory does not grow with the table, and workers share the model's tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import TABLE
from tests.score.test_units import BAGS
from uncork.score import prepare_score
from uncork.score.local import LocalEngine
from uncork.score.options import ScoreOptions

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_PEAK = """
import pathlib, re, sys
import uncork.score.parts as parts
from uncork.score import prepare_score
from uncork.score.options import ScoreOptions
from uncork.score.unit import UnitScorer
from uncork.score.engine import write_unit
parts._GROUP_BYTES = 1 << 20
inputs = {"ids": "values(items)", "offsets": "offsets(items)"}
options = ScoreOptions(inputs=inputs, keep=["row", "items"], batch_size=512, rows_per_part=10**9)
prepared = prepare_score(sys.argv[1], sys.argv[2], options)
(unit,) = prepared.units
folder = pathlib.Path(sys.argv[3])
folder.mkdir()
write_unit(UnitScorer(prepared.job), unit, folder, lambda rows: None)
print(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
"""


def test_memory_is_flat_over_ten_times_the_rows(bags: Path, tmp_path: Path) -> None:
    """One unit, one row group, uncompressed: 5 MB and 50 MB of ids, copied to the output as
    well.
    """
    peaks = []
    for rows in (12_000, 120_000):
        ids = np.random.default_rng(0).integers(0, len(TABLE), rows * 50)
        items = pa.ListArray.from_arrays(
            pa.array(np.arange(rows + 1, dtype=np.int32) * 50), pa.array(ids)
        )
        source = tmp_path / f"{rows}.parquet"
        pq.write_table(
            pa.table({"items": items}),
            source,
            row_group_size=rows,
            use_dictionary=False,
            compression="none",
        )
        assert source.stat().st_size > rows * 400
        command = [
            sys.executable,
            "-c",
            _PEAK,
            str(bags),
            str(source),
            str(tmp_path / f"out{rows}"),
        ]
        peaks.append(
            int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        )
    assert peaks[1] - peaks[0] < 15_000, f"{peaks} kB"


def test_workers_share_the_tables(tmp_path: Path) -> None:
    """64 MB of table that all rows together read whole: two workers hold them once."""
    table = np.ones((1 << 18, 64), np.float32)
    builder = uncork.Builder("big")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    (sums,) = builder.add("EmbeddingBagOffsetsSum", 3, builder.constant(table), ids, offsets)
    builder.result(sums, "sums")
    uncork.write_model(builder.model(), tmp_path / "big.xml")
    rows = 1 << 14
    items = pa.ListArray.from_arrays(
        pa.array(np.arange(2 * rows + 1, dtype=np.int32) * 16),
        pa.array(np.tile(np.arange(1 << 18), 2)),
    )
    pq.write_table(pa.table({"items": items}), tmp_path / "rows.parquet", row_group_size=rows)
    prepared = prepare_score(
        tmp_path / "big.xml",
        tmp_path / "rows.parquet",
        ScoreOptions(inputs=BAGS, rows_per_part=rows),
    )
    assert len(prepared.units) == 2
    engine = LocalEngine(2)
    folder = tmp_path / "parts"
    folder.mkdir()
    try:
        for worker, unit in zip(engine._workers, prepared.units, strict=True):
            worker._send((prepared.job, folder))
            worker._answer()
            worker._send(unit)
            while worker._answer()[0] != "done":
                pass
        private = [_mapped(pid, "big.bin") for pid in engine.process_ids]
    finally:
        engine.close()
    for resident, proportional in private:
        assert resident > 60_000, "the rows did not read the whole table"
        assert proportional < 0.6 * resident, "each worker has a table of its own"


def _mapped(pid: int, name: str) -> tuple[int, int]:
    """Rss and Pss, in kB, of a process's mappings of a file."""
    rss = pss = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = line.endswith(name)
        elif inside and words[0] in ("Rss:", "Pss:"):
            rss, pss = (
                (rss + int(words[1]), pss) if words[0] == "Rss:" else (rss, pss + int(words[1]))
            )
    return rss, pss
