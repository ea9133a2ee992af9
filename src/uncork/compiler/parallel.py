"""Programs that run at the same time, each in a thread: parts of one large step.

Parts wait in one queue for threads of this module, which are made when there is work for them. The
caller does the first part, then every part that no thread has begun, and waits for the others. So
a call needs no thread to be there: where none can be started, it does everything itself.

The threads are daemons: they serve calls of threads that outlive the main thread, which
`concurrent.futures` does not, and they delay no exit. A child process begins without them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from uncork.concurrency import in_child
from uncork.kernels.runtime.program import WELL, Program

_lock = threading.Lock()
_waiting: SimpleQueue[_Part] = SimpleQueue()
_threads = 0


def available_threads() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Part:
    """A call of a program that at most one thread makes. It keeps its arrays while it runs."""

    __slots__ = ("_arrays", "_done", "_ended", "_error", "_owner", "_run", "status")

    def __init__(self, run: Callable[..., int], arrays: Sequence[Any]) -> None:
        self._run, self._arrays = run, arrays
        self._owner: dict[None, int] = {}  # the thread that took it, in one step that nothing interrupts
        self._done = threading.Lock()
        self._done.acquire()  # until it is
        self._ended = False
        self.status = WELL
        self._error: BaseException | None = None

    def _taken(self) -> bool:
        me = threading.get_ident()
        return self._owner.setdefault(None, me) == me

    def do(self) -> None:
        """Run it, unless another thread has begun."""
        if self._taken():
            try:
                self.status = self._run(*self._arrays)
            except BaseException as error:  # which the caller raises
                self._error = error
            finally:
                self._ended = True
                self._done.release()

    def wait(self) -> None:
        """Wait while another thread is in it. What nobody has begun, nobody will."""
        if not self._taken() and not self._ended:
            self._done.acquire()

    def raise_error(self) -> None:
        """Raise what it raised, if anything."""
        if self._error is not None:
            raise self._error


def _serve(waiting: SimpleQueue[_Part]) -> None:
    while True:
        waiting.get().do()  # no name holds a part, or its arrays, while this thread waits


def _offer(parts: Sequence[_Part]) -> None:
    """Let threads have the parts; there are as many as one step has ever had parts for."""
    global _threads
    if _threads < len(parts):
        with _lock, contextlib.suppress(RuntimeError):  # no more threads: the caller does the rest
            while _threads < len(parts):
                threading.Thread(target=_serve, args=(_waiting,), name=f"uncork-{_threads}", daemon=True).start()
                _threads += 1
    for part in parts:
        _waiting.put(part)


def _forget() -> None:
    """In a child process the threads are gone, and the parts are not its own."""
    global _lock, _waiting, _threads
    _lock, _waiting, _threads = threading.Lock(), SimpleQueue(), 0


in_child(_forget)


class ParallelCalls:
    """Programs that do not depend on each other. Each must keep the memory that it works in."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._first, *self._others = programs

    def run(self, *arrays: Any) -> int:
        """WELL when all programs went well, else what one of them gave; returns when all are done."""
        parts = [_Part(program.run, arrays) for program in self._others]
        try:
            _offer(parts)
            status = self._first.run(*arrays)
            for part in parts:
                part.do()
        finally:
            try:
                _wait_for(parts)
            except BaseException:
                # A signal handler may raise at a step of `_wait_for` that no `try` is around.
                try:
                    _wait_for(parts)
                except BaseException:
                    _wait_for(parts)
                    raise
                raise
        for part in parts:
            part.raise_error()
        return next((one for one in (status, *(part.status for part in parts)) if one != WELL), WELL)


def _wait_for(parts: Sequence[_Part]) -> None:
    """Return when no thread is in a part: Ctrl-C, or what another signal handler raises, comes after that."""
    left = list(parts)
    interrupt: BaseException | None = None
    while left:
        try:
            left[-1].wait()
            left.pop()
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
