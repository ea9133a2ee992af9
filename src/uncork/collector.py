"""The garbage collector, paused while many objects are made that stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """A context in which the garbage collector is off, for making objects that stay: for long
    models it would walk over all of them again and again.

    They are old when it ends, so that the collector leaves them to its next full collection. So are
    all others; where somebody has frozen objects, everything stays as young as it is, since theirs
    would be let go.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # these two only join lists
                gc.freeze()
                gc.unfreeze()
            gc.enable()
