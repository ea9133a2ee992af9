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
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from uncork.errors import UncorkError
from uncork.score.columns import Fault
from uncork.score.parts import PartWriter, part_path, rejects_path
from uncork.score.sink import Finished
from uncork.score.unit import Counts, UnitScorer

#: Faults that a unit reports as examples; the rejects have all.
EXAMPLES = 5
#: Seconds between two messages about rows.
_PERIOD = 0.1


def write_unit(scorer: UnitScorer, unit: Any, folder: Path, progress: Callable[[int], None]) -> tuple[Finished, list[Fault]]:
    """Score a unit into its part, a batch at a time, and its rejected rows into theirs.

    `progress` is told the rows of each batch. Returns what the journal keeps and the first faults. What fails leaves no part.
    """
    counts = Counts()
    faults: list[Fault] = []
    examples: list[Fault] = []
    job = scorer.job
    plain = [field.name for column in job.columns for field in column.fields]
    batches = scorer.batches(unit)
    with PartWriter(part_path(folder, unit.number), job.schema, plain) as writer:
        for scored in batches:
            writer.write(scored.table)
            counts += Counts(scored.rows, scored.scored, len(scored.faults))
            examples.extend(scored.faults[: EXAMPLES - len(examples)])
            if job.on_error == "reject":
                faults.extend(scored.faults)
            progress(scored.rows)
        counts.check(unit.rows, f"rows {unit.first_row} to {unit.first_row + unit.rows - 1}")
    rejects = 0
    if faults:
        table = scorer.rejects(unit, faults)
        with PartWriter(rejects_path(folder, unit.number), job.reject_schema) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        rejects = rejects_path(folder, unit.number).stat().st_size
    return Finished(unit.number, counts, part_path(folder, unit.number).stat().st_size, rejects), examples


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
    except UncorkError as error:
        say("error", error)
    except MemoryError as error:
        say("error", UncorkError(f"not enough memory: {error}: fewer workers or a smaller batch take less"))
    except OSError as error:
        say("error", UncorkError(f"{error.strerror or error}", error.filename or "worker"))
    except Exception:
        say("error", UncorkError(f"failed in a way that nobody thought of:\n{traceback.format_exc()}", "worker"))
