"""The number of threads that NumPy's matrix products use: at most that of the call that they are
part of.

`np.matmul` and others call a BLAS library, which has threads of its own: as many as the machine has
processors, whatever a call of a model was told. Each of these libraries has a function that sets
their number for the whole process. It is called only while such a product runs, and only to lower
the number: what the user has set otherwise, or before, holds again afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.concurrency import ShortLock, in_child, once, unforked

#: Functions that get and set the number of threads: OpenBLAS (NumPy's own wheels prefix or suffix
#: the names), MKL, BLIS.
_FUNCTIONS = (
    *(
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
        for prefix in ("scipy_", "")
        for suffix in ("64_", "_64", "")
    ),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)


class Library(Struct, frozen=True):
    """The BLAS library of this process's NumPy."""

    threads: Callable[[], int]
    set_threads: Callable[[int], object]


@once
def library() -> Library | None:
    """The BLAS library, or None where NumPy's is none of those known here, such as Apple's: then
    nothing is limited.
    """
    for path in _paths():
        try:
            loaded = ctypes.CDLL(
                path
            )  # it is loaded already: this finds its functions and those of what it needs
        except OSError:
            continue
        for get, set_ in _FUNCTIONS:
            if hasattr(loaded, get) and hasattr(loaded, set_):
                setter: Any = getattr(loaded, set_)
                setter.argtypes, setter.restype = [ctypes.c_int], None
                return Library(getattr(loaded, get), setter)
    return None


def _paths() -> Iterator[str]:
    core = np._core if hasattr(np, "_core") else np.core
    module = core._multiarray_umath.__file__
    if module is not None:
        yield module
    # On Windows a library does not show the functions of those that it needs.
    yield from glob.glob(
        os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs", "*openblas*")
    )


_most: ContextVar[int | None] = ContextVar("uncork's threads of a call", default=None)


class at_most:
    """A context that limits the threads of the products in it, where they say `limited`; entering
    it calls no library.
    """

    __slots__ = ("_threads", "_token")

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._token = _most.set(self._threads)

    def __exit__(self, *error: object) -> None:
        _most.reset(self._token)


class _Limits:
    """Limits of the products that run now. The lowest of several threads holds: the library has
    only one number.
    """

    def __init__(self) -> None:
        self.lock = ShortLock()
        self.active: list[int] = []
        #: The library's number while it is not lowered.
        self.before = 0
        self.lowered = False

    def enter(self, found: Library, threads: int) -> bool:
        """Lower the library's number of threads if it is higher; returns whether it was."""
        with self.lock.held():
            if not self.lowered:
                self.before = found.threads()
            if threads >= self.before:
                return False
            self.lowered = True
            self.active.append(threads)
            found.set_threads(min(self.active))
            return True

    def leave(self, found: Library, threads: int) -> None:
        """The inverse of an `enter` that lowered it."""
        with self.lock.held():
            self.active.remove(threads)
            found.set_threads(min(self.active, default=self.before))
            self.lowered = bool(self.active)

    def in_child(self) -> None:
        """Forget the other threads, in a child process: none of them ends what it began."""
        if self.lowered:
            self.active.clear()
            self.lowered = False
            found = library()
            assert found is not None, "or nothing were limited"
            found.set_threads(self.before)


_limits = _Limits()
in_child(_limits.in_child)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """A context for a product: it uses no more threads than the call around it may.

    A fork of another thread waits for its end. OpenBLAS ends its threads before a fork, and where
    one of them is just given work by another thread, it can wait for it for ever.
    """
    with unforked():
        threads = _most.get()
        found = None if threads is None else library()
        if threads is None or found is None or not _limits.enter(found, threads):
            yield
            return
        try:
            yield
        finally:
            _limits.leave(found, threads)
