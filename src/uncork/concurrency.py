"""Values that threads share, what makes them survive a fork, and what lets a thread come twice.

A child process has one thread: the one that forked. A lock that another thread held at that moment
stays locked in the child for ever. Two rules follow:

- Every lock of the project is replaced in a child by a new one (`renews_locks`). What it protects
  is never half-changed: each structure is changed in one step, between which the fork happens.
- What holds locks of others (imports, whose locks are Python's, LLVM, and the threads of NumPy's
  products) is done `unforked`: a fork waits until no other thread is inside.

Destructors and signal handlers run between any two steps of a thread, and may begin what the thread
is in the middle of. A thread that waits for itself waits for ever, and so do two that wait for each
other. Three rules follow:

- Work that threads spare each other (a plan, a kernel) is done under a `WorkLock`, for which a
  thread waits only while it holds nothing: else it does the work itself. So what is done under it
  has to be right without it.
- A few statements that have to be done as one are done under a `ShortLock`, which its thread may
  take again; what comes in between leaves everything as it was.
- Where a second call would break the first one (variables), it is refused: see `CompiledModel`.

What a signal handler raises (KeyboardInterrupt) is lost within destructors and what else Python
runs when an object dies: so what forgets the objects that die in the middle of calls is no function
of Python (`LiveObjects`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar, overload

Value = TypeVar("Value")


class Forkable(Protocol):
    """An object that has locks."""

    def renew_locks(self) -> None:
        """Replace every lock by a new one."""


class LiveObjects(Generic[Value]):
    """The objects that were added and live still.

    `weakref.WeakSet` has a function of Python called when one dies, within which an interrupt would
    be lost; here that function is one of C.
    """

    def __init__(self) -> None:
        self._references: set[weakref.ref[Value]] = set()

    def add(self, one: Value) -> None:
        """Have an object among them for as long as it lives. It has a hash."""
        self._references.add(weakref.ref(one, self._references.discard))

    def __iter__(self) -> Iterator[Value]:
        """Those that live now."""
        found = (reference() for reference in list(self._references))
        return iter([one for one in found if one is not None])


_owners = LiveObjects[Forkable]()


def renews_locks(owner: Forkable) -> None:
    """Have `owner.renew_locks()` called in every child process, as long as the owner lives."""
    _owners.add(owner)


def in_child(renew: Callable[[], object]) -> None:
    """Have a function called in every child process. For what belongs to a module."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def _renew_all() -> None:
    for owner in _owners:
        owner.renew_locks()


in_child(_renew_all)


class _Here(threading.local):
    """What a thread is in the middle of."""

    #: How many locks of the two kinds below it holds, or waits for.
    held = 0
    #: Whether what it begins now is a part of the work that it holds a lock for.
    is_part = False
    #: Whether it is in what has come between.
    between = False

    @contextlib.contextmanager
    def holding(self) -> Iterator[bool]:
        """A context in which one more lock is held; it is given whether others were before."""
        before = self.held, self.is_part, self.between
        self.held, self.between = before[0] + 1, self.between or bool(before[0]) > before[1]
        self.is_part = False
        try:
            yield before[0] > 0
        finally:
            self.held, self.is_part, self.between = before


_here = _Here()


def comes_between() -> bool:
    """Whether this thread does what has come between (in a destructor or a signal handler) while it
    holds a lock. It does that by itself: threads that it waited for might need what it holds.
    """
    return _here.between


def is_begun(module: str | None) -> bool:
    """Whether the import of a module has begun and not ended: in the middle of it has come who
    asks.
    """
    spec = getattr(sys.modules.get(module or ""), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


@contextlib.contextmanager
def part_of_work() -> Iterator[None]:
    """A context in which a thread begins what is a part of its work, and does not come between."""
    before, _here.is_part = _here.is_part, True
    try:
        yield
    finally:
        _here.is_part = before


class WorkLock:
    """A lock under which threads do a work one after the other, so that they find it done. It is
    free in a child process, which has none of the threads.

    A thread that holds such a lock, or a `ShortLock`, waits for no other: it goes on without.
    """

    def __init__(self) -> None:
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the lock: at the start, and in a child process."""
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self, wait: bool = True) -> Iterator[bool]:
        """A context in which this thread holds the lock; it is given whether it does.

        It does not where it must not `wait`, because it was told so or holds another.
        """
        lock = self._lock
        with _here.holding() as others:
            if wait and not others:
                with lock:
                    yield True
                return
            has = lock.acquire(blocking=False)
            try:
                yield has
            finally:
                if has:
                    lock.release()


class ShortLock:
    """A lock for a few statements, which the thread that holds it may take again. It is free in a
    child process.
    """

    def __init__(self) -> None:
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the lock: at the start, and in a child process."""
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A context in which this thread holds the lock."""
        with _here.holding(), self._lock:
            yield


class _Gate:
    """A gate between threads and forks: a fork waits until other threads that are inside have left,
    and threads wait for a fork that goes on.
    """

    def __init__(self) -> None:
        #: Taken by itself: an interrupt may come within a condition's `__enter__`, which is Python.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.inside: Counter[int] = Counter()  # how often, by thread
        self.forking = False
        self.forkers: Counter[int] = Counter()  # threads that came through `before_fork`

    def enter(self) -> None:
        """Wait for a fork that goes on, unless this thread is inside already."""
        me = threading.get_ident()
        with _here.holding(), self.lock:
            self.changed.wait_for(
                lambda: not self.forking or me in self.inside or self.forkers[me] > 0,
                _LONGEST_WAIT,
            )
            self.inside[me] += 1

    def leave(self) -> None:
        """The inverse of `enter`."""
        me = threading.get_ident()
        with _here.holding(), self.lock:
            self.inside[me] -= 1
            if not self.inside[me]:
                self.inside.pop(me, None)  # one step: `del` of a Counter is two
            self.changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no other thread is inside; nobody enters until the fork is done."""
        me = threading.get_ident()
        _here.held += 1
        self.changed.acquire()
        self.forkers[me] += 1
        self.forking = True
        self.changed.wait_for(lambda: not self.inside.keys() - {me}, _LONGEST_WAIT)
        for lock in _held:  # only now: who is inside may need them to get out
            lock.acquire()

    def after_fork(self) -> None:
        """Let others enter.

        Nothing was closed by a fork that had begun when another thread imported this module.
        """
        me = threading.get_ident()
        if not self.forkers[me]:
            return
        for lock in _held:
            lock.release()
        self.forking = False
        self.forkers[me] -= 1  # after that, or what comes between would wait for this fork
        self.changed.notify_all()
        self.changed.release()
        _here.held -= 1

    def after_fork_in_child(self) -> None:
        """Let others enter in a child process, which has this thread only; it may be inside."""
        me = threading.get_ident()
        self.inside = Counter({me: self.inside[me]} if me in self.inside else {})
        self.forkers = Counter({me: self.forkers[me]})
        self.after_fork()


class Lock(Protocol):
    """A lock that the thread which holds it may take again."""

    def acquire(self) -> object:
        """Wait for the lock and take it."""

    def release(self) -> object:
        """Give the lock back."""


_held: list[Lock] = []


def held_at_forks(lock: Lock) -> None:
    """Have every fork wait for a lock that belongs to somebody else."""
    _held.append(lock)


#: Seconds that a fork waits for threads inside, lest something that never ends delays it for ever.
_LONGEST_WAIT = 30.0
_gate = _Gate()


@contextlib.contextmanager
def unforked() -> Iterator[None]:
    """A context in which no other thread forks the process. It is for what is rare or long: it
    takes microseconds.
    """
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_gate.before_fork,
        after_in_parent=_gate.after_fork,
        after_in_child=_gate.after_fork_in_child,
    )


class lazy(Generic[Value]):
    """A property that is computed when it is first read, and kept.

    `functools.cached_property` holds one lock for all objects of a class before Python 3.12. Here
    threads that read at the same time may both compute, and both get the value that is kept.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        if owner is None:
            return self
        value: Value = owner.__dict__.setdefault(self._name, self._compute(owner))
        return value


def once(compute: Callable[[], Value]) -> Callable[[], Value]:
    """Decorator: a function without arguments whose first value is kept.

    With `functools.lru_cache` threads that call at the same time may get different values; here
    they all get the one that is kept, so its address may be handed on.
    """
    values: dict[None, Value] = {}

    @functools.wraps(compute)
    def value() -> Value:
        return values[None] if values else values.setdefault(None, compute())

    return value
