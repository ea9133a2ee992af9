"""A signal that interrupts a call, as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Interrupted(Exception):
    """What the handler of the signal raises."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """A context that a signal interrupts: what runs in it has to end with what the handler
    raises.
    """

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with pytest.raises(Interrupted):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
