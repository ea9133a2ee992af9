"""The local engine: worker processes, each with a thread that hands it units.

The workers share the model's mapped tables.

Workers write the parts of their units themselves, so that nothing large passes through this process
and a slow disk slows those who write. A worker that dies is replaced and its unit scored again,
from its beginning: what it had written has a temporary name and is deleted.

A worker has the next unit before it is done with one, so that it never waits for this process or
the disk.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from uncork.errors import UncorkError
from uncork.score.columns import RowError
from uncork.score.journal import Finished
from uncork.score.parts import scratch_files
from uncork.score.sink import Sink
from uncork.score.source import Unit
from uncork.score.unit import Job
from uncork.score.unit_queue import UnitQueue

#: A unit that ends its worker this often would end the next one too.
_ATTEMPTS = 3
#: Units that a worker has at a time.
_HELD = 2
#: Bytes of a message that are sent to a worker that does not listen yet: any pipe takes so many.
_SMALL = 2048
#: `python -c` looks for modules in the current folder first ('' in the path), which this process
#: may not do.
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); import json; "
    "sys.path[:] = json.loads(sys.argv[1]); "
    "from uncork.score.worker import main; main()"
)


class LocalEngine:
    """The engine of worker processes, which are started when it is made: they import while the
    model and the source are looked at. Close it at the end.
    """

    def __init__(self, workers: int) -> None:
        self._workers = [_Worker(self) for _ in range(workers)]
        self._lock = threading.Lock()
        self._events: queue.Queue[tuple[Any, ...]] = queue.Queue()
        self._waiting = UnitQueue()
        self._deaths: dict[int, int] = {}
        self.stopping = False
        #: Workers that died and were replaced.
        self.replaced = 0

    @property
    def workers(self) -> int:
        return len(self._workers)

    @property
    def process_ids(self) -> list[int]:
        """The process ids of the workers, as they are now."""
        return [worker.process.pid for worker in self._workers]

    def score_units(
        self, job: Job, units: Sequence[Unit], sink: Sink, progress: Callable[[int], None]
    ) -> list[RowError]:
        """Score the units into the sink.

        `progress` is told, in this thread, how many rows are scored, those of earlier runs
        included.

        Returns some of the faults. Raises what a worker raised; the sink then has what was finished
        before.
        """
        self._waiting.add(units)
        started = self._workers[: len(units)]
        for worker in self._workers[len(units) :]:
            worker.end()
        for worker in started:
            worker.serve(job, sink)
        faults: list[RowError] = []
        rows: Counter[int] = Counter()  # of units that are being scored, by number
        before, finished = sink.counts.rows, 0
        while finished < len(units):
            kind, *rest = self._events.get()
            if kind == "rows":
                rows[rest[0]] += rest[1]
            elif kind == "died":
                for unit in rest[0]:
                    del rows[unit.number]
            elif kind == "error":
                raise rest[0]
            else:
                faults.extend(rest[1])
                before += rest[0].counts.rows
                finished += 1
                del rows[rest[0].unit]
            progress(before + rows.total())
        return sorted(faults, key=lambda fault: fault.row)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self.stopping = True
        for worker in self._workers:
            worker.end()

    # ---- called by the workers' threads

    def next_unit(self, last: Unit | None, ahead: bool) -> Unit | None:
        """The next unit for a worker.

        `ahead`: it has one to score still, and leaves the last units to those that have none.
        """
        with self._lock:
            enough = len(self._waiting) >= (self.workers if ahead else 1)
            return self._waiting.take(last) if enough and not self.stopping else None

    def put_back(self, units: Sequence[Unit]) -> None:
        """Put back units that were taken for a worker that will not score them."""
        with self._lock:
            self._waiting.add(units)

    def done(self, sink: Sink, finished: Finished, faults: list[RowError]) -> None:
        """Note a finished unit. Not in the main thread, which Ctrl-C may interrupt at any point."""
        with self._lock:
            sink.done(finished)
        self.tell("done", finished, faults)

    def tell(self, *event: Any) -> None:
        self._events.put(event)

    def died(self, unit: Unit | None, held: Sequence[Unit], status: int | None) -> bool:
        """Note the death of a worker that had some units and scored one.

        Returns whether to try again.
        """
        number = -1 if unit is None else unit.number
        with self._lock:
            if self.stopping:
                return False
            self._deaths[number] = self._deaths.get(number, 0) + 1
            self.replaced += 1
            again = self._deaths[number] < _ATTEMPTS
        self.tell("died", tuple(held))
        if not again:
            what = (
                "starting"
                if unit is None
                else (f"scoring rows {unit.first_row} to {unit.first_row + unit.rows - 1}")
            )
            hint = (
                (
                    " (the system does that when memory runs out: "
                    "take fewer workers or a smaller batch)"
                )
                if status == -9
                else ""
            )
            self.tell(
                "error",
                UncorkError(
                    f"{_ATTEMPTS} workers ended while {what}, the last {_described(status)}{hint}",
                    "worker",
                ),
            )
        return again


class _Worker:
    """A process and the thread that serves it."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine
        self.process = self._started()
        self._thread: threading.Thread | None = None
        self._last: Unit | None = None  # which it was given

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _START, json.dumps([str(path) for path in sys.path])]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def serve(self, job: Job, sink: Sink) -> None:
        """Hand out units, in a thread of its own."""
        self._thread = threading.Thread(target=self._guarded, args=(job, sink), daemon=True)
        self._thread.start()

    def _guarded(self, job: Job, sink: Sink) -> None:
        try:
            self._serve(job, sink)
        except Exception as error:  # or the run would wait for ever
            self.engine.tell("error", error)

    def _serve(self, job: Job, sink: Sink) -> None:
        held: list[Unit] = []  # the oldest first
        scored: Unit | None = None
        finished: tuple[Any, ...] = ()
        fresh = True

        def note() -> None:
            nonlocal finished
            if finished:
                self.engine.done(sink, *finished)
                finished = ()

        while True:
            try:
                if fresh:
                    self._send((job, sink.folder))
                    self._answer()
                    fresh = False
                    if held:
                        self._send(held[0])
                self._hold(held)
                note()  # the disk flushes the journal while the worker scores
                if not held:
                    self.end()
                    return
                kind, *rest = self._answer()
                if kind == "unit":
                    scored = next(unit for unit in held if unit.number == rest[0])
                elif kind == "rows":
                    assert scored is not None
                    self.engine.tell("rows", scored.number, rest[0])
                else:
                    finished = tuple(rest)
                    del held[0]
            except _Failed as failed:
                note()
                self.engine.tell("error", failed.error)
                return
            except (OSError, EOFError, pickle.UnpicklingError):
                note()
                status = self._ended()
                for scratch in scratch_files(sink.folder, self.process.pid):
                    scratch.unlink(missing_ok=True)
                if scored not in held:
                    scored = held[0] if held else None
                if not self.engine.died(scored, held, status):
                    return
                self.engine.put_back(held[1:])
                del held[1:]
                self.process = self._started()
                fresh = True

    def _hold(self, held: list[Unit]) -> None:
        """Hand the process units until it holds enough.

        Once a worker has died, one is enough: a unit that was scored should not be lost because the
        next one ends the process.
        """
        most = 1 if self.engine.replaced else _HELD
        while (
            len(held) < most and (unit := self.engine.next_unit(self._last, bool(held))) is not None
        ):
            if held and len(pickle.dumps(unit, pickle.HIGHEST_PROTOCOL)) > _SMALL:
                self.engine.put_back([unit])
                return
            held.append(unit)
            self._last = unit
            self._send(unit)

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(message, self.process.stdin, pickle.HIGHEST_PROTOCOL)
        self.process.stdin.flush()

    def _answer(self) -> tuple[Any, ...]:
        assert self.process.stdout is not None
        message: tuple[Any, ...] = pickle.load(self.process.stdout)
        if message[0] == "error":
            raise _Failed(message[1])
        return message

    def _ended(self) -> int:
        """Wait for the process, which has closed its side, and return its exit status."""
        self._close_pipes()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        if self._thread is not None and self._thread is not threading.current_thread():
            while self._thread.is_alive():  # it may just be starting another process
                self.process.kill()
                self._thread.join(0.05)
        self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


class _Failed(Exception):
    """A worker reported an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _described(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-status).name}"
    return f"with status {status}"
