"""A limited number of plans by kind of call, of which those used longest ago go."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Kinds of calls that are known to have come, for each that is kept.
_SEEN = 16


class Recent(Generic[K, V]):
    """What was made for at most so many kinds.

    When they are all there, a further kind takes the place of the one used longest ago, but only
    when it comes again: what comes once is not worth making. May be used from several threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[K, V] = {}
        #: By kind, the number of its last use.
        self._used: dict[K, int] = {}
        #: Kinds that came and are not there, the first ones first.
        self._seen: dict[K, None] = {}
        self._count = itertools.count()

    def of(self, kind: K, make: Callable[[], V]) -> V | None:
        """What there is for a kind, or what `make` makes; None where it has to come again first."""
        found = self._made.get(kind)
        if found is None:
            if len(self._made) >= self._most and kind not in self._seen:
                self._seen[kind] = None
                if len(self._seen) > _SEEN * self._most:
                    self._seen.pop(next(iter(list(self._seen))), None)
                return None
            self._seen.pop(kind, None)
            found = self._made.setdefault(kind, make())
        self._used[kind] = next(self._count)
        if len(self._made) > self._most:
            oldest = min(list(self._made), key=lambda kind: self._used.get(kind, -1))
            self._made.pop(oldest, None)
            self._used.pop(oldest, None)
        return found

    def get(self, kind: K) -> V | None:
        """What there is for a kind, which is not a use of it."""
        return self._made.get(kind)

    def values(self) -> list[V]:
        """All that there is."""
        return list(self._made.values())

    def clear(self) -> None:
        """Let all of it go."""
        for kept in (self._made, self._used, self._seen):
            kept.clear()
