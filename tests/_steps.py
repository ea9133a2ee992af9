"""Ends what writes files at its n-th step on the file system, before the step is taken.

A step is a file that is opened to be written, renamed, linked, deleted or flushed, or a folder
made.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

STEPS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")


def count_steps(ends: Callable[[int], None]) -> None:
    """Call `ends` with the number of each step, before it is taken."""
    taken = 0

    def counted(real: Callable[..., Any], is_step: Callable[..., bool]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal taken
            if is_step(*arguments, **options):
                taken += 1
                ends(taken)
            return real(*arguments, **options)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name), lambda *_, **__: True))
    builtins.open = counted(open, lambda _, mode="r", *__, **___: mode not in ("r", "rb"))


def in_a_fork(body: Callable[[], object]) -> int:
    """Its exit status; negative when a signal ended it."""
    process = os.fork()
    if not process:
        try:
            body()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def end(how: str) -> None:
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "interrupted":
        raise KeyboardInterrupt
    number = errno.ENOSPC if how == "full" else errno.EACCES
    raise OSError(number, os.strerror(number))
