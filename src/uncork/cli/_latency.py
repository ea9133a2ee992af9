"""Latency of calls: contenders take turns, so that all share what the machine does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Seconds of one turn.
_TURN = 0.05


@dataclass
class Contender:
    """A way to run the model: `call` is timed, `before` is not."""

    name: str
    call: Callable[[], Any]
    before: Callable[[], None] | None = None
    seconds: list[float] = field(default_factory=list)

    def turn(self, until: float) -> None:
        """Make calls until that moment, one at least, and note their times."""
        while True:
            if self.before is not None:
                self.before()
            start = time.perf_counter()
            self.call()
            now = time.perf_counter()
            self.seconds.append(now - start)
            if now >= until:
                return

    def figures(self) -> dict[str, Any]:
        """The figures of its calls: seconds of a call, and calls in a second."""
        times = np.array(self.seconds)
        p90, p99 = np.percentile(times, [90, 99])
        return {
            "name": self.name,
            "calls": len(times),
            "min": float(times.min()),
            "median": float(np.median(times)),
            "p90": float(p90),
            "p99": float(p99),
            "mean": float(times.mean()),
            "calls_per_second": float(len(times) / times.sum()),
        }


def measure(
    contenders: Sequence[Contender], seconds: float, progress: Callable[[int, int], None]
) -> None:
    """Time the calls of all contenders, which take turns, for so many seconds each."""
    for contender in contenders:  # compiles, and maps what is mapped
        for _ in range(3):
            if contender.before is not None:
                contender.before()
            contender.call()
    turns = max(1, round(seconds / _TURN))
    for turn in range(turns):
        for contender in contenders:
            contender.turn(time.perf_counter() + seconds / turns)
        progress(turn + 1, turns)
