"""Real shopping sessions as moments: what a visitor had looked at when a recommendation was due,
and what came next.

Plain Python and NumPy, shared by `train.py` and the tests. A moment is a session as it stood after
one of its events; its `items` are the numbers of the articles so far, oldest first, and its `next`
is the article of the following event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 0  # the item number of an article that is not in the catalogue, and of the padding
WINDOW = 20  # the model sees this many of the latest items
TOP = 20  # recommendations that are counted

# Moments are told apart by the time of the event that follows, in UTC: the future is never trained
# on.
VALIDATION_FROM = datetime(2022, 8, 8, tzinfo=timezone.utc)
TEST_FROM = datetime(2022, 8, 16, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Moment:
    """A session after `event` of its events; `next` and `next_time` are None after the last one."""

    session: int
    event: int
    items: tuple[int, ...]
    next: int | None
    next_time: datetime | None

    def within(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether the event that follows happened at `start` or later and before `end`."""
        time = self.next_time
        return time is not None and (start is None or time >= start) and (end is None or time < end)


def read_sessions(path: Path) -> list[tuple[int, list[tuple[datetime, int]]]]:
    """Each session's id with the times and article ids (`aid`) of its events, in their order."""
    sessions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        events = [
            (datetime.fromtimestamp(event["ts"] / 1000, timezone.utc), event["aid"])
            for event in entry["events"]
        ]
        sessions.append((entry["session"], events))
    return sessions


def catalogue(sessions: Sequence[tuple[int, Sequence[tuple[datetime, int]]]]) -> dict[int, int]:
    """The item number of every article, from 1, the most frequent first (of equally frequent ones
    the smaller `aid`).
    """
    counts = Counter(aid for _, events in sessions for _, aid in events)
    ordered = sorted(counts, key=lambda aid: (-counts[aid], aid))
    return {aid: number for number, aid in enumerate(ordered, start=1)}


def moments(
    sessions: Sequence[tuple[int, Sequence[tuple[datetime, int]]]], numbers: dict[int, int]
) -> list[Moment]:
    """Every session after every of its events, in order."""
    found = []
    for session, events in sessions:
        items = tuple(numbers.get(aid, UNKNOWN) for _, aid in events)
        for event in range(1, len(events) + 1):
            more = event < len(events)
            found.append(
                Moment(
                    session,
                    event,
                    items[:event],
                    items[event] if more else None,
                    events[event][0] if more else None,
                )
            )
    return found


def padded(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The last `WINDOW` items of each list with zeros after them [B, WINDOW], and how many there
    are [B].

    `uncork score` makes the same arrays with `padded(items, 20)` and `length(items, 20)`.
    """
    items = np.zeros((len(lists), WINDOW), np.int64)
    lengths = np.zeros(len(lists), np.int64)
    for row, whole in enumerate(lists):
        latest = whole[-WINDOW:]
        items[row, : len(latest)] = latest
        lengths[row] = len(latest)
    return items, lengths


def popular(train: Sequence[Moment]) -> list[int]:
    """All items that were ever next in `train`, the most frequent first: the recommendations that
    need no session.
    """
    counts = Counter(moment.next for moment in train if moment.next is not None)
    return sorted(counts, key=lambda item: (-counts[item], item))


def recent(moment: Moment, fallback: Sequence[int]) -> list[int]:
    """The distinct items of the window, the latest first, then those of `fallback`."""
    return list(dict.fromkeys([*reversed(moment.items[-WINDOW:]), *fallback]))


def ranks(recommended: Sequence[Sequence[int]], test: Sequence[Moment]) -> NDArray[np.float64]:
    """At which place, from 1, each moment's next item was recommended; inf when it is not among the
    first `TOP`.
    """
    found = np.full(len(test), np.inf)
    for row, (items, moment) in enumerate(zip(recommended, test, strict=True)):
        first = list(items[:TOP])
        if moment.next in first:
            found[row] = first.index(moment.next) + 1
    return found


def recall(found: NDArray[np.float64]) -> float:
    """The share of the moments whose next item was among the first `TOP`."""
    return float(np.isfinite(found).mean())


def mean_reciprocal_rank(found: NDArray[np.float64]) -> float:
    """The mean of 1 / rank, 0 where the next item was not among the first `TOP`."""
    return float((1 / found).mean())
