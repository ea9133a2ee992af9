"""The progress line of a command, on terminals only, and whether there is one."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator


def on_terminal() -> bool:
    """Whether standard error is a terminal. A program need not have one at all: a service may have
    closed it, and Windows gives none to a program without a console.
    """
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line as a context, which gives a function to be told how many of how many are
    done. The line is gone at the end.
    """
    if not on_terminal():
        yield lambda done, of: None
        return
    last = 0.0

    def say(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.1:
            last = now
            print(f"\r{done:,} of {of:,} {what}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
