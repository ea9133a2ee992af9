"""A worker process: it gets a job, then units one by one, and writes the parts of each into the folder of the run.

It talks to its parent by pickled messages on standard input and output, so that it starts with a plain `python -c`, without
importing anybody's main module, and ends when its parent does. What is printed in it goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from uncork.score.engine import error_of_worker, write_unit
from uncork.score.unit import UnitScorer

#: Seconds between two messages about rows.
_PERIOD = 0.1


def _seldom(say: Callable[[int], None]) -> Callable[[int], None]:
    """Add numbers up and say them a few times a second: small batches would keep the parent busy listening."""
    waiting, last = 0, time.monotonic()

    def add(rows: int) -> None:
        nonlocal waiting, last
        waiting += rows
        if time.monotonic() - last > _PERIOD:
            say(waiting)
            waiting, last = 0, time.monotonic()

    return add


def main() -> None:
    """Serve until standard input ends."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Ctrl-C reaches every process of a terminal; what happens then is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def say(*message: Any) -> None:
        pickle.dump(message, messages, pickle.HIGHEST_PROTOCOL)
        messages.flush()

    try:
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        job, folder = pickle.load(sys.stdin.buffer)
        scorer = UnitScorer(job)
        say("ready")
        while True:
            try:
                unit = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            say("done", *write_unit(scorer, unit, folder, _seldom(lambda rows: say("rows", rows))))
    except (BrokenPipeError, EOFError):
        return  # the parent is gone
    except Exception as error:
        say("error", error_of_worker(error))
