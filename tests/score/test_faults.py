"""What goes wrong while rows are scored: workers killed, Ctrl-C, a full disk, files that break off.
Rows must reconcile exactly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import Row, random_rows, summed
from tests.score.test_units import BAGS, write
from uncork.errors import InputError, UncorkError
from uncork.score import prepare_score, worker
from uncork.score.local import LocalEngine
from uncork.score.options import ScoreOptions
from uncork.score.parts import PartWriter, scratch_files
from uncork.score.sink import JOURNAL, Sink
from uncork.score.target import foreign_names

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

COUNT = 20_000
ROWS = random_rows(COUNT, 7, 30)
COMMAND = [sys.executable, "-m", "uncork", "score", "bags.xml", "rows.parquet", "out"]
COMMAND += [word for name, text in BAGS.items() for word in ("--input", f"{name}={text}")]
#: Batches of few rows: a run that lasts long enough to be disturbed.
SLOW = ["--batch-size", "1", "--rows-per-part", "400", "--keep", "row,user"]


@pytest.fixture
def source(bags: Path, tmp_path: Path) -> Path:
    """rows.parquet beside bags.xml, in row groups of 1,000."""
    return write(tmp_path / "rows.parquet", ROWS, 1000)


def check(output: Path, rows: list[Row] = ROWS) -> None:
    """Every row is there once, in order, with its sum."""
    table = pq.read_table(output)
    assert table["row"].to_pylist() == list(range(len(rows)))
    assert table["sums"].to_pylist() == [summed(row.items) for row in rows]


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """The command, in a process group of its own as a terminal would give it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *SLOW, *more],
        cwd=folder,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    )


def journalled(folder: Path) -> list[int]:
    """The units that the journal of a run into `out` has."""
    path = folder / ".out.partial" / JOURNAL
    # The last line may just be being written.
    return (
        [json.loads(line)["unit"] for line in path.read_text().split("\n")[1:-1]]
        if path.exists()
        else []
    )


def wait_for(folder: Path, units: int, process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + 60
    while len(journalled(folder)) < units:
        assert time.monotonic() < until, "no unit was finished"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def limited(size: int, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command where no file may have more than `size` bytes."""
    limit = (
        f"import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({size}, r.RLIM_INFINITY)); "
        "import sys, uncork.cli as c; sys.exit(c.main())"
    )
    command = [sys.executable, "-c", limit, *COMMAND[3:], *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def children(process: int) -> list[int]:
    # By thread: a worker that was replaced is the child of the thread that serves it.
    return [
        int(word)
        for path in Path(f"/proc/{process}/task").glob("*/children")
        for word in path.read_text().split()
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc")
def test_killed_workers_are_replaced_and_rows_scored_once(source: Path) -> None:
    folder = source.parent
    rows = ROWS * 4
    write(source, rows, 1000)
    process = start(folder, "--workers", "2", "--json")
    killed: set[int] = set()
    while len(killed) < 4:
        wait_for(folder, len(killed) + 1, process)
        for victim in sorted(set(children(process.pid)) - killed)[
            :1
        ]:  # the oldest: no unit is hit twice in a row
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert summary["replaced_workers"] == 4
    assert (summary["rows"], summary["scored"], summary["rejected"]) == (4 * COUNT, 4 * COUNT, 0)
    assert summary["parts"] == 240
    check(folder / "out", rows)
    assert not list((folder / "out").glob("*.tmp"))


def test_a_unit_that_kills_every_worker_is_an_error(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = (
        "import os, json, sys; sys.path[:] = json.loads(sys.argv[1]); import uncork.score.worker "
        "as w; "
        "w.write_unit = lambda *a: os.kill(os.getpid(), 9); w.main()"
    )
    monkeypatch.setattr("uncork.score.local._START", killer)
    message = (
        r"worker: 3 workers ended while scoring rows 0 to \d+, the last by SIGKILL \(the "
        r"system does that when memory runs out"
    )
    with pytest.raises(UncorkError, match=message):
        uncork.score(
            source.parent / "bags.xml", source, source.parent / "out", inputs=BAGS, workers=1
        )
    assert not (source.parent / ".out.partial").exists()


def test_the_unit_that_was_being_scored_is_blamed(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has the next unit before the disk is done with one; the units before the fatal one
    are kept.
    """
    killer = (
        "import os, json, sys; sys.path[:] = json.loads(sys.argv[1]); import uncork.score.worker "
        "as w; write = w.write_unit; "
        "w.write_unit = lambda *a: os.kill(os.getpid(), 9) if a[1].number == 2 else write(*a); "
        "w.main()"
    )
    monkeypatch.setattr("uncork.score.local._START", killer)
    with pytest.raises(
        UncorkError,
        match=r"3 workers ended while scoring rows 2000 to 2999, (.|\n)*2 of 20 parts \(2,000 "
        r"rows\) are kept",
    ):
        uncork.score(
            source.parent / "bags.xml",
            source,
            source.parent / "out",
            inputs=BAGS,
            workers=1,
            rows_per_part=1000,
        )


def test_a_part_that_cannot_be_made_durable(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong while the next unit is scored is an error of the run, and the part is not
    there.
    """
    failing = (
        "import os, json, sys; sys.path[:] = json.loads(sys.argv[1]); import uncork.score.worker "
        "as w; real = os.replace; "
        "os.replace = lambda a, b: real(a, b) if 'part-00003' not in str(a) else "
        "real('/nowhere', b); w.main()"
    )
    monkeypatch.setattr("uncork.score.local._START", failing)
    folder = source.parent
    with pytest.raises(
        UncorkError,
        match=r"part-00003.parquet: cannot be written: No such file(.|\n)*3 of 20 parts",
    ):
        uncork.score(
            folder / "bags.xml", source, folder / "out", inputs=BAGS, workers=1, rows_per_part=1000
        )
    assert sorted(path.name for path in (folder / ".out.partial").iterdir()) == [
        JOURNAL,
        *(f"part-0000{i}.parquet" for i in range(3)),
    ]


def test_progress_only_grows(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    prepared = prepare_score(
        source.parent / "bags.xml",
        source,
        ScoreOptions(inputs=BAGS, batch_size=1, rows_per_part=1000),
    )
    engine = LocalEngine(2)
    sink = Sink(str(source.parent / "out"), None, prepared.describe(), prepared.job)
    sink.open(False, False)
    try:
        engine.score_units(prepared.job, prepared.units, sink, told.append)
    finally:
        engine.close()
        sink.leave()
    assert told == sorted(told)
    assert told[-1] == COUNT
    assert len(told) >= len(prepared.units)


def test_rows_are_told_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a unit is under way: by a clock of our own, since a fast machine is done with a
    unit before the first time.
    """
    now, told = [100.0], []
    monkeypatch.setattr("uncork.score.worker.time.monotonic", lambda: now[0])
    add = worker._seldom(told.append)
    for seconds in (0.0, 0.05, 0.04, 0.02, 0.0, 0.09, 0.2):
        now[0] += seconds
        add(10)
    assert told == [40, 30]


def test_scratch_files_of_other_hosts_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts may have processes of one number, and write the same part into a folder that they
    share.
    """
    schema = pa.schema([pa.field("row", pa.int64())])
    writers = []
    for host in ("left", "right", "right", "odd/[name]*"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        writers.append(PartWriter(tmp_path / "part-00000.parquet", schema))
        assert len(scratch_files(tmp_path, os.getpid())) == sum(
            host in name for name in ("left", "right", "odd/[name]*")
        ) + (len(writers) == 3)
        assert not scratch_files(tmp_path, os.getpid() + 1)
    assert len(list(tmp_path.glob("*.tmp"))) == len(writers)
    for number, writer in enumerate(writers):
        writer.write(pa.RecordBatch.from_arrays([pa.array([number])], schema=schema))
        writer.close()
        assert pq.read_table(writer.path)["row"].to_pylist() == [number]
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.parquet"]


def test_interrupted_and_resumed(source: Path) -> None:
    folder = source.parent
    process = start(folder, "--workers", "2")
    wait_for(folder, 5, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    kept = journalled(folder)
    assert f"uncork: interrupted; {len(kept)} of 60 parts (" in err
    assert "Traceback" not in err
    assert not (folder / "out").exists()
    assert not list((folder / ".out.partial").glob("*.tmp"))
    # The command alone does not touch what is kept.
    assert (
        "has the parts of an interrupted run"
        in subprocess.run(
            [*COMMAND, *SLOW], cwd=folder, capture_output=True, text=True, check=False
        ).stderr
    )
    # Nor is another command taken for the same.
    other = subprocess.run(
        [*COMMAND, *SLOW, "--resume", "--no-strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot be resumed: load options not as before" in other.stderr
    done = subprocess.run(
        [*COMMAND, *SLOW, "--resume", "--workers", "1", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert summary["resumed_rows"] == sum(400 if unit % 3 < 2 else 200 for unit in kept)
    assert (summary["rows"], summary["scored"]) == (COUNT, COUNT)
    check(folder / "out")
    assert not (folder / ".out.partial").exists()


def test_a_killed_run_is_resumed(source: Path) -> None:
    """The whole process group at once, as when power fails."""
    folder = source.parent
    process = start(folder, "--workers", "2")
    wait_for(folder, 4, process)
    for child in children(process.pid) if sys.platform.startswith("linux") else []:
        os.kill(child, signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    partial = folder / ".out.partial"
    # A line that was being written, and parts that are not what the journal says.
    with open(partial / JOURNAL, "a") as journal:
        journal.write('{"unit": 59, "counts": {"ro')
    first, second = sorted(partial.glob("part-*.parquet"))[:2]
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    (partial / "part-00059.parquet.123.tmp").write_text("half")
    subprocess.run(
        [*COMMAND, *SLOW, "--resume", "--workers", "2"], cwd=folder, check=True, capture_output=True
    )
    check(folder / "out")
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "_SUCCESS",
        *(f"part-{i:05d}.parquet" for i in range(60)),
    ]


def test_workers_end_with_their_parent(source: Path) -> None:
    process = start(source.parent, "--workers", "2")
    wait_for(source.parent, 1, process)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 20
    while any(
        Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text()
        for worker in workers
    ):
        assert time.monotonic() < until, "a worker lives on"
        time.sleep(0.05)


def test_one_run_at_a_time(source: Path) -> None:
    process = start(source.parent, "--workers", "1")
    try:
        wait_for(source.parent, 1, process)
        other = subprocess.run(
            [*COMMAND, *SLOW, "--resume"],
            cwd=source.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "out: is being written by another run" in other.stderr
    finally:
        process.communicate(timeout=120)
    assert process.returncode == 0
    check(source.parent / "out")


def test_files_that_another_run_renames_meanwhile_are_not_foreign(tmp_path: Path) -> None:
    """They are listed, and gone when somebody looks at them."""

    class Listed(type(tmp_path)):  # type: ignore[misc]
        def iterdir(self) -> Iterator[Path]:
            yield from super().iterdir()
            yield tmp_path / "part-00048.parquet.machine-1-48.tmp"

    (tmp_path / "part-00001.parquet").touch()
    (tmp_path / "part-00002.parquet").symlink_to("part-00001.parquet")
    (tmp_path / "notes.txt").touch()
    assert foreign_names(Listed(tmp_path)) == ["notes.txt", "part-00002.parquet"]


def test_a_source_that_changed_is_not_resumed(source: Path) -> None:
    folder = source.parent
    process = start(folder, "--workers", "1")
    wait_for(folder, 2, process)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    os.utime(source)
    done = subprocess.run(
        [*COMMAND, *SLOW, "--resume"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "cannot be resumed: source not as before" in done.stderr
    assert done.returncode == 1


def test_a_full_disk(source: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails in the same place with
    another number.
    """
    folder = source.parent
    wide = [
        "--keep",
        "row,user,items",
        "--batch-size",
        "512",
        "--rows-per-part",
        "20000",
        "--workers",
        "2",
    ]
    done = limited(60_000, folder, *wide)
    assert done.returncode == 1
    assert "cannot be written: " in done.stderr
    assert "File too large" in done.stderr
    assert "nothing was written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()
    assert not (folder / ".out.partial").exists()


def test_a_full_disk_in_mid_run_is_resumed(source: Path) -> None:
    """Parts of rows with long lists do not fit; those before them are kept."""
    folder = source.parent
    rows = [Row(i, [i % 20] * (3 if i < 1200 else 3000)) for i in range(2000)]
    write(source, rows, 400)
    wide = [
        "--keep",
        "row,items",
        "--batch-size",
        "100",
        "--rows-per-part",
        "400",
        "--workers",
        "1",
    ]
    # Values that do not compress.
    table = pq.read_table(source)
    noise = pa.array([os.urandom(20 if i < 1200 else 1500).hex() for i in range(2000)])
    pq.write_table(table.append_column("noise", noise), source, row_group_size=400)
    wide[1] = "row,noise"
    done = limited(200_000, folder, *wide)
    assert "File too large" in done.stderr
    assert "3 of 5 parts (1,200 rows) are kept in " in done.stderr
    subprocess.run([*COMMAND, *wide, "--resume"], cwd=folder, check=True, capture_output=True)
    check(folder / "out", rows)
    assert pq.read_table(folder / "out")["noise"].to_pylist() == noise.to_pylist()


def test_a_disk_that_is_full_when_parts_are_joined(source: Path) -> None:
    """The parts fit and the whole does not: they are kept, the old output stays, and nothing
    else.
    """
    folder = source.parent
    write(source, ROWS[:2000], 500)
    words = [
        "--keep",
        "row,user",
        "--batch-size",
        "500",
        "--rows-per-part",
        "500",
        "--workers",
        "1",
    ]
    command = ["out.parquet" if word == "out" else word for word in [*COMMAND, *words]]
    subprocess.run([*command, "--limit", "7"], cwd=folder, check=True, capture_output=True)
    old = (folder / "out.parquet").read_bytes()
    limit = (
        "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (30_000, r.RLIM_INFINITY)); "
        "import sys, uncork.cli as c; sys.exit(c.main())"
    )
    full = [sys.executable, "-c", limit, *command[3:], "--overwrite"]
    done = subprocess.run(full, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "_joined.parquet: cannot be written: File too large\n4 of 4 parts (2,000 rows) are kept in "
        in done.stderr
    )
    assert (folder / "out.parquet").read_bytes() == old
    assert not list((folder / ".out.parquet.partial").glob("*.tmp"))
    subprocess.run(
        [*command, "--overwrite", "--resume"], cwd=folder, check=True, capture_output=True
    )
    check(folder / "out.parquet", ROWS[:2000])
    assert not (folder / ".out.parquet.partial").exists()


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="mounts a file system"
)
def test_a_really_full_disk(source: Path) -> None:
    small = source.parent / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)],
        check=False,
        capture_output=True,
    ).returncode:
        pytest.skip("may not mount")
    try:
        with pytest.raises(UncorkError, match=r"cannot be written: .*No space left on device"):
            uncork.score(
                source.parent / "bags.xml",
                source,
                small / "out",
                inputs=BAGS,
                keep=["row", "user", "items"],
                workers=2,
            )
        assert not (small / "out").exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def damaged(source: Path, column: str) -> None:
    """Overwrite bytes in the middle of a column's data of the second half of the file; the footer
    stays whole.
    """
    metadata = pq.ParquetFile(source).metadata
    group = metadata.row_group(metadata.num_row_groups - 2)
    chunk = next(
        group.column(i)
        for i in range(group.num_columns)
        if group.column(i).path_in_schema.startswith(column)
    )
    data = bytearray(source.read_bytes())
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    source.write_bytes(data)


def test_a_damaged_file_is_named(source: Path) -> None:
    damaged(source, "items")
    with pytest.raises(
        UncorkError,
        match=r"rows.parquet: cannot be read, at row 0 of groups 18 to 18: .*\n\d+ of 20 parts "
        r".* are kept",
    ) as caught:
        uncork.score(
            source.parent / "bags.xml",
            source,
            source.parent / "out",
            inputs=BAGS,
            workers=1,
            rows_per_part=1000,
            batch_size=100,
        )
    assert "18 of 20 parts (18,000 rows)" in str(caught.value)
    assert not (source.parent / "out").exists()


def test_a_file_that_is_cut_while_it_is_read(source: Path) -> None:
    prepared = prepare_score(source.parent / "bags.xml", source, ScoreOptions(inputs=BAGS))
    source.write_bytes(source.read_bytes()[:5000])
    from tests.score._units import score_unit

    with pytest.raises(UncorkError, match=r"rows.parquet: cannot be read, at row 0 of groups"):
        score_unit(prepared.job, prepared.units[0])


def test_bad_rows_can_be_taken_out_of_a_run_that_failed(source: Path) -> None:
    folder = source.parent
    rows = [Row(row.user, list(row.items)) for row in ROWS[:3000]]
    rows[2500].items.append(20)
    write(source, rows, 500)
    options: dict[str, Any] = {
        "inputs": BAGS,
        "workers": 1,
        "rows_per_part": 500,
        "batch_size": 100,
    }
    with pytest.raises(
        InputError,
        match=r"row 2500, column 'items', value 20: (.|\n)*5 of 6 parts \(2,500 rows\) are kept",
    ):
        uncork.score(folder / "bags.xml", source, folder / "out", **options)
    with pytest.raises(InputError, match="cannot be resumed: on_error not as before"):
        uncork.score(
            folder / "bags.xml", source, folder / "out", **options, on_error="null", resume=True
        )
    more: dict[str, Any] = {"on_error": "reject", "rejects": folder / "bad.parquet", "resume": True}
    summary = uncork.score(folder / "bags.xml", source, folder / "out", **options, **more)
    assert (
        summary.counts.rows,
        summary.counts.scored,
        summary.counts.rejected,
        summary.resumed_rows,
    ) == (3000, 2999, 1, 2500)
    table = pq.read_table(folder / "out")
    assert table["row"].to_pylist() == [i for i in range(3000) if i != 2500]
    assert pq.read_table(folder / "bad.parquet")["reject_row"].to_pylist() == [2500]


def test_ctrl_c_from_python(source: Path) -> None:
    """KeyboardInterrupt says what is kept, and no worker is left."""
    folder = source.parent
    before = threading.active_count()

    def interrupt() -> None:
        wait_for(folder, 2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match=r"interrupted; \d+ of 60 parts"):
        uncork.score(
            folder / "bags.xml",
            source,
            folder / "out",
            inputs=BAGS,
            workers=2,
            batch_size=1,
            rows_per_part=400,
        )
    thread.join()
    assert threading.active_count() == before
    assert not (folder / "out").exists()


def test_engine_ends_workers_that_it_never_needed(source: Path) -> None:
    engine = LocalEngine(3)
    processes = [worker.process for worker in engine._workers]
    engine.close()
    assert all(process.returncode is not None for process in processes)
