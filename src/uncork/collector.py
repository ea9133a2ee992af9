"""The garbage collector, paused while many objects are made that stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

#: Objects of a process that become old so. Those of the first models do, whose making is waited
#: for; what is made again and again has to show its age, or the collector would never see how much
#: of it is garbage.
_MOST_OLD = 200_000
_made_old = 0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """A context in which the garbage collector is off, for making objects that stay: for long
    models it would walk over all of them again and again.

    The first of a process are old when it ends, so that the collector leaves them to its next full
    collection. So are all others then; where somebody has frozen objects, everything stays as young
    as it is, since theirs would be let go.
    """
    global _made_old
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if _made_old < _MOST_OLD and gc.get_freeze_count() == 0:
                _made_old += max(gc.get_count()[0], 1)
                gc.freeze()  # these two only join lists
                gc.unfreeze()
            gc.enable()
