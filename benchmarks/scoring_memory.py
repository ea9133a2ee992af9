"""What workers take together when they score with a table of 4 GB, which is a sparse file as in
`benchmarks memory`.
"""

from __future__ import annotations

import json
import mmap
import os
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
from uncork.types import Array

_ROOT = Path(__file__).resolve().parent.parent
_TABLE_ROWS, _TOUCHED, _ROW_BYTES = 1 << 24, 60_000, 256
_POOL = 10


@dataclass(frozen=True)
class Sizes:
    """MB of one worker: its share of the table's pages (they are divided among the processes that
    map them), the table's pages that
    it maps, and its share of everything else, anonymous memory included."""

    table_share: float
    table_mapped: float
    rest: float


@dataclass(frozen=True)
class Shared:
    """The sizes of each worker at the moment when they took most together."""

    workers: int
    table_bytes: int
    touched_mb: float
    each: tuple[Sizes, ...]
    rows_per_second: float
    read_ahead_kb: int


def measure(folder: Path, quick: bool) -> list[Shared]:
    """1, 2 and 4 workers on the same rows. Each of them looks up every row that holds numbers, many
    times.
    """
    generator = np.random.default_rng(3)
    rows, touched, bags = (
        (_TABLE_ROWS // 64, _TOUCHED // 64, 100_000)
        if quick
        else (_TABLE_ROWS, _TOUCHED, 1_500_000)
    )
    model, picked, *_ = make_model(folder, rows, generator, touched)
    ids = pa.array(generator.choice(picked, bags * _POOL))
    table = folder / "bags.parquet"
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(0, bags * _POOL + 1, _POOL, dtype=np.int32)), ids
    )
    pq.write_table(pa.table({"ids": lists}), table, row_group_size=bags // 32, compression="none")
    weights = model.with_suffix(".bin")
    first = weights.stat().st_size - rows * _ROW_BYTES
    pages = len(np.unique((first + picked * _ROW_BYTES) // mmap.PAGESIZE))
    results = []
    for workers in (1, 2, 4):
        _cache_only(weights, first + picked * _ROW_BYTES)
        results.append(
            _measure(workers, model, table, folder, rows * _ROW_BYTES, pages * mmap.PAGESIZE / 1e6)
        )
    return results


def _cache_only(path: Path, places: Array) -> None:
    """Let the system have only these pages of the file in memory: what runs before have left there
    would be mapped as well.
    """
    with open(path, "rb", buffering=0) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(
            file.fileno(), 0, 0, os.POSIX_FADV_RANDOM
        )  # no pages ahead of those that are read
        for page in np.unique(places // mmap.PAGESIZE):
            os.pread(file.fileno(), 1, int(page) * mmap.PAGESIZE)


def _measure(
    workers: int, model: Path, table: Path, folder: Path, table_bytes: int, touched_mb: float
) -> Shared:
    output, weights = folder / "sums", model.with_suffix(".bin").name
    command = [
        sys.executable,
        "-m",
        "uncork",
        "score",
        str(model),
        str(table),
        str(output),
        "--json",
        f"--workers={workers}",
    ]
    command += ["--input=indices=values(ids)", "--input=offsets=offsets(ids)"]
    largest: list[Sizes] = []
    with subprocess.Popen(
        command,
        env=environment(folder, 1),
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None:
            found = [
                sizes
                for pid in _children(process.pid)
                if (sizes := _sizes(pid, weights)) is not None
            ]
            if len(found) == workers and _sum(found) > _sum(largest):
                largest = found
            time.sleep(0.05)
        assert process.stdout is not None and process.stderr is not None
        said, errors = process.stdout.read(), process.stderr.read()
    shutil.rmtree(output, ignore_errors=True)
    if process.returncode or not largest:
        raise RuntimeError(
            (errors.strip().splitlines() or ["it ended before it was seen"])[-1][:300]
        )
    ahead = _read_ahead_kb(model.with_suffix(".bin"))
    return Shared(
        workers, table_bytes, touched_mb, tuple(largest), json.loads(said)["rows_per_second"], ahead
    )


def _read_ahead_kb(path: Path) -> int:
    """What the system reads at a time of this file; 0 where it does not say."""
    device = path.stat().st_dev
    told = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return int(told.read_text()) if told.exists() else 0


def _sum(sizes: Sequence[Sizes]) -> float:
    return sum(size.table_share + size.rest for size in sizes)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def _sizes(pid: int, weights: str) -> Sizes | None:
    """The sizes of a process; None when it is gone, or has not mapped the table."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text()
    except OSError:
        return None
    share = mapped = rest = 0
    in_table = found = False
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "Pss" and in_table:
            share += int(value.split()[0])
        elif name == "Pss":
            rest += int(value.split()[0])
        elif name == "Rss" and in_table:
            mapped += int(value.split()[0])
        elif (
            "-" in name and " " in line and not value.endswith("kB")
        ):  # the line that begins a mapping ends with its file
            in_table = line.endswith(weights)
            found |= in_table
    return Sizes(*(kib * 1024 / 1e6 for kib in (share, mapped, rest))) if found else None


def page(results: Sequence[Shared]) -> str:
    """One line for each number of workers."""
    if not results:
        return ""
    head = [
        "workers",
        "table's pages of all, MB",
        "that one maps, MB",
        "all else of all, MB",
        "of each, MB",
        "rows/s, whole command",
    ]
    lines = []
    for r in results:
        line = [
            str(r.workers),
            f"{sum(s.table_share for s in r.each):.0f}",
            f"{max(s.table_mapped for s in r.each):.0f}",
        ]
        line += [
            f"{sum(s.rest for s in r.each):.0f}",
            " ".join(f"{s.rest:.0f}" for s in r.each),
            f"{r.rows_per_second:,.0f}",
        ]
        lines.append(line)
    first = results[0]
    text = (
        f"A table of {first.table_bytes / 2**30:.3g} GiB; the pages of the rows that are looked "
        f"up have {first.touched_mb:.0f} MB, and only\n"
        "these are in memory when a run begins. The table's pages are in memory once: all "
        "workers together have about as many as the\n"
        "one that maps most. Each of them maps what it looks up, and pages around that are in "
        "memory. How many these are is the system's\n"
        f"affair: it may take any page away, and here reads {first.read_ahead_kb} KB of the file "
        "when one is asked for again, so\n"
        "that the figures differ from run to run. Memory is proportional: what processes share "
        "is divided among them."
    )
    return f"{text}\n\n{markdown_table(head, lines)}"
