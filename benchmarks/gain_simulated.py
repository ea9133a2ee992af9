"""`python -m benchmarks gain --simulate 64 --models DIR`: what up to so many threads would gain,
for machines of more processors than this one.

Nothing is assumed of how a step can be divided: every layer is compiled for 2, 4, 8 .. threads, and
the parts that its kernels' own splitting makes are run one after the other on one thread, each by
itself, until its smallest time is known; of the processor, so that others disturb little. What so
many threads would take is then the time until the last of them is done, when each takes the next
part as it becomes free, which is what the pool does; and what is not shared, as it was measured.
Handing over is counted as it costs here: a start for each shared stage, and a turn at the lock for
each part.

What it does not know: memory that is slower when all want it, clocks that fall, caches that are
each one's own. So these are upper bounds. Recurrent layers that a team of threads walks through
together cannot be run part by part: they count as divided by rows only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar
from unittest import mock

import numpy as np

from benchmarks import zoo
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.timing import geometric_mean
from uncork.compiler import machine_limits, measured_steps
from uncork.compiler.compile import compile_model
from uncork.compiler.profile import ProfiledStep
from uncork.kernels.codegen.emit import Kernel
from uncork.kernels.runtime.dispatch import dispatch, made_by, own_pool
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.types import Array

#: Runs of a step at least: others may want the processor, and disturb some of them.
_CALLS = 20
#: Seconds in which a step is run.
_SECONDS = 0.02
#: Steps that are shown of those that keep many threads from gaining more.
_SHOWN = 3
#: The function that a kernel is, as ctypes has it.
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def counts(most: int) -> list[int]:
    """The numbers of threads: 2, 4, 8 and so on, up to the most."""
    return [2**n for n in range(1, most.bit_length()) if 2**n <= most]


# ---- the parts of a step


@dataclass
class _Stage:
    """Calls that are made together: the smallest time of each, and of all that is around them."""

    parts: list[float]
    whole: float = float("inf")
    calls: int = 0


class _Recorder:
    """Makes the calls of shared steps one after the other, and times each of them."""

    def __init__(self) -> None:
        self.stages: dict[int, _Stage] = {}
        self._known: dict[int, Any] = {}
        self._made = _FUNCTION(self._make)  # lives as long as the recorder
        self.address = ctypes.cast(self._made, ctypes.c_void_p).value or 0

    def take(self) -> list[_Stage]:
        """The stages since this was asked before, but for those of calls that only warmed up."""
        most = max((stage.calls for stage in self.stages.values()), default=0)
        found = [stage for stage in self.stages.values() if 2 * stage.calls > most]
        self.stages = {}
        return found

    def _make(self, words: int) -> int:
        begun = time.thread_time()
        _, count, table = (ctypes.c_int64 * 3).from_address(words)
        stage = self.stages.setdefault(table, _Stage([float("inf")] * count))
        entries = (ctypes.c_int64 * (2 * count)).from_address(table)
        status = 0
        for number in range(count):
            function, arguments = self._function(entries[2 * number]), entries[2 * number + 1]
            start = time.thread_time()
            status = status or function(arguments)
            took = time.thread_time() - start
            stage.parts[number] = min(stage.parts[number], took)
        stage.calls += 1
        stage.whole = min(stage.whole, time.thread_time() - begun)
        return int(status)

    def _function(self, address: int) -> Any:
        if address not in self._known:
            self._known[address] = _FUNCTION(address)
        return self._known[address]


# ---- what handing over costs


@dataclass(frozen=True)
class Handing:
    """Seconds of a shared stage by itself, of each of its parts, and of a part as it is timed."""

    stage: float
    part: float
    timed: float


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A kernel that does nothing."""

    emitter: ClassVar[str] = "benchmarks.gain_simulated:emit_nothing"

    @property
    def name(self) -> str:
        return "nothing"


def emit_nothing(spec: _Nothing, machine: Any) -> str:
    """The LLVM text of a kernel that does nothing."""
    k = Kernel(spec.name, ["word"], machine)
    k.finish()
    return k.text()


def handing() -> Handing:
    """Measured here: calls of nothing by the pool, whose threads are awake, and by the recorder."""
    nothing, recorder = STORE.address(_Nothing()), _Recorder()
    found: dict[str, dict[int, float]] = {"pool": {}, "recorder": {}}
    word = np.zeros(8, np.int64)
    for count in (2, 64):
        table = np.array([[nothing, word.ctypes.data]] * count, np.int64)
        function, (address, _, _) = dispatch(count, 0)
        assert own_pool() is None or address
        words = np.array([address, count, table.ctypes.data], np.int64)
        for name, call in (("pool", _FUNCTION(function)), ("recorder", recorder._made)):
            found[name][count] = min(_times(call, words.ctypes.data, 2000))
    per_part = max(0.0, (found["pool"][64] - found["pool"][2]) / 62)
    (stage, *_) = recorder.take()
    return Handing(max(0.0, found["pool"][2] - 2 * per_part), per_part, min(stage.parts))


@contextlib.contextmanager
def _disturbed_little() -> Iterator[None]:
    """Profiles by processor time of this thread, which makes all calls here, and by more runs."""
    with (
        mock.patch("time.perf_counter", time.thread_time),
        mock.patch.object(machine_limits, "_RUNS", _CALLS),
        mock.patch.object(measured_steps, "_ROUNDS", _CALLS),
    ):
        yield


def _times(call: Callable[[int], Any], word: int, count: int) -> Iterator[float]:
    for _ in range(count):
        start = time.thread_time()
        call(word)
        yield time.thread_time() - start


def makespan(parts: Sequence[float], threads: int) -> float:
    """When the last part is done, of parts that are taken in order by whoever is free."""
    free = [0.0] * threads
    for part in parts:
        heapq.heapreplace(free, free[0] + part)
    return max(free)


# ---- a network


@dataclass
class _Step:
    """A layer: seconds of one thread, and of others by their number; the parts for the most."""

    layer: str
    operation: str
    kernel: str
    outputs: str
    one: float
    seconds: dict[int, float] = field(default_factory=dict)
    parts: int = 1
    largest: float = 1.0

    def lost(self, threads: int) -> float:
        """Seconds more than a share of the work."""
        return self.seconds[threads] - self.one / threads


@dataclass(frozen=True)
class _Network:
    name: str
    steps: list[_Step]

    def gain(self, threads: int) -> float:
        """The time of one thread / that of so many."""
        return sum(s.one for s in self.steps) / sum(s.seconds[threads] for s in self.steps)

    def limits(self, threads: int) -> list[tuple[_Step, float]]:
        """The steps that keep so many from gaining more, and their shares of the time that is
        left.
        """
        whole = sum(step.seconds[threads] for step in self.steps)
        worst = sorted(self.steps, key=lambda step: -step.lost(threads))[:_SHOWN]
        return [(step, step.seconds[threads] / whole) for step in worst if step.lost(threads) > 0]


def simulated(model: Any, inputs: Sequence[Array], most: int, cost: Handing, name: str) -> _Network:
    """A network with these inputs, for up to so many threads."""
    with _disturbed_little():
        alone = compile_model(model, threads=1).profile(*inputs)
    steps = [_Step(s.layer, s.operation, s.kernel, s.outputs, s.seconds) for s in alone.steps]
    for threads in counts(most):
        for step, (shared, stages) in zip(steps, _parts(model, inputs, threads), strict=True):
            _simulate(step, shared, stages, threads, cost)
    return _Network(name, steps)


def _simulate(
    step: _Step, shared: ProfiledStep, stages: Sequence[_Stage], threads: int, cost: Handing
) -> None:
    if not stages:
        step.seconds[threads] = step.one
        return
    rest = max(0.0, shared.seconds - sum(stage.whole for stage in stages))
    together = 0.0
    for stage in stages:
        parts = [max(0.0, part - cost.timed) + cost.part for part in stage.parts]
        together += cost.stage + makespan(parts, threads)
    # The rest was measured with what calls the recorder: no more than one thread needs.
    alone = sum(sum(stage.parts) for stage in stages)
    rest = min(rest, max(0.0, step.one - alone))
    step.seconds[threads] = min(step.one, rest + together)
    largest = max(stages, key=lambda stage: sum(stage.parts))
    step.parts = len(largest.parts)
    step.largest = max(largest.parts) * len(largest.parts) / max(1e-12, sum(largest.parts))


def _parts(
    model: Any, inputs: Sequence[Array], threads: int
) -> list[tuple[ProfiledStep, list[_Stage]]]:
    """The steps as they are divided for so many threads, with their stages."""
    recorder = _Recorder()
    found: list[tuple[ProfiledStep, list[_Stage]]] = []

    def each(_: Any, some: Sequence[Any]) -> list[ProfiledStep]:
        """Steps one after the other, not in rounds: what the recorder has is of one of them."""
        recorder.take()
        made = []
        for step in some:
            seconds = machine_limits.smallest(step.call, _SECONDS) if step.call else 0.0
            made.append(step.result(seconds))
            found.append((made[-1], recorder.take()))
        return made

    team = "uncork.kernels.recurrent.sequence_calls._suits_team"
    with (
        made_by(recorder.address),
        mock.patch(team, return_value=False),
        mock.patch.object(measured_steps._Steps, "_rounds", each),
        _disturbed_little(),
    ):
        compile_model(model, threads=threads).profile(*inputs)
    return found


# ---- the command


def main(options: Options) -> int:
    """The networks that are there, one call of each."""
    results: list[_Network] = []
    report = Report("gain-simulated", options)
    numbers, cost = counts(options.simulate), handing()
    for path in sorted(options.models.glob("*/model.xml")):
        folder = path.parent
        if not options.wants(folder.name) or not (folder / "inputs.npz").exists():
            continue
        gc.collect()
        call = zoo.recorded(folder)[0]
        found = simulated(str(path), call.inputs, options.simulate, cost, folder.name)
        results.append(found)
        print(folder.name, *(f"{n}: {found.gain(n):.2f}" for n in numbers), flush=True)
        data = {"networks": [asdict(r) for r in results], "handing": asdict(cost)}
        report.write(data, page(results, numbers, cost))
    if not results:
        print("no such model is there")
        return 2
    report.say()
    return 0


def page(results: Sequence[_Network], numbers: Sequence[int], cost: Handing) -> str:
    """The gains, and the steps that limit them."""
    most = numbers[-1]
    head = ["network", "ms of one thread", *(f"{n} threads" for n in numbers)]
    rows = [
        [
            r.name,
            f"{1e3 * sum(s.one for s in r.steps):.2f}",
            *(f"{r.gain(n):.2f}" for n in numbers),
        ]
        for r in results
    ]
    means = [f"{geometric_mean([r.gain(n) for r in results]):.2f}" for n in numbers]
    rows.append(["geometric mean", "", *means])
    limiting = [
        [
            r.name,
            f"{step.operation} {step.outputs}",
            step.kernel,
            f"{1e6 * step.one:.0f}",
            f"{1e6 * step.seconds[most]:.0f}",
            f"{share:.0%}",
            str(step.parts),
            f"{step.largest:.2f}",
        ]
        for r in results
        for step, share in r.limits(most)
    ]
    columns = [
        "network",
        "step",
        "kernel",
        "us of one thread",
        f"us of {most}",
        "share of what is left",
        "parts",
        "largest / mean",
    ]
    return (
        f"Simulated: parts of steps, as the kernels divide them for so many threads, timed one by "
        f"one on one thread; whoever is free takes the next. Handing over: "
        f"{1e6 * cost.stage:.2f} us for a stage, {1e6 * cost.part:.3f} us for a part, as measured "
        f"here. Nothing is known of memory that all want at once: these are upper bounds.\n\n"
        f"{markdown_table(head, rows)}\n\nThe steps that keep {most} threads from gaining more:"
        f"\n\n{markdown_table(columns, limiting)}"
    )
