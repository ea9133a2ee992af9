"""A case: contenders for one piece of work. Preparing it, checking that they agree, measuring, and
what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.options import Options
from benchmarks.timing import REST, Contender, Expected, disagreement, geometric_mean, measure


@dataclass
class Prepared:
    """A case with its arrays made."""

    sets: int
    #: The results of a set of inputs, by plain NumPy in f64 and by no contender's code.
    expect: Callable[[int], Sequence[Expected]]
    tolerance: float
    about: dict[str, Any] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    #: Microseconds that the machine needs at least, where that is computed and not a contender.
    limit: float | None = None

    def add(self, name: str, make: Callable[[], Iterable[Contender]]) -> None:
        """Add a peer's contenders; when the peer cannot do the case, note why."""
        try:
            self.contenders.extend(make())
        # whatever a peer raises is the peer's, and the others are measured all the same
        except Exception as error:
            self.left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]


@dataclass(frozen=True)
class Case:
    """`prepare` makes the arrays and the contenders; nothing is made before it is this case's
    turn.
    """

    group: str
    name: str
    prepare: Callable[[Options], Prepared]
    quick: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Time:
    """What was measured of one contender."""

    contender: str
    system: str
    kind: str
    precision: str
    min_us: float
    median_us: float
    samples: int
    error: float

    def us(self, statistic: str) -> float:
        return self.min_us if statistic == "min" else self.median_us


@dataclass(frozen=True)
class Outcome:
    """All times of a case. Ratios are time of the peer / ours: above 1, ours is faster. `statistic`
    is "min" or "median".
    """

    group: str
    name: str
    about: dict[str, Any]
    times: tuple[Time, ...]
    left_out: dict[str, str]
    limit_us: float | None = None

    @property
    def full_name(self) -> str:
        return f"{self.group}: {self.name}"

    def ours(self, kind: str, statistic: str = "min", precision: str = "f32") -> float | None:
        """Our time for a kind of call, or for one that does more where that is all there is."""
        ways = {
            "preset": (("preset",), ("direct", "call")),
            "direct": (("direct", "call"),),
            "call": (("call",),),
        }
        for kinds in ways[kind]:
            found = [
                t.us(statistic)
                for t in self.times
                if t.system == "uncork" and t.kind in kinds and t.precision == precision
            ]
            if found:
                return min(found)
        return None

    def cheapest(
        self,
        system: str | None = None,
        statistic: str = "min",
        precision: str = "f32",
        against: str = "f32",
    ) -> float | None:
        """The smallest ratio over the cheapest calls of a peer, or of all peers, each to ours of
        the same kind.

        What a peer can only be given as an ordinary call is held against our direct one.
        """
        return _ratio(self.cheapest_times(system, statistic, precision, against))

    def cheapest_times(
        self,
        system: str | None = None,
        statistic: str = "min",
        precision: str = "f32",
        against: str = "f32",
    ) -> tuple[float, float] | None:
        """The two times of `cheapest`: the peer's and ours."""
        peers = [
            t
            for t in self.times
            if t.system not in ("uncork", "machine")
            and t.precision == against
            and system in (None, t.system)
        ]
        cheap = [t for t in peers if t.kind in ("preset", "direct")]
        bare = {t.system for t in peers} - {t.system for t in cheap}
        kinds = [(t, t.kind) for t in cheap] + [
            (t, "direct") for t in peers if t.kind == "call" and t.system in bare
        ]
        return self._closest(kinds, statistic, precision)

    def ordinary(self, system: str | None = None, statistic: str = "min") -> float | None:
        """The smallest ratio over ordinary calls."""
        peers = [
            t
            for t in self.times
            if t.kind == "call"
            and t.system != "uncork"
            and t.precision == "f32"
            and system in (None, t.system)
        ]
        return _ratio(self._closest([(t, "call") for t in peers], statistic, "f32"))

    def _closest(
        self, peers: Sequence[tuple[Time, str]], statistic: str, precision: str
    ) -> tuple[float, float] | None:
        """The peer's time and ours, of all kinds of calls those with the smallest ratio."""
        pairs = [
            (time.us(statistic), ours)
            for time, kind in peers
            for ours in [self.ours(kind, statistic, precision)]
            if ours
        ]
        return min(pairs, key=lambda pair: pair[0] / pair[1], default=None)

    def to_limit(self, statistic: str = "min") -> float | None:
        """The least the machine needs / our cheapest time: 1 is as fast as it goes."""
        limits = [t.us(statistic) for t in self.times if t.kind == "limit"] + (
            [self.limit_us] if self.limit_us else []
        )
        ours = self.ours("preset", statistic)
        return min(limits) / ours if limits and ours else None

    @property
    def wrong(self) -> bool:
        """Ours gave a wrong result, or failed; what it says that it does not support is not
        counted.
        """
        reasons = [reason for name, reason in self.left_out.items() if name.startswith("uncork")]
        return any(not reason.startswith("UnsupportedError") for reason in reasons)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(written: Mapping[str, Any]) -> Outcome:
        """What `to_dict` has written."""
        return Outcome(**{**written, "times": tuple(Time(**time) for time in written["times"])})


def _ratio(times: tuple[float, float] | None) -> float | None:
    """How many times the second time is in the first."""
    return None if times is None else times[0] / times[1]


def run(case: Case, options: Options) -> Outcome:
    """Prepare, check, measure, check again."""
    prepared = case.prepare(options)
    checked = sorted({0, prepared.sets - 1})
    expected = {i: prepared.expect(i) for i in checked}
    errors: dict[str, float] = {}

    def agree(contender: Contender, numbers: Sequence[int]) -> bool:
        try:
            error = disagreement(contender, numbers, expected.__getitem__)
        except (
            Exception
        ) as problem:  # a peer that cannot run the case is left out as one that cannot be built
            prepared.left_out[contender.name] = f"{type(problem).__name__}: {problem}".splitlines()[
                0
            ][:200]
            return False
        errors[contender.name] = max(error, errors.get(contender.name, 0.0))
        limit = prepared.tolerance if contender.tolerance is None else contender.tolerance
        if not error <= limit:
            prepared.left_out[contender.name] = (
                f"wrong: error {error:.2g}, at most {limit:.2g} is right"
            )
        return error <= limit

    fit = [c for c in prepared.contenders if agree(c, checked)]
    least = 3 if options.quick else 5
    rest = REST if options.threads > 1 else 0.0
    samples = measure(fit, prepared.sets, options.seconds, least, rest)
    fit = [c for c in fit if agree(c, checked[-1:])]
    times = tuple(
        Time(
            c.name,
            c.system,
            c.kind,
            c.precision,
            s.minimum * 1e6,
            s.median * 1e6,
            s.samples,
            errors[c.name],
        )
        for c in fit
        for s in [samples[c.name]]
    )
    return Outcome(case.group, case.name, prepared.about, times, prepared.left_out, prepared.limit)


def summarise(values: Iterable[float | None]) -> tuple[float, float] | None:
    """(geometric mean, worst) of the ratios that there are."""
    known = [value for value in values if value is not None]
    return (geometric_mean(known), min(known)) if known else None
