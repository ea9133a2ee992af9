"""The Ray engine: a pool of actors that write the parts of their units as local workers do.

Nothing but units and counts goes through Ray: the nodes share a file system, on which the model,
the source and the folder of the run lie. A worker that does not see what this process sees says so
before it scores a row.

A pool of actors and not a Ray Data pipeline: there is no data to stream, and Ray Data sends a batch
that kills its actor to the next one without end and without saying which it is (its `map_batches`
has no parameter for that). Here Ray restarts the actor, on another node if need be, and the unit
goes to the next actor that is free, three times.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from uncork._version import __version__
from uncork.compiler.threads import available_threads
from uncork.errors import InputError, UncorkError
from uncork.score.columns import RowError
from uncork.score.engine import error_of_worker, write_unit
from uncork.score.journal import Finished
from uncork.score.landmarks import Landmarks
from uncork.score.parts import part_path, rejects_path
from uncork.score.sink import Sink
from uncork.score.source import Unit
from uncork.score.unit import Job, UnitScorer
from uncork.score.unit_queue import UnitQueue

#: A unit that ends its worker this often would end the next one too.
_ATTEMPTS = 3
#: Seconds in which a worker that does not answer is asked again: Ray takes a while to notice that a
#: node is lost, and calls to its workers fail at once meanwhile.
_PATIENCE = 60.0
#: Seconds between two questions, at first and at most.
_FIRST_REST, _LONGEST_REST = 0.2, 5.0
#: Bytes of Ray's object store where uncork starts Ray: counts and errors go through it, never rows.
#: Near the least that Ray takes.
_OBJECT_STORE = 100 << 20
#: Seconds in which a part that a node has written must be seen here: network file systems keep what
#: they know for a while.
_ARRIVAL = 60.0


def import_ray() -> Any:
    """The package `ray`. Raises UncorkError that says how to get it."""
    try:
        import ray
    except ImportError as error:
        raise UncorkError(
            f"needs Ray, which cannot be imported ({error}): pip install 'uncork[ray]'",
            "engine 'ray'",
        ) from None
    return ray


class RayWorker:
    """The worker in a Ray actor.

    What it has is made when it is first needed, so that one that Ray has restarted is like a new
    one.
    """

    def __init__(self, version: str, job: bytes, folder: str, landmarks: bytes) -> None:
        """`job` and `landmarks` are pickled: they are only read when the version is the same."""
        self._version, self._job, self._folder, self._landmarks = (
            version,
            job,
            Path(folder),
            landmarks,
        )
        self._scorer: UnitScorer | None = None

    def ready(self) -> Exception | None:
        """Look at the files and load the model. Returns the error, or None."""
        _, error = self._guarded(self._ready)
        return error

    def score(self, unit: Unit) -> tuple[tuple[Finished, list[RowError]] | None, Exception | None]:
        """Write the parts of a unit.

        Returns what the journal keeps and some faults, or what is wrong.
        """
        return self._guarded(
            lambda: write_unit(self._ready(), unit, self._folder, lambda rows: None)
        )

    def _ready(self) -> UnitScorer:
        if self._scorer is None:
            node = str(import_ray().util.get_node_ip_address())
            UncorkError.when(
                self._version != __version__,
                f"has uncork {__version__}, expected {self._version}, as here",
                f"Ray worker on {node}",
            )
            pa.set_cpu_count(1)
            pa.set_io_thread_count(1)
            pickle.loads(self._landmarks).check(node)
            self._scorer = UnitScorer(pickle.loads(self._job))
        return self._scorer

    def _guarded(self, step: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """The result of a step, or the error that it raised. Errors are answers, since Ray wraps
        what an actor raises in an error of its own.
        """
        try:
            return step(), None
        except Exception as error:
            return None, error_of_worker(error)


class RayEngine:
    """Ray actors of one core each.

    Ray is started, or connected to, when there is something to score. Close it at the end.

    `workers` is their number: by default all cores of this machine or, with an address, of the
    cluster. `address` is that of a running Ray cluster ("host:port", or "auto" for the one of this
    machine); without, Ray is started on this machine and ended by `close`, unless the process has
    initialised Ray: then that is taken, and left as it is.
    """

    def __init__(self, workers: int | None, address: str | None) -> None:
        if address is not None and "://" in address:
            raise InputError(
                f"expected host:port or auto, got {address!r}: the files are looked at here, "
                "so start this on a node of the cluster",
                "ray_address",
            )
        self._ray = import_ray()
        if address is not None and self._ray.is_initialized():
            raise InputError(
                "this process is connected to Ray already: leave the address out to use that",
                "ray_address",
            )
        self._address = address
        self._count = workers
        self._ours = False
        self._calls: dict[Any, tuple[Any, Unit | None]] = {}
        self._actors: list[Any] = []
        self._deaths: dict[int, int] = {}
        self._silences: dict[Any, _Silence] = {}  # of workers that did not answer, until they do
        # Ctrl-C may interrupt the main thread at any point, and a line of the journal is written
        # whole.
        self._scribe = ThreadPoolExecutor(1, "journal")
        #: Workers that died with a unit, which was scored by another.
        self.replaced = 0

    @property
    def workers(self) -> int:
        return self._count or available_threads()

    def score_units(
        self, job: Job, units: Sequence[Unit], sink: Sink, progress: Callable[[int], None]
    ) -> list[RowError]:
        """Score the units into the sink; `progress` is told after each.

        See `uncork.score.engine.Engine`.
        """
        if not units:
            return []
        self._connect()
        job = _absolute(job)
        settled = (
            __version__,
            pickle.dumps(job),
            str(sink.folder),
            pickle.dumps(Landmarks.of(job, sink.folder)),
        )
        actor = self._ray.remote(num_cpus=1, max_restarts=-1)(RayWorker)
        for _ in range(min(self.workers, len(units))):
            self._actors.append(actor.remote(*settled))
            self._make_ready(self._actors[-1])
        waiting, idle = UnitQueue(units), list[Any]()
        last: dict[Any, Unit] = {}  # that each worker was given
        faults: list[RowError] = []
        left = len(units)
        while left:
            for worker, unit, answer in self._answers():
                if answer is None:  # the worker died
                    if unit is not None:
                        waiting.add([unit])
                        self._make_ready(worker)
                    continue
                idle.append(worker)
                if unit is not None:
                    finished, found = answer
                    _wait_for(sink.folder, finished)
                    self._scribe.submit(sink.done, finished).result()
                    faults.extend(found)
                    left -= 1
                    progress(sink.counts.rows)
            while idle and (following := waiting.take(last.get(idle[-1]))) is not None:
                worker = idle.pop()
                last[worker] = following
                self._calls[worker.score.remote(following)] = (worker, following)
        for scratch in sink.folder.glob("*.tmp"):  # of workers that died
            scratch.unlink(missing_ok=True)
        return sorted(faults, key=lambda fault: fault.row)

    def close(self) -> None:
        """End all workers, and Ray if it was started here."""
        self._scribe.shutdown()
        actors, self._actors = self._actors, []
        calls, self._calls = self._calls, {}
        with contextlib.suppress(Exception):  # Ray may be half gone
            for actor in actors:
                self._ray.kill(actor)
            if calls:
                # until no one writes any more
                self._ray.wait(list(calls), num_returns=len(calls), timeout=10)
        if self._ours:
            self._ours = False
            self._ray.shutdown()

    def _connect(self) -> None:
        if self._ray.is_initialized():
            self._count = self._count or self._cluster_cores()
            return
        self._ours = True
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._address is None:
            with _interrupted_after():
                self._ray.init(
                    "local",
                    num_cpus=self.workers,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE,
                    **quiet,
                )
            return
        try:
            self._ray.init(self._address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UncorkError(
                f"cannot connect to Ray: {_last_line(error)}", self._address
            ) from None
        self._count = self._count or self._cluster_cores()

    def _cluster_cores(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _make_ready(self, worker: Any) -> None:
        """Let a worker look at the files; when it has, it gets units.

        While Ray restarts the worker, the call waits.
        """
        self._calls[worker.ready.options(max_task_retries=_ATTEMPTS - 1).remote()] = (worker, None)

    def _answers(self) -> Iterator[tuple[Any, Unit | None, Any]]:
        """The workers that are done with their calls, each with its unit and its answer; None for
        the answer of one that died.

        Raises what a worker says.
        """
        rest = self._ask_again()
        if not self._calls:
            time.sleep(rest)
            return
        done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=rest)
        for call in done:
            worker, unit = self._calls.pop(call)
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayError as error:
                self._died(worker, unit, error)
                yield worker, unit, None
                continue
            self._silences.pop(worker, None)
            result, problem = (True, answer) if unit is None else answer
            if problem is not None:
                raise problem
            yield worker, unit, result

    def _ask_again(self) -> float:
        """Ask the workers whose rest is over.

        Returns seconds until the next one's is, at most 1.
        """
        now = time.monotonic()
        due = [silence.until - now for silence in self._silences.values() if not silence.asked]
        for worker, silence in self._silences.items():
            if not silence.asked and silence.until <= now:
                silence.asked = True
                self._make_ready(worker)
        return max(0.0, min([1.0, *due]))

    def _died(self, worker: Any, unit: Unit | None, error: Exception) -> None:
        """Note the death of a worker. Raises UncorkError when there is no sense in trying again."""
        reason = f"the last because: {_last_line(error)}"
        broken = isinstance(error, self._ray.exceptions.RayTaskError) or getattr(
            error, "actor_init_failed", False
        )
        UncorkError.when(broken, f"workers cannot be started, {reason}", "Ray")
        if unit is None:
            self._not_ready(worker, reason)
            return
        self.replaced += 1
        deaths = self._deaths[unit.number] = self._deaths.get(unit.number, 0) + 1
        if deaths == _ATTEMPTS:
            where = f"rows {unit.first_row} to {unit.first_row + unit.rows - 1}"
            hint = "if memory ran out, take fewer workers or a smaller batch"
            raise UncorkError(
                f"{_ATTEMPTS} workers ended while scoring {where}, {reason} ({hint})", "Ray"
            )

    def _not_ready(self, worker: Any, reason: str) -> None:
        """Let a worker that did not answer rest, or give it up.

        Raises UncorkError when it was the last.
        """
        now = time.monotonic()
        silence = self._silences.setdefault(worker, _Silence(now + _PATIENCE, _FIRST_REST))
        if now < silence.end:
            silence.asked, silence.until = False, now + silence.rest
            silence.rest = min(2 * silence.rest, _LONGEST_REST)
            return
        del self._silences[worker]
        self._actors.remove(worker)
        with contextlib.suppress(Exception):
            self._ray.kill(worker)
        UncorkError.when(not self._actors, f"workers cannot be started, {reason}", "Ray")


@dataclass
class _Silence:
    """The silence of a worker that does not answer: until when it is asked, and when next."""

    end: float
    rest: float
    until: float = 0.0
    asked: bool = False


@contextlib.contextmanager
def _interrupted_after() -> Iterator[None]:
    """A context that keeps Ctrl-C for its end: a half-started Ray leaves processes behind, and ends
    this one with a crash. Ray's processes, which a terminal interrupts as well, inherit the blocked
    signal.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
    if came:
        raise KeyboardInterrupt


def _absolute(job: Job) -> Job:
    """The job with paths that do not depend on where a process was started.

    The paths of the source are of that kind already.
    """
    options = dict(job.load_options)
    options["weights"] = None if options["weights"] is None else os.path.abspath(options["weights"])
    options["tables"] = (
        None
        if options["tables"] is None
        else {name: os.path.abspath(path) for name, path in options["tables"].items()}
    )
    return replace(job, model=os.path.abspath(job.model), load_options=options)


def _wait_for(folder: Path, finished: Finished) -> None:
    """Wait until this process sees the parts of a unit that a node has written.

    Raises UncorkError when it does not.
    """
    until = time.monotonic() + _ARRIVAL
    parts = [(part_path(folder, finished.unit), finished.size)]
    if finished.rejects:
        parts.append((rejects_path(folder, finished.unit), finished.rejects))
    for path, size in parts:
        while not path.is_file() or path.stat().st_size != size:
            UncorkError.when(
                time.monotonic() > until,
                f"was written by a Ray worker ({size:,} bytes), "
                f"and is not seen here after {_ARRIVAL:.0f} s",
                str(path),
            )
            time.sleep(0.1)


def _last_line(error: Exception) -> str:
    """The last line of an error's text: Ray's messages end with the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
