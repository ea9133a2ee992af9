"""Ends what writes files at its n-th step on the file system, before the step is taken.

A step is a file that is opened to be written, renamed, linked, deleted or flushed, or a folder
made.
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

STEPS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")


def found_by(module: str, *words: str) -> dict[str, Any]:
    """What a module that ends something at its steps finds, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sys.stderr.write(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
