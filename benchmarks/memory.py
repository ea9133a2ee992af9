"""`python -m benchmarks memory`: a model with a table of 4 GB, which is a sparse file: it takes no
room on the disk.

The rows that are looked up hold random numbers, and the sums are checked. Measured in fresh
processes: the time to load the model, what it adds to resident memory beyond the pages of those
rows, and what four processes take that use it together.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.goals import MEMORY_BEYOND, MEMORY_LOAD
from benchmarks.options import Options
from benchmarks.processes import command, environment
from benchmarks.report import Report, markdown_table
from uncork import Builder, write_model
from uncork.types import Array

_COLUMNS, _ROW = 64, 256
_ROWS, _TOUCHED, _PROCESSES = 1 << 24, 2000, 4
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

_PROGRAM = """
import json, sys, time
import numpy
def resident():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon", "RssFile")}
def say(**what):
    print(json.dumps(what), flush=True)
small, large, given = sys.argv[1:]
stored = numpy.load(given)
inputs, outputs = [stored["indices"], stored["offsets"]], stored["sums"]
# What is imported and compiled once is there before the large model is.
run(load(small, inputs), [inputs[0] % 16, inputs[1]])
before = resident()
start = time.perf_counter()
loaded = load(large, inputs)
seconds = time.perf_counter() - start
at_load = resident()
result = run(loaded, inputs)[0]
error = float(numpy.abs(result - outputs).max())
say(before=before, load_s=seconds, loaded=at_load, called=resident(), error=error)
sys.stdin.readline()
more = []
for _ in range(5):
    start = time.perf_counter()
    load(large, inputs)
    more.append(time.perf_counter() - start)
say(load_s=more)
"""


@dataclass(frozen=True)
class _Result:
    system: str
    load_first_s: float
    load_best_s: float
    added_at_load_mb: float
    added_by_call_mb: float
    touched_mb: float
    beyond_mb: float
    private_mb: float
    shared_by_processes: int
    proportional_mb: tuple[float, ...]
    alone_mb: float


def make_model(
    folder: Path, rows: int, generator: np.random.Generator, touched: int
) -> tuple[Path, Array, Array, Array]:
    """A model of `rows` rows whose weights file has holes wherever no row is looked up; indices,
    offsets and right sums.

    It is written with 16 rows by uncork, and then told that the table goes on.
    """
    builder = Builder("large")
    table = builder.constant(
        generator.standard_normal((16, _COLUMNS)).astype(np.float32), name="table"
    )
    indices, offsets = (
        builder.parameter("indices", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    (sums,) = builder.add("EmbeddingBagOffsetsSum", 3, table, indices, offsets)
    builder.result(sums, "sums")
    path = folder / f"rows{rows}.xml"
    write_model(builder.model(), path)
    tree = ElementTree.parse(path)
    layer = next(layer for layer in tree.iter("layer") if layer.get("name") == "table")
    data = layer.find("data")
    assert data is not None
    offset = int(data.get("offset", "0"))
    data.set("shape", f"{rows}, {_COLUMNS}")
    data.set("size", str(rows * _ROW))
    # Every port that states the table's shape: its own, and the one that it goes into.
    for port in tree.iter("port"):
        dims = port.findall("dim")
        if [d.text for d in dims] == ["16", str(_COLUMNS)]:
            dims[0].text = str(rows)
    tree.write(path)
    picked = np.sort(generator.choice(rows, touched, replace=False))
    values = generator.standard_normal((touched, _COLUMNS)).astype(np.float32)
    with open(path.with_suffix(".bin"), "rb+") as file:
        file.truncate(offset + rows * _ROW)
        for row, value in zip(picked, values, strict=True):
            file.seek(offset + int(row) * _ROW)
            file.write(value.tobytes())
    order = generator.permutation(touched)
    starts = np.arange(0, touched, 10)
    return path, picked[order], starts, np.add.reduceat(values[order].astype(np.float64), starts)


def main(options: Options) -> int:
    """uncork, and OpenVINO where there is memory for it."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("memory is read from /proc, which this system does not have")
        return 0
    generator = np.random.default_rng(5)
    results: list[_Result] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows, touched = (_ROWS // 16, _TOUCHED // 4) if options.quick else (_ROWS, _TOUCHED)
        small, *_ = make_model(folder, 17, generator, 17)
        large, indices, offsets, sums = make_model(folder, rows, generator, touched)
        given = folder / "given.npz"
        np.savez(given, indices=indices, offsets=offsets, sums=sums)
        systems = ["uncork"] + (["openvino"] if options.peers.get("openvino") else [])
        for system in systems:
            if options.wants(system):
                arguments = [
                    *command(system, _PROGRAM, options.threads),
                    str(small),
                    str(large),
                    str(given),
                ]
                try:
                    _prime(arguments, environment(folder, options.threads), folder)
                    results.append(
                        _measure(
                            system, arguments, environment(folder, options.threads), folder, indices
                        )
                    )
                except (RuntimeError, OSError) as error:
                    notes.append(f"{system}: {error}")
    report = Report("memory", options)
    report.write(
        {
            "memory": [asdict(r) for r in results],
            "table_bytes": rows * _ROW,
            "rows_touched": touched,
            "notes": notes,
        },
        "\n\n".join(
            [
                f"A table of {rows * _ROW / 2**30:.3g} GiB, {touched} rows of it looked up.",
                _page(results),
                *notes,
            ]
        ),
    )
    report.say()
    return 1 if any(note.startswith("uncork") for note in notes) else 0


def _measure(
    system: str, arguments: list[str], env: dict[str, str], folder: Path, indices: Array
) -> _Result:
    processes: list[subprocess.Popen[str]] = []
    try:
        processes.append(_start(arguments, env, folder))
        first = _answer(processes[0])
        if not first["error"] < 1e-4:
            raise RuntimeError(f"wrong result: error {first['error']:.2g}")
        alone = _proportional(processes[0].pid)
        added = first["called"]["VmRSS"] - first["before"]["VmRSS"]
        available = (
            int(re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[0]) * 1024
        )
        count = _PROCESSES if added * _PROCESSES < 0.6 * available else 1
        for _ in range(count - 1):
            processes.append(_start(arguments, env, folder))
            _answer(processes[-1])
        proportional = tuple(_proportional(process.pid) / 1e6 for process in processes)
        assert processes[0].stdin is not None
        processes[0].stdin.write("\n")
        processes[0].stdin.flush()
        again = _answer(processes[0])["load_s"]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    pages = len(
        np.unique(np.concatenate([indices * _ROW // _PAGE, (indices * _ROW + _ROW - 1) // _PAGE]))
    )
    at_load = first["loaded"]["VmRSS"] - first["before"]["VmRSS"]
    return _Result(
        system=system,
        load_first_s=first["load_s"],
        load_best_s=min(again),
        added_at_load_mb=at_load / 1e6,
        added_by_call_mb=(first["called"]["VmRSS"] - first["loaded"]["VmRSS"]) / 1e6,
        touched_mb=pages * _PAGE / 1e6,
        beyond_mb=(added - pages * _PAGE) / 1e6,
        private_mb=(first["called"]["RssAnon"] - first["before"]["RssAnon"]) / 1e6,
        shared_by_processes=count,
        proportional_mb=proportional,
        alone_mb=alone / 1e6,
    )


def _start(arguments: list[str], env: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        env=env,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _prime(arguments: list[str], env: dict[str, str], folder: Path) -> None:
    """A run that leaves compiled kernels behind: the memory of a compiler is not a model's."""
    process = _start(arguments, env, folder)
    try:
        _answer(process)
    finally:
        process.kill()
        process.communicate()


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(
            (process.stderr.read().strip().splitlines() or ["it ended without a word"])[-1][:300]
        )
    answer: dict[str, Any] = json.loads(line)
    return answer


def _proportional(pid: int) -> int:
    """Bytes of memory of a process, those shared with others divided among them."""
    return (
        int(
            re.findall(
                r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE
            )[0]
        )
        * 1024
    )


def _page(results: list[_Result]) -> str:
    head = [
        "",
        "load, first, ms",
        "load, best, ms",
        "added at load, MB",
        "added by the call, MB",
        "pages of the rows, MB",
        "beyond them, MB",
    ]
    head += [
        "of it private, MB",
        "processes",
        "proportional memory of each, MB",
        "of one alone, MB",
    ]
    rows = []
    for r in results:
        row = [
            r.system,
            f"{r.load_first_s * 1e3:.1f}",
            f"{r.load_best_s * 1e3:.1f}",
            f"{r.added_at_load_mb:.1f}",
            f"{r.added_by_call_mb:.1f}",
        ]
        row += [
            f"{r.touched_mb:.1f}",
            f"{r.beyond_mb:.1f}",
            f"{r.private_mb:.1f}",
            str(r.shared_by_processes),
        ]
        rows.append([*row, " ".join(f"{mb:.0f}" for mb in r.proportional_mb), f"{r.alone_mb:.0f}"])
    ours = next((r for r in results if r.system == "uncork"), None)
    lines = [markdown_table(head, rows)] if rows else []
    if ours:
        load, beyond = ours.load_first_s <= MEMORY_LOAD, ours.beyond_mb * 1e6 <= MEMORY_BEYOND
        lines.append(
            f"uncork loads it in {ours.load_first_s * 1e3:.1f} ms "
            f"({'<=' if load else '**misses**'} {MEMORY_LOAD * 1e3:.0f} ms) and adds "
            f"{ours.beyond_mb:.1f} MB beyond the rows ({'<=' if beyond else '**misses**'} "
            f"{MEMORY_BEYOND / 1e6:.0f} MB)."
        )
    return "\n\n".join(lines)
