"""Weights as kernels read them, made once for all the shapes that a model is called with."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence

from uncork.types import Array


class Packing:
    """Arrays made from constants. It lives as long as a plan that uses it, and keeps the constants, by which it is known."""

    __slots__ = ("__weakref__", "arrays", "sources")

    def __init__(self, arrays: Sequence[Array], sources: Sequence[Array]) -> None:
        self.arrays = tuple(arrays)
        self.sources = tuple(sources)


_known: weakref.WeakValueDictionary[tuple[Hashable, ...], Packing] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def packed(sources: Sequence[Array], how: Hashable, make: Callable[[], Sequence[Array]]) -> Packing:
    """What `make` gives, or gave before for the very same arrays and the same `how`."""
    key = (how, *map(id, sources))
    with _lock:
        found = _known.get(key)
    if found is None:
        found = Packing(make(), sources)
        with _lock:
            found = _known.setdefault(key, found)
    return found
