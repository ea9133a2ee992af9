"""Values that threads share and locks that survive a fork.

A child process has one thread: the one that forked. A lock that another thread held at that moment
stays locked in the child for ever, so every lock of the project is replaced there by a new one.
What a lock protects is never half-changed at a fork: Python code is only ever interrupted between
two steps, and each structure is changed in one step.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

Value = TypeVar("Value")


class Forkable(Protocol):
    """An object that has locks."""

    def renew_locks(self) -> None:
        """Replace every lock by a new one."""


_owners: weakref.WeakSet[Forkable] = weakref.WeakSet()


def renews_locks(owner: Forkable) -> None:
    """Have `owner.renew_locks()` called in every child process, as long as the owner lives."""
    _owners.add(owner)


def in_child(renew: Callable[[], object]) -> None:
    """Have a function called in every child process. For what belongs to a module."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def _renew_all() -> None:
    for owner in list(_owners):
        owner.renew_locks()


in_child(_renew_all)


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
