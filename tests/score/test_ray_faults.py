"""The Ray engine when workers do not answer, by a Ray of the tests whose nodes are lost when the
test says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import uncork
from tests.score.conftest import random_rows
from tests.score.test_score import check, hidden
from tests.score.test_units import BAGS, write
from uncork.errors import UncorkError
from uncork.score import ray_engine

ROWS = random_rows(200, 5)


class RayError(Exception):
    """As Ray's."""

    actor_init_failed = False


class RayTaskError(RayError):
    """As Ray's."""


class BrokenActor(RayError):
    """A worker that could not be made."""

    actor_init_failed = True


class Cluster:
    """What the engine takes of the package `ray`. `fails` says of each call what it raises: worker,
    name, how often it was called.
    """

    def __init__(self, fails: Callable[[int, str, int], Exception | None]) -> None:
        self.fails = fails
        self.calls: dict[tuple[int, str], int] = {}
        self.killed: list[int] = []
        self.workers = 0
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda kind: SimpleNamespace(remote=lambda *words: Actor(self, kind(*words)))

    def wait(
        self, calls: list[Any], num_returns: int, timeout: float
    ) -> tuple[list[Any], list[Any]]:
        return calls[:num_returns], calls[num_returns:]

    def get(self, call: Any) -> Any:
        return call()

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor.number)


class Actor:
    def __init__(self, cluster: Cluster, worker: Any) -> None:
        self.cluster, self.worker, self.number = cluster, worker, cluster.workers
        cluster.workers += 1
        self.ready = SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=lambda: self.call("ready"))
        )
        self.score = SimpleNamespace(remote=lambda unit: self.call("score", unit))

    def call(self, name: str, *words: Any) -> Callable[[], Any]:
        def answer() -> Any:
            times = self.cluster.calls[self.number, name] = (
                self.cluster.calls.get((self.number, name), 0) + 1
            )
            error = self.cluster.fails(self.number, name, times)
            if error is not None:
                raise error
            return getattr(self.worker, name)(*words)

        return answer


class Clock:
    """Time that passes when someone waits."""

    def __init__(self) -> None:
        self.now, self.waited = 1000.0, list[float]()

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ray_engine, "time", clock)
    return clock


def score(folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(ray_engine, "import_ray", lambda: cluster)
    source = write(folder / "rows.parquet", ROWS, 20)
    options: dict[str, Any] = {
        "inputs": BAGS,
        "engine": "ray",
        "workers": 2,
        "rows_per_part": 20,
        "batch_size": 20,
        "backend": "reference",
    }
    return uncork.score(folder / "bags.xml", source, folder / "out", **options)


def test_a_lost_worker_that_ray_has_not_noticed(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Its calls fail at once, many times; the other goes on, and it comes back when Ray has."""

    def fails(worker: int, name: str, times: int) -> Exception | None:
        lost = (worker == 0 and (name, times) == ("score", 2)) or (
            worker == 0 and name == "ready" and 2 <= times < 9
        )
        return RayError("The actor is temporarily unavailable") if lost else None

    cluster = Cluster(fails)
    summary = score(tmp_path, cluster, monkeypatch)
    assert (summary.counts.scored, summary.replaced_workers) == (200, 1)
    check(tmp_path / "out", ROWS)


def test_all_workers_come_back(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Nobody answers for a while; questions get rarer."""
    cluster = Cluster(
        lambda worker, name, times: (
            RayError("unavailable") if name == "ready" and times < 8 else None
        )
    )
    assert score(tmp_path, cluster, monkeypatch).counts.scored == 200
    assert 5 < sum(clock.waited) < 30
    assert max(clock.waited) <= 1.0
    check(tmp_path / "out", ROWS)


def test_a_worker_that_never_answers_is_given_up(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def fails(worker: int, name: str, times: int) -> Exception | None:
        clock.now += 1  # a call takes a while
        return RayError("unavailable") if worker == 0 else None

    monkeypatch.setattr(ray_engine, "_PATIENCE", 3.0)
    cluster = Cluster(fails)
    assert score(tmp_path, cluster, monkeypatch).counts.scored == 200
    assert 0 in cluster.killed
    check(tmp_path / "out", ROWS)


def test_when_no_worker_ever_answers(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    cluster = Cluster(lambda worker, name, times: RayError("why\nthe node is lost"))
    message = (
        "Ray: workers cannot be started, the last because: the node is lost\nnothing was written"
    )
    with pytest.raises(UncorkError, match=re.escape(message)):
        score(tmp_path, cluster, monkeypatch)
    assert 60 < sum(clock.waited) < 120
    assert hidden(tmp_path) == []


@pytest.mark.parametrize(
    "error", [RayTaskError("no module named uncork"), BrokenActor("no module named uncork")]
)
def test_a_worker_that_cannot_be_made_is_an_error_at_once(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, error: Exception
) -> None:
    cluster = Cluster(lambda worker, name, times: error)
    with pytest.raises(
        UncorkError,
        match="Ray: workers cannot be started, the last because: no module named uncork",
    ):
        score(tmp_path, cluster, monkeypatch)
    assert clock.waited == []


def test_a_unit_that_ends_every_worker_is_still_an_error(
    bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    cluster = Cluster(
        lambda worker, name, times: RayError("out of memory") if name == "score" else None
    )
    with pytest.raises(
        UncorkError,
        match="Ray: 3 workers ended while scoring rows 0 to 19, the last because: out of memory",
    ):
        score(tmp_path, cluster, monkeypatch)
