"""A worker process: it gets a job, then units one by one, and writes the parts of each.

The parts go into the folder of the run.

While the disk makes a part durable, the rows of the next unit are scored: that a unit is done is
said when its part is there.

It talks to its parent by pickled messages on standard input and output, so that it starts with a
plain `python -c`, without importing anybody's main module, and ends when its parent does. What is
printed in it goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from uncork.errors import UncorkWarning
from uncork.score.engine import error_of_worker, write_unit
from uncork.score.unit import UnitScorer

#: Seconds between two messages about rows.
_PERIOD = 0.1


def _seldom(say: Callable[[int], None]) -> Callable[[int], None]:
    """A function that adds numbers up and says their sum a few times a second: small batches would
    keep the parent busy listening.
    """
    waiting, last = 0, time.monotonic()

    def add(rows: int) -> None:
        nonlocal waiting, last
        waiting += rows
        if time.monotonic() - last > _PERIOD:
            say(waiting)
            waiting, last = 0, time.monotonic()

    return add


class _Committing:
    """A background thread that does one thing at a time; what it raises comes out of `wait`."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def start(self, step: Callable[[], None]) -> None:
        """Start a step, after the one before it has ended."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(step,), daemon=True)
        self._thread.start()

    def _run(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self._error = error

    def wait(self) -> None:
        """Wait until nothing is being done. Raises what was raised meanwhile."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error


def main() -> None:
    """Run a worker: serve until standard input ends."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Ctrl-C reaches every process of a terminal; what happens then is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    talking = threading.Lock()
    committing = _Committing()

    def say(*message: Any) -> None:
        with talking:
            pickle.dump(message, messages, pickle.HIGHEST_PROTOCOL)
            messages.flush()

    def commit(steps: list[Callable[[], None]], done: tuple[Any, ...]) -> None:
        for step in steps:
            step()
        say("done", *done)

    def next_unit() -> Any:
        try:
            return pickle.load(sys.stdin.buffer)
        except EOFError:
            return None

    # What slows all processes down the parent says, once.
    warnings.simplefilter("ignore", UncorkWarning)
    try:
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        job, folder = pickle.load(sys.stdin.buffer)
        scorer = UnitScorer(job)
        say("ready")
        while (unit := next_unit()) is not None:
            say("unit", unit.number)
            steps: list[Callable[[], None]] = []
            try:
                done = write_unit(
                    scorer, unit, folder, _seldom(lambda rows: say("rows", rows)), steps.append
                )
            except Exception:
                committing.wait()  # the unit before this one is done
                raise
            committing.start(lambda steps=steps, done=done: commit(steps, done))  # type: ignore[misc]
        committing.wait()
    except (BrokenPipeError, EOFError):
        return  # the parent is gone
    except Exception as error:
        say("error", error_of_worker(error))
