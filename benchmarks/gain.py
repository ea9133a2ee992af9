"""`python -m benchmarks gain --threads N --pin 0,1 --models DIR`: what N threads gain over one, for
us and for OpenVINO, network by network.

All four take turns in one process. Nobody else may work on those CPUs, or both gains are too small.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks import cases, zoo
from benchmarks.goals import GAIN_OF_OTHERS, GAIN_OF_TWO
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.timing import Contender

_SYSTEMS = ("uncork", "openvino")


@dataclass(frozen=True)
class _Gain:
    """Seconds by system and number of threads."""

    name: str
    seconds: dict[str, dict[int, float]]
    left_out: dict[str, str]

    def of(self, system: str) -> float | None:
        """The time of one thread / that of several."""
        times = self.seconds.get(system, {})
        return times[min(times)] / times[max(times)] if len(times) > 1 else None


def main(options: Options) -> int:
    """All networks that are there."""
    if options.simulate:
        from benchmarks import gain_simulated

        return gain_simulated.main(options)
    if options.threads < 2:
        print("gain needs --threads of 2 or more, and as many CPUs: --pin 0,1")
        return 2
    results: list[_Gain] = []
    report = Report("gain", options)
    one = replace(options, threads=1)
    for single, several in zip(zoo.cases(options.models), zoo.cases(options.models), strict=True):
        if options.wants(single.full_name) and (single.quick or not options.quick):
            gc.collect()
            results.append(_measured(single, several, one, options))
            print(_line(results[-1]), flush=True)
            report.write({"gain": [asdict(r) for r in results]}, _page(results, options.threads))
    if not results:
        print("no such model is there")
        return 2
    report.say()
    return 1 if any("uncork" in r.left_out for r in results) else 0


def _measured(single: cases.Case, several: cases.Case, one: Options, more: Options) -> _Gain:
    """One case whose contenders are those of both numbers of threads."""

    def both(_: Options) -> cases.Prepared:
        prepared, others = single.prepare(one), several.prepare(more)
        prepared.contenders = [
            *_named(prepared.contenders, one.threads),
            *_named(others.contenders, more.threads),
        ]
        prepared.left_out |= others.left_out
        return prepared

    outcome = cases.run(replace(single, prepare=both), more)
    seconds: dict[str, dict[int, float]] = {}
    for time in outcome.times:
        threads = int(time.contender.rpartition(" ")[2])
        of_system = seconds.setdefault(time.system, {})
        of_system[threads] = min(time.min_us / 1e6, of_system.get(threads, float("inf")))
    return _Gain(single.name, seconds, outcome.left_out)


def _named(contenders: Sequence[Contender], threads: int) -> list[Contender]:
    return [replace(c, name=f"{c.name} {threads}") for c in contenders]


def _line(result: _Gain) -> str:
    return f"{result.name}  " + "  ".join(_cells(result))


def _cells(result: _Gain) -> list[str]:
    cells = []
    for system in _SYSTEMS:
        times = result.seconds.get(system, {})
        gain = result.of(system)
        cells += [" / ".join(f"{times[n] * 1e6:.0f}" for n in sorted(times)) or "-"]
        cells += [f"{gain:.2f}" if gain else "-"]
    ours, theirs = result.of("uncork"), result.of("openvino")
    missed = ours and theirs and theirs >= GAIN_OF_OTHERS and ours < GAIN_OF_TWO
    return [*cells, "**misses**" if missed else ""]


def _page(results: Sequence[_Gain], threads: int) -> str:
    head = ["case, us: one thread / several"]
    head += [word for system in _SYSTEMS for word in (system, f"gain of {system}")] + ["goal"]
    table = markdown_table(head, [[r.name, *_cells(r)] for r in results])
    goal = (
        f"\n\nGoal of two threads: a gain of {GAIN_OF_TWO} wherever OpenVINO gains "
        f"{GAIN_OF_OTHERS}."
        if threads == 2
        else ""
    )
    return table + goal
