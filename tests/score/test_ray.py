"""The Ray engine: the output of the local one, byte for byte, also when workers and nodes are lost;
what is interrupted is resumed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import Row, random_rows, summed
from tests.score.test_faults import COMMAND, check, children, journalled, wait_for
from tests.score.test_units import BAGS, write
from uncork.errors import InputError, UncorkError
from uncork.score import prepare_score
from uncork.score.landmarks import Landmarks
from uncork.score.options import ScoreOptions
from uncork.score.ray_engine import _absolute, _interrupted_after
from uncork.score.sink import JOURNAL
from uncork.score.summary import Summary

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or not sys.platform.startswith("linux"),
    reason="needs Ray, and /proc to find its workers",
)
ROOT = Path(__file__).resolve().parents[2]
RAY = ["--engine", "ray", "--workers", "2"]
COUNT = 10_000
ROWS = random_rows(COUNT, 11, 30)
#: Batches of one row: parts that take long enough for their worker to be killed. Both engines get
#: the same.
SLOW = ["--batch-size", "1", "--rows-per-part", "1000", "--keep", "row,user"]
REJECT = ["--on-error", "reject", "bad.parquet"]


@pytest.fixture
def source(bags: Path, tmp_path: Path) -> Path:
    """rows.parquet beside bags.xml, in row groups of 1,000."""
    return write(tmp_path / "rows.parquet", ROWS, 1000)


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


def descendants(process: int) -> Iterator[int]:
    for child in children(process):
        yield child
        yield from descendants(child)


def scoring(process: int) -> list[int]:
    """The Ray workers below a process that score a unit now: Ray gives them the name of what they
    do.
    """
    found = []
    for worker in descendants(process):
        try:
            if Path(f"/proc/{worker}/cmdline").read_bytes().startswith(b"ray::RayWorker.score"):
                found.append(worker)
        except OSError:  # it has just ended
            continue
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_ray
def test_a_killed_worker_loses_and_doubles_nothing(source: Path) -> None:
    folder = source.parent
    rows = [Row(row.user, list(row.items)) for row in ROWS]
    bad = [0, 777, 5000, COUNT - 1]
    for row in bad:
        rows[row].items.append(20)
    write(source, rows, 1000)
    process = start(folder, *RAY, *REJECT, "--json")
    wait_for(folder, 2, process)
    until = time.monotonic() + 20
    while not (victims := scoring(process.pid)):
        assert time.monotonic() < until, "no worker was seen to score"
    os.kill(victims[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["rows"], summary["scored"], summary["rejected"], summary["parts"]) == (
        COUNT,
        COUNT - 4,
        4,
        10,
    )
    assert (summary["workers"], summary["replaced_workers"]) == (2, 1)
    assert "Traceback" not in err
    table = pq.read_table(folder / "out")
    assert table["row"].to_pylist() == [i for i in range(COUNT) if i not in bad]
    assert table["sums"].to_pylist() == [
        summed(row.items) for i, row in enumerate(rows) if i not in bad
    ]
    assert pq.read_table(folder / "bad.parquet")["reject_row"].to_pylist() == bad
    names = ["_SUCCESS", *(f"part-{i:05d}.parquet" for i in range(10))]
    assert sorted(path.name for path in (folder / "out").iterdir()) == names
    # And the local engine writes the same bytes.
    ours = {name: (folder / "out" / name).read_bytes() for name in names[1:]} | {
        "bad": (folder / "bad.parquet").read_bytes()
    }
    subprocess.run(
        [*COMMAND, *SLOW, *REJECT, "--overwrite"], cwd=folder, check=True, capture_output=True
    )
    assert ours == {name: (folder / "out" / name).read_bytes() for name in names[1:]} | {
        "bad": (folder / "bad.parquet").read_bytes()
    }


@needs_ray
def test_interrupted_and_resumed_by_the_other_engine(source: Path) -> None:
    folder = source.parent
    process = start(folder, *RAY)
    wait_for(folder, 3, process)
    below = list(descendants(process.pid))
    assert below
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    kept = journalled(folder)
    assert process.returncode == 130, err
    assert f"uncork: interrupted; {len(kept)} of 10 parts (" in err
    assert "Traceback" not in err
    assert 3 <= len(kept) < 10
    assert not (folder / "out").exists()
    until = time.monotonic() + 20
    while left := [process for process in below if alive(process)]:
        assert time.monotonic() < until, f"processes live on: {left}"
        time.sleep(0.05)
    done = subprocess.run(
        [*COMMAND, *SLOW, "--resume", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["resumed_rows"] == 1000 * len(kept)
    check(folder / "out", ROWS)


def in_a_cluster(folder: Path) -> None:
    """Two nodes, of which one is lost in mid-run, and what else a cluster is needed for. Runs in a
    process of its own.
    """
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        other = cluster.add_node(**node)
        ray.init(cluster.address, log_to_driver=False)
        lose_a_node(folder, cluster, other)
        until = time.monotonic() + 30
        while ray.cluster_resources()["CPU"] != 1:
            assert time.monotonic() < until, "Ray has not noticed"
            time.sleep(0.1)
        assert ray.is_initialized(), "a Ray that was there is left as it is"
        end_every_worker(folder)
        hide_a_file(folder)
        connect(folder, cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


def scored_by_ray(folder: Path, name: str, source: str = "rows.parquet", **options: Any) -> Summary:
    """With Ray as this process has it."""
    common: dict[str, Any] = {
        "inputs": BAGS,
        "engine": "ray",
        "batch_size": 1,
        "keep": ["row", "user"],
    }
    return uncork.score(folder / "bags.xml", folder / source, folder / name, **common, **options)


def lose_a_node(folder: Path, cluster: Any, node: Any) -> None:
    """With its worker, in the middle of a unit. There is no other place where Ray could start that
    again.
    """
    rows = ROWS * 6  # a run that lasts longer than it takes to remove a node
    write(folder / "many.parquet", rows, 1000)
    lost: list[int] = []

    def lose() -> None:
        wait_for(folder, 3)
        until = time.monotonic() + 20
        while not lost:
            lost.extend(scoring(node_process(node)))
            assert time.monotonic() < until, "the node scores nothing"
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=lose)
    thread.start()
    summary = scored_by_ray(folder, "out", "many.parquet", rows_per_part=1000)
    thread.join()
    assert lost
    assert (summary.workers, summary.replaced_workers, summary.counts.scored) == (
        2,
        1,
        len(rows),
    ), summary
    check(folder / "out", rows)


def end_every_worker(folder: Path) -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.05):
            for worker in scoring(os.getpid()):
                os.kill(worker, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(
            UncorkError,
            match=rf"Ray: 3 workers ended while scoring rows 0 to {COUNT - 1}, the last because: "
            r".*fewer workers",
        ):
            scored_by_ray(folder, "none", rows_per_part=COUNT, workers=1)
    finally:
        stop.set()
        thread.join()
    assert not (folder / "none").exists()
    assert not (folder / ".none.partial").exists()


def hide_a_file(folder: Path) -> None:
    """A file that this process has seen and the workers do not see, as on nodes without the shared
    file system.
    """
    real = Landmarks.of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Landmarks,
            "of",
            staticmethod(lambda *job: replace(real(*job), files=((str(folder / "gone.bin"), 5),))),
        )
        with pytest.raises(
            UncorkError,
            match=r"Ray worker on [\d.]+: does not see .*gone.bin \(No such file(.|\n)*nothing "
            r"was written",
        ):
            scored_by_ray(folder, "none")
    assert not (folder / ".none.partial").exists()


def connect(folder: Path, address: str) -> None:
    """The command, with the address of the cluster; by default it takes as many workers as the
    cluster has cores.
    """
    words = ["--engine", "ray", "--ray-address", address, "--json", "--overwrite"]
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["scored"], summary["workers"]) == (COUNT, 1), summary
    check(folder / "out", ROWS)


def node_process(node: Any) -> int:
    """The raylet of a node of a test cluster, whose children its workers are."""
    return int(node.all_processes["raylet"][0].process.pid)


@needs_ray
def test_in_a_cluster(source: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.score.test_ray import "
        "in_a_cluster; in_a_cluster(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(source.parent)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def landmarks(source: Path, monkeypatch: pytest.MonkeyPatch) -> Landmarks:
    """Of a job with a relative path of the model."""
    folder = source.parent
    (folder / JOURNAL).write_text("what is scored\nunit\n")
    monkeypatch.chdir(folder)
    job = _absolute(prepare_score("bags.xml", source, ScoreOptions(inputs=BAGS)).job)
    assert job.model == str(folder / "bags.xml")
    return Landmarks.of(job, folder)


def test_a_node_that_sees_the_same_is_good(landmarks: Landmarks) -> None:
    landmarks.check("10.0.0.7")


@pytest.mark.parametrize("name", ["bags.xml", "bags.bin", "rows.parquet"])
def test_a_node_without_a_file_is_told(landmarks: Landmarks, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    size = path.stat().st_size
    path.write_bytes(b"other")
    with pytest.raises(
        UncorkError,
        match=rf"Ray worker on 10.0.0.7: sees another {path}: 5 bytes, expected {size:,}: every "
        r"node must",
    ):
        landmarks.check("10.0.0.7")
    path.unlink()
    with pytest.raises(
        UncorkError,
        match=rf"Ray worker on 10.0.0.7: does not see {path} \(No such file or directory\): "
        r"every node must",
    ):
        landmarks.check("10.0.0.7")


def test_a_node_with_another_output_folder_is_told(landmarks: Landmarks, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("another run\n")
    with pytest.raises(
        UncorkError,
        match=f"sees another folder at {tmp_path}: every node must have the source and the "
        "output on a shared",
    ):
        landmarks.check("10.0.0.7")
    (tmp_path / JOURNAL).unlink()
    with pytest.raises(
        UncorkError, match=rf"does not see the folder of the run, {tmp_path} \(No such file"
    ):
        landmarks.check("10.0.0.7")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_waits_until_ray_has_started() -> None:
    """As a terminal sends it: to this process, and to one that is started meanwhile, which lives
    on.
    """
    handler = signal.getsignal(signal.SIGINT)
    steps = []

    def interrupted() -> None:
        with _interrupted_after():
            code = [sys.executable, "-c", "input(); print('alive')"]
            child = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            os.kill(child.pid, signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            steps.append(child.communicate("\n", timeout=60)[0])

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["alive\n"]
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_without_ray(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        UncorkError,
        match=r"engine 'ray': needs Ray, which cannot be imported \(.*\): pip install "
        r"'uncork\[ray\]'",
    ):
        uncork.score(
            source.parent / "bags.xml", source, source.parent / "out", inputs=BAGS, engine="ray"
        )
    assert not (source.parent / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "engine: expected local or ray, got 'spark'"),
        ({"ray_address": "auto"}, "ray_address: is for engine 'ray' only"),
        (
            {"engine": "ray", "ray_address": "ray://head:10001"},
            "ray_address: expected host:port or auto, got 'ray://head:10001'",
        ),
    ],
)
def test_engines_that_there_are_not(source: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        uncork.score(
            source.parent / "bags.xml", source, source.parent / "out", inputs=BAGS, **options
        )
