"""The thread pool of this process: threads of the system that make calls of kernels at the same
time.

A step that threads share is one call of `dispatch`, an ordinary kernel: (address of the pool,
number of calls, address of a table of (kernel, arguments)). It hands the calls to the pool's
threads, makes the first one itself, then every one that nobody has begun, and returns when all are
done: 0, or what a call gave that declined. So it needs no thread to be there; where none can be
started, or the pool is at work for another caller, it makes all calls itself, one after the other.

Threads are started by the first dispatch that has calls for them. They belong to the system, not to
Python: they never want its lock, block all signals, and sleep when there is nothing to do, so they
delay no exit and outlive the main thread. A child process begins with an empty pool at the same
address.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from uncork.concurrency import in_child, once
from uncork.types import Array

#: The words of a pool. The job: its table, the number of its calls, the next one that nobody has
#: begun, calls that threads are at, and what a call gave that declined. Then the threads that were
#: started, and addresses of functions of the system. They change under the pool's lock only.
POOL = (
    "table", "calls", "next", "running", "status", "threads",
    "lock", "unlock", "wait", "wake_one", "wake_all", "give_way",
    "start", "mask", "set_mask", "serve",
)  # fmt: skip
#: Where the pool's lock begins, in bytes, its conditions (there is a job; all calls of it are
#: done), a set of signals, another one, and the id of a thread. Structures of every system
#: known fit into so much.
LOCK, BEGUN, ENDED, SIGNALS, OLD_SIGNALS, THREAD = range(256, 256 * 7, 256)
BYTES = 256 * 7
#: Signals that a thread's own fault raises. Threads block all others: a blocked one of these would
#: end the process before who handles it is asked, `faulthandler` for one.
FAULTS = ("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV")
_FUNCTIONS = {
    "lock": "pthread_mutex_lock",
    "unlock": "pthread_mutex_unlock",
    "wait": "pthread_cond_wait",
    "wake_one": "pthread_cond_signal",
    "wake_all": "pthread_cond_broadcast",
    "give_way": "sched_yield",
    "start": "pthread_create",
    "mask": "pthread_sigmask",
}


def _system() -> tuple[dict[str, Any], tuple[Any, Any], tuple[Any, Any]]:
    """The system's functions: those whose addresses a pool has, those that begin its lock and
    conditions, those that make a set of signals.

    Raises OSError where it has no such threads.
    """
    if os.name != "posix" or not hasattr(signal, "SIG_SETMASK"):
        raise OSError("threads are made by functions of POSIX")
    system = ctypes.CDLL(None)
    try:
        found = {word: getattr(system, name) for word, name in _FUNCTIONS.items()}
        initial = (system.pthread_mutex_init, system.pthread_cond_init)
        return found, initial, (system.sigfillset, system.sigdelset)
    except AttributeError as error:
        raise OSError(str(error)) from None


@once
def has_threads() -> bool:
    """Whether there can be a pool. Nothing is compiled to tell."""
    try:
        _system()
    except OSError:
        return False
    return True


class Pool:
    """The memory of a thread pool, which stays where it is for as long as the process lives."""

    def __init__(self, serve: Callable[[], int]) -> None:
        """Its threads serve by the kernel at the address that `serve` gives (`dispatch.serve`).
        Raises OSError where the system has no such threads.
        """
        found, self._initial, (fill, leave_out) = _system()
        self._memory = np.zeros(BYTES // 8 + 8, np.int64)
        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(self._memory)
        )  # threads look at it until the very end
        lines = -(-int(self._memory.ctypes.data) // 64) * 64 - int(self._memory.ctypes.data)
        self._words: Array = self._memory[lines // 8 : lines // 8 + BYTES // 8]
        self.address = int(self._words.ctypes.data)
        for word, function in found.items():
            self._words[POOL.index(word)] = ctypes.cast(function, ctypes.c_void_p).value or 0
        self._words[POOL.index("set_mask")] = int(signal.SIG_SETMASK)
        self._words[POOL.index("serve")] = serve()
        blocked = ctypes.c_void_p(self.address + SIGNALS)
        fill(blocked)
        for name in FAULTS:
            leave_out(blocked, int(getattr(signal, name)))
        self.renew_locks()

    def renew_locks(self) -> None:
        """Begin without threads and without a job: at the start, and in a child process."""
        self._words[: POOL.index("lock")] = 0
        self._words[LOCK // 8 : SIGNALS // 8] = 0
        make_lock, make_condition = self._initial
        make_lock(ctypes.c_void_p(self.address + LOCK), None)
        for condition in (BEGUN, ENDED):
            make_condition(ctypes.c_void_p(self.address + condition), None)

    @property
    def threads(self) -> int:
        """The threads that were started."""
        return int(self._words[POOL.index("threads")])


_pool: dict[None, Pool | None] = {}


def pool(serve: Callable[[], int]) -> Pool | None:
    """The pool of this process, whose threads serve by the kernel that was given first; None where
    the system has no such threads.
    """
    if not _pool:
        try:
            made = Pool(serve)
        except OSError:
            made = None
        if _pool.setdefault(None, made) is made and made is not None:
            in_child(made.renew_locks)
    return _pool[None]


def pool_address() -> int:
    """The address of the pool that there is; 0 where the system has no such threads."""
    found = _pool[None]
    return 0 if found is None else found.address
