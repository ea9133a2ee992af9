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

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from uncork.concurrency import in_child, once
from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime.addresses import Wanted, symbol
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.target import Target, host_target
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
#: done), a set of all signals, another one, and the id of a thread. Structures of every system
#: known fit into so much.
LOCK, BEGUN, ENDED, ALL_SIGNALS, OLD_SIGNALS, THREAD = range(256, 256 * 7, 256)
BYTES = 256 * 7
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


class Dispatch(KernelSpec, frozen=True):
    """The kernel that makes calls together: see the module."""

    emitter: ClassVar[str] = "uncork.kernels.runtime.emit_thread_pool:emit_dispatch"

    @property
    def name(self) -> str:
        return "dispatch"


class Serve(KernelSpec, frozen=True):
    """What a thread of the pool does: it is called with the address of the pool and never
    returns.
    """

    emitter: ClassVar[str] = "uncork.kernels.runtime.emit_thread_pool:emit_serve"

    @property
    def name(self) -> str:
        return "serve"


def wanted(spec: KernelSpec, target: Target) -> Wanted:
    """A kernel as a function that is wanted for a target."""
    return Wanted(spec.name, repr(spec), partial(llvm_text, spec, target))


#: The kernels of a pool, for whoever has them compiled with those of a model.
POOL_KERNELS = (Dispatch(), Serve())


def _system() -> tuple[dict[str, Any], tuple[Any, Any], Any]:
    """The system's functions: those whose addresses a pool has, those that begin its lock and
    conditions, `sigfillset`.

    Raises OSError where it has no such threads.
    """
    if os.name != "posix" or not hasattr(signal, "SIG_SETMASK"):
        raise OSError("threads are made by functions of POSIX")
    system = ctypes.CDLL(None)
    try:
        found = {word: getattr(system, name) for word, name in _FUNCTIONS.items()}
        return found, (system.pthread_mutex_init, system.pthread_cond_init), system.sigfillset
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

    def __init__(self, serve: Callable[[], int] | None = None) -> None:
        """Its threads serve by the kernel at the address that `serve` gives, or by this machine's.
        Raises OSError where the system has no such threads.
        """
        found, self._initial, fill = _system()
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
        self._words[POOL.index("serve")] = STORE.address(Serve()) if serve is None else serve()
        fill(ctypes.c_void_p(self.address + ALL_SIGNALS))
        self.renew_locks()

    def renew_locks(self) -> None:
        """Begin without threads and without a job: at the start, and in a child process."""
        self._words[: POOL.index("lock")] = 0
        self._words[LOCK // 8 : ALL_SIGNALS // 8] = 0
        make_lock, make_condition = self._initial
        make_lock(ctypes.c_void_p(self.address + LOCK), None)
        for condition in (BEGUN, ENDED):
            make_condition(ctypes.c_void_p(self.address + condition), None)

    @property
    def threads(self) -> int:
        """The threads that were started."""
        return int(self._words[POOL.index("threads")])


_pool: dict[None, Pool | None] = {}


def pool(serve: Callable[[], int] | None = None) -> Pool | None:
    """The pool of this process, whose threads serve by the kernel that was given first: `serve`, or
    this machine's; None where the system has no such threads.
    """
    if not _pool:
        try:
            made = Pool(serve)
        except OSError:
            made = None
        if _pool.setdefault(None, made) is made and made is not None:
            in_child(made.renew_locks)
    return _pool[None]


def pool_address(serve: Callable[[], int] | None = None) -> int:
    """The address of the pool; 0 where the system has no such threads."""
    found = pool(serve)
    return 0 if found is None else found.address


#: What makes calls together in place of the pool, the last one that was asked for; see `made_by`.
_makers: list[int] = []


@contextlib.contextmanager
def made_by(function: int) -> Iterator[None]:
    """A context for measuring parts one by one: in plans that are made inside, a native function at
    this address makes the calls of shared steps, as the kernel does.
    """
    _makers.append(function)
    try:
        yield
    finally:
        _makers.remove(function)


def dispatch(
    calls: int, table: Any, target: Target | None = None
) -> tuple[int, tuple[int, int, Any]]:
    """The kernel, and the words of a step that makes so many calls together, whose table is the
    last word.
    """
    if _makers:
        return _makers[-1], (0, calls, table)
    target = target or host_target()

    def address() -> int:
        return pool_address(lambda: STORE.address(Serve(), target))

    return STORE.address(Dispatch(), target), (symbol("pool", address), calls, table)
