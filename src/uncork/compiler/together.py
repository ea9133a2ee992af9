"""Programs that run at the same time, each in a thread: parts of one large step.

The threads are Python's own and wait without spinning; they are made when there is work for them. A child process begins without
them and makes its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from uncork.kernels.runtime.program import WELL, Program

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def available_threads() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # most processes never need it

    with _lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="uncork")
        return _pools[threads]


def _forget() -> None:
    """In a child process the threads are gone, and a lock may be held by one of them."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Together:
    """Programs that do not depend on each other."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._first, *self._others = programs

    def run(self, *arrays: Any) -> int:
        """WELL when all programs went well, else what one of them gave; returns when all are done."""
        from concurrent.futures import wait

        pool = _pool(len(self._others))
        futures = [pool.submit(program.run, *arrays) for program in self._others]
        try:
            status = self._first.run(*arrays)
        finally:
            wait(futures)
        found = [status, *(future.result() for future in futures)]
        return next((one for one in found if one != WELL), WELL)
