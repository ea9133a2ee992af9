"""The local engine: worker processes that share the model's mapped tables, a thread for each that hands it units.

Workers write the parts of their units themselves, so that nothing large passes through this process and a slow disk slows those
who write. A worker that dies is replaced and its unit scored again, from its beginning: what it had written has a temporary
name and is deleted.
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
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from uncork.errors import UncorkError
from uncork.score.columns import Fault
from uncork.score.sink import Finished, Sink
from uncork.score.source import Unit
from uncork.score.unit import Job

#: A unit that ends its worker this often would end the next one too.
_ATTEMPTS = 3
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from uncork.score.worker import main; main()"


class LocalEngine:
    """Worker processes, started when this is made: they import while the model and the source are looked at. Close it at the end."""

    def __init__(self, workers: int) -> None:
        self._workers = [_Worker(self) for _ in range(workers)]
        self._lock = threading.Lock()
        self._events: queue.Queue[tuple[Any, ...]] = queue.Queue()
        self._pending: deque[Unit] = deque()
        self._deaths: dict[int, int] = {}
        self.stopping = False
        #: Workers that died and were replaced.
        self.replaced = 0

    @property
    def workers(self) -> int:
        return len(self._workers)

    @property
    def process_ids(self) -> list[int]:
        """Of the workers, as they are now."""
        return [worker.process.pid for worker in self._workers]

    def run(self, job: Job, units: Sequence[Unit], sink: Sink, progress: Callable[[int], None]) -> list[Fault]:
        """Score the units into the sink. `progress` is told, in this thread, how many rows are scored, those of earlier runs included.

        Returns some of the faults. Raises what a worker raised; the sink then has what was finished before.
        """
        self._pending.extend(units)
        started = self._workers[: len(units)]
        for worker in self._workers[len(units) :]:
            worker.end()
        for worker in started:
            worker.serve(job, sink)
        faults: list[Fault] = []
        rows: dict[_Worker, int] = {}
        before, finished = sink.counts.rows, 0
        while finished < len(units):
            kind, worker, *rest = self._events.get()
            if kind == "rows":
                rows[worker] = rows.get(worker, 0) + rest[0]
            elif kind == "died":
                rows.pop(worker, None)
            elif kind == "error":
                raise rest[0]
            else:
                faults.extend(rest[1])
                before += rest[0].counts.rows
                finished += 1
                rows.pop(worker, None)
            progress(before + sum(rows.values()))
        return sorted(faults, key=lambda fault: fault.row)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self.stopping = True
        for worker in self._workers:
            worker.end()

    # ---- called by the workers' threads

    def next_unit(self) -> Unit | None:
        with self._lock:
            return self._pending.popleft() if self._pending and not self.stopping else None

    def done(self, worker: _Worker, sink: Sink, finished: Finished, faults: list[Fault]) -> None:
        """Note a unit. Not in the main thread, which Ctrl-C may interrupt at any point."""
        with self._lock:
            sink.done(finished)
        self.tell("done", worker, finished, faults)

    def tell(self, *event: Any) -> None:
        self._events.put(event)

    def died(self, worker: _Worker, unit: Unit | None, status: int | None) -> bool:
        """Note a death; returns whether to try again."""
        number = -1 if unit is None else unit.number
        with self._lock:
            if self.stopping:
                return False
            self._deaths[number] = self._deaths.get(number, 0) + 1
            self.replaced += 1
            again = self._deaths[number] < _ATTEMPTS
        self.tell("died", worker)
        if not again:
            what = "starting" if unit is None else f"scoring rows {unit.first_row} to {unit.first_row + unit.rows - 1}"
            hint = " (the system does that when memory runs out: take fewer workers or a smaller batch)" if status == -9 else ""
            self.tell("error", worker, UncorkError(f"{_ATTEMPTS} workers ended while {what}, the last {_described(status)}{hint}", "worker"))
        return again


class _Worker:
    """A process and the thread that serves it."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine
        self.process = self._started()
        self._thread: threading.Thread | None = None

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def serve(self, job: Job, sink: Sink) -> None:
        """Hand out units, in a thread of its own."""
        self._thread = threading.Thread(target=self._guarded, args=(job, sink), daemon=True)
        self._thread.start()

    def _guarded(self, job: Job, sink: Sink) -> None:
        try:
            self._serve(job, sink)
        except Exception as error:  # or the run would wait for ever
            self.engine.tell("error", self, error)

    def _serve(self, job: Job, sink: Sink) -> None:
        unit: Unit | None = None
        finished: tuple[Any, ...] = ()
        fresh = True

        def note() -> None:
            nonlocal finished
            if finished:
                self.engine.done(self, sink, *finished)
                finished = ()

        while True:
            try:
                if fresh:
                    self._send((job, sink.folder))
                    self._answer()
                    fresh = False
                unit = unit or self.engine.next_unit()
                if unit is None:
                    note()
                    self.end()
                    return
                self._send(unit)
                note()  # the disk flushes the journal while the worker scores what it was just sent
                while (message := self._answer())[0] == "rows":
                    self.engine.tell("rows", self, message[1])
                finished, unit = message[1:], None
            except _Failed as failed:
                self.engine.tell("error", self, failed.error)
                return
            except (OSError, EOFError, pickle.UnpicklingError):
                note()
                status = self._ended()
                for scratch in sink.folder.glob(f"*.{self.process.pid}.tmp"):
                    scratch.unlink(missing_ok=True)
                if not self.engine.died(self, unit, status):
                    return
                self.process = self._started()
                fresh = True

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
        """Wait for the process, which has closed its side; its exit status."""
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
