"""Contenders measured side by side: in one process, by turns, on the same arrays, after they have
been seen to agree.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from uncork.types import Array

#: A sample is as many calls as take this long, so that reading the clock does not show.
_SAMPLE = 40e-6
_MOST_CALLS, _MOST_SAMPLES, _LEAST_SAMPLES = 200, 400, 5
#: Calls shorter than this are preceded by one that is not counted: the contender before has filled
#: the caches with its own.
_WARMED = 5e-3
#: Where contenders have threads, each turn begins after so many seconds in which those of the one
#: before go to sleep: onnxruntime's look for work for tens of milliseconds after a call, on a
#: processor that the next contender is to use. Then come calls for so many seconds, of which the
#: first, which wakes threads and fetches what it reads, does not count.
REST, _TURN = 0.15, 0.05


@dataclass(frozen=True)
class Contender:
    """Something that computes. `call(i)` works on set i of the inputs; `results` makes arrays of
    what it returned.

    `kind` is what a call includes, for contenders are compared with their like: "preset", all
    arrays were bound before; "direct", the inputs are given and the result is new; "call", what a
    user ordinarily writes; "limit", no contender but the least that the machine needs; "other",
    shown and compared with nothing.
    """

    name: str
    system: str
    kind: str
    call: Callable[[int], Any]
    results: Callable[[Any], Sequence[Array]]
    precision: str = "f32"
    #: The error it may have, where that is not the case's own.
    tolerance: float | None = None


class Expected(NamedTuple):
    """One result as it should be. An error is measured in units of `scale`: the sum of |terms|
    where terms are added.
    """

    value: Array
    scale: Array | float = 1.0


class Sample(NamedTuple):
    """Seconds per call."""

    minimum: float
    median: float
    samples: int


def error_of(results: Sequence[Array], expected: Sequence[Expected]) -> float:
    """The largest error in units of its scale; infinite when a shape, a count or a NaN is wrong."""
    if len(results) != len(expected):
        return math.inf
    worst = 0.0
    for got, (value, scale) in zip(results, expected, strict=True):
        if got.shape != value.shape:
            return math.inf
        if got.size:
            error = float(np.max(np.abs(got.astype(np.float64) - value) / (np.abs(scale) + 1e-30)))
            worst = math.inf if math.isnan(error) else max(worst, error)
    return worst


def disagreement(
    contender: Contender, numbers: Iterable[int], expect: Callable[[int], Sequence[Expected]]
) -> float:
    """The contender's largest error over some sets of inputs."""
    return max(error_of(contender.results(contender.call(i)), expect(i)) for i in numbers)


def measure(
    contenders: Sequence[Contender],
    sets: int,
    seconds: float,
    least: int = _LEAST_SAMPLES,
    rest: float = 0.0,
) -> dict[str, Sample]:
    """Time all contenders by turns for about so many seconds in all, with so many seconds of `rest`
    before each turn.

    The order rotates from round to round and every call works on another set than the one before.
    In a round all contenders are at sets far from each other's, so that nobody finds in the caches
    what another has just fetched. A slow contender gets fewer samples, spread over the whole time,
    but at least `least`.
    """
    share = seconds / max(1, len(contenders))
    plans = [
        _Plan(c, sets, number * sets // len(contenders), share, least, rest)
        for number, c in enumerate(contenders)
    ]
    rounds = max((plan.samples for plan in plans), default=0)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for turn in range(len(plans)):
                plan = plans[(turn + number) % len(plans)]
                if (number + 1) * plan.samples // rounds > number * plan.samples // rounds:
                    plan.sample(number)
    finally:
        gc.enable()
    return {plan.contender.name: summary(plan.times) for plan in plans}


def summary(times: Sequence[float]) -> Sample:
    return Sample(min(times), statistics.median(times), len(times))


class _Plan:
    def __init__(
        self,
        contender: Contender,
        sets: int,
        first: int,
        share: float,
        least: int,
        rest: float,
    ) -> None:
        self.contender = contender
        self.sets = sets
        self.first = first
        self.rest = rest
        self.times: list[float] = []
        contender.call(0)
        cost = max(1e-9, min(self._time([n % sets]) for n in range(1, 4)))
        self.calls = max(1, min(_MOST_CALLS, math.ceil(_SAMPLE / cost)))
        self.warmed = cost < _WARMED
        if rest:
            self.calls, self.warmed = max(self.calls, math.ceil(_TURN / cost)), True
        affordable = int(share / (rest + cost * (self.calls + self.warmed)))
        self.samples = max(least if cost < 1 else min(least, 2), min(_MOST_SAMPLES, affordable))

    def sample(self, turn: int) -> None:
        start = self.first + turn * self.calls
        numbers = [(start + n) % self.sets for n in range(self.calls)]
        time.sleep(self.rest)
        if self.warmed:
            self.contender.call((start - 1) % self.sets)
        self.times += self._each(numbers) if self.rest else [self._time(numbers) / self.calls]

    def _time(self, numbers: Sequence[int]) -> float:
        call = self.contender.call
        start = time.perf_counter()
        for number in numbers:
            call(number)
        return time.perf_counter() - start

    def _each(self, numbers: Sequence[int]) -> list[float]:
        """The times of runs of calls, each long enough for the clock."""
        each = max(1, math.ceil(_SAMPLE * len(numbers) / _TURN))
        parts = [numbers[n : n + each] for n in range(0, len(numbers), each)]
        return [self._time(part) / len(part) for part in parts]


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))
