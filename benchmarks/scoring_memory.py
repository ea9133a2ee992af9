"""What workers take together when they score with a table of 4 GB, which is a sparse file as in `benchmarks memory`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import make_model
from benchmarks.processes import environment
from benchmarks.report import markdown_table

_ROOT = Path(__file__).resolve().parent.parent
_TABLE_ROWS, _TOUCHED, _ROW_BYTES = 1 << 24, 60_000, 256
_POOL = 10


@dataclass(frozen=True)
class Shared:
    """Proportional set sizes (pages that processes share are divided among them) at the moment when their sum was largest."""

    workers: int
    table_bytes: int
    touched_mb: float
    sum_mb: float
    each_mb: tuple[float, ...]
    private_mb: float
    rows_per_second: float


def measure(folder: Path, quick: bool) -> list[Shared]:
    """1, 2 and 4 workers on the same rows. Each of them looks up every row that holds numbers, many times."""
    generator = np.random.default_rng(3)
    rows, touched, bags = (_TABLE_ROWS // 64, _TOUCHED // 64, 20_000) if quick else (_TABLE_ROWS, _TOUCHED, 2_000_000)
    model, picked, *_ = make_model(folder, rows, generator, touched)
    ids = pa.array(generator.choice(picked, bags * _POOL))
    table = folder / "bags.parquet"
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, bags * _POOL + 1, _POOL, dtype=np.int32)), ids)
    pq.write_table(pa.table({"ids": lists}), table, row_group_size=bags // 32, compression="none")
    pages = len(np.unique(picked * _ROW_BYTES // os.sysconf("SC_PAGE_SIZE")))
    return [_measure(workers, model, table, folder, rows * _ROW_BYTES, pages * os.sysconf("SC_PAGE_SIZE") / 1e6) for workers in (1, 2, 4)]


def _measure(workers: int, model: Path, table: Path, folder: Path, table_bytes: int, touched_mb: float) -> Shared:
    output = folder / "sums"
    command = [sys.executable, "-m", "uncork", "score", str(model), str(table), str(output), "--json", f"--workers={workers}"]
    command += ["--input=indices=values(ids)", "--input=offsets=offsets(ids)"]
    largest: list[tuple[float, float]] = []
    with subprocess.Popen(command, env=environment(folder, 1), cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            found = [sizes for pid in _children(process.pid) if (sizes := _sizes(pid)) is not None]
            if len(found) == workers and sum(size for size, _ in found) > sum(size for size, _ in largest):
                largest = found
            time.sleep(0.02)
        assert process.stdout is not None and process.stderr is not None
        said, errors = process.stdout.read(), process.stderr.read()
    shutil.rmtree(output, ignore_errors=True)
    if process.returncode or not largest:
        raise RuntimeError((errors.strip().splitlines() or ["it ended before it was seen"])[-1][:300])
    each = tuple(size for size, _ in largest)
    private = max(private for _, private in largest)
    return Shared(workers, table_bytes, touched_mb, sum(each), each, private, json.loads(said)["rows_per_second"])


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _sizes(pid: int) -> tuple[float, float] | None:
    """MB of a process: proportional, and its own anonymous memory. None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    sizes = {name: int(size) * 1024 / 1e6 for name, size in re.findall(r"^(Pss|Pss_Anon):\s+(\d+)", text, re.MULTILINE)}
    return (sizes["Pss"], sizes.get("Pss_Anon", 0.0)) if "Pss" in sizes else None


def page(results: Sequence[Shared]) -> str:
    """One line for each number of workers."""
    if not results:
        return ""
    head = ["workers", "proportional memory of all, MB", "of each, MB", "largest private, MB", "rows/s, whole command"]
    lines = [
        [str(r.workers), f"{r.sum_mb:.0f}", " ".join(f"{mb:.0f}" for mb in r.each_mb), f"{r.private_mb:.0f}", f"{r.rows_per_second:,.0f}"]
        for r in results
    ]
    first = results[0]
    text = f"A table of {first.table_bytes / 2**30:.3g} GiB; the pages of the rows that are looked up have {first.touched_mb:.0f} MB."
    return f"{text}\n\n{markdown_table(head, lines)}"
