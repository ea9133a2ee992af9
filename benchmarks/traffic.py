"""`python -m benchmarks traffic`: calls of ever new sizes: sentences, sessions, images, a decoder
with state, sizes that data tell.

Each system has a process of its own, for its memory is measured, and they take turns on the same
calls, some at a time. Behind each timed call comes another of the same sizes with other contents,
made in the same way and called behind the same call: by how much the first is dearer is what a new
size costs. Results are compared before anything is timed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.traffic_cases import CASES, Traffic
from uncork import write_model

ROOT = Path(__file__).resolve().parent.parent
#: Calls of a system until it is the next one's turn.
_TURN = 20
#: Of what is measured, the first part belongs to the start.
_START = 0.2
#: A new size costs at most so many microseconds more than one met before, and memory grows by at
#: most so much after the start.
DEARER, GROWTH = 30.0, 0.05


@dataclass
class Record:
    """One system under one kind of traffic. Times are in microseconds, memory in MB after each
    turn.
    """

    case: str
    system: str
    new: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    plans: list[int] = field(default_factory=list)

    def take(self, answer: dict[str, Any]) -> None:
        self.new += [seconds * 1e6 for seconds in answer.get("new", ())]
        self.again += [seconds * 1e6 for seconds in answer.get("again", ())]
        self.memory.append(answer["resident"] / 1e6)
        for name, numbers in (("kernels", self.kernels), ("plans", self.plans)):
            if name in answer:
                numbers.append(answer[name])

    @property
    def settled(self) -> list[float]:
        """The times of calls after the start."""
        return self.new[int(len(self.new) * _START) :]

    @property
    def dearer(self) -> float | None:
        """What a new size costs more than the same once more: the median, after the start."""
        if not self.again:
            return None
        first = int(len(self.new) * _START)
        return statistics.median(
            a - b for a, b in zip(self.new[first:], self.again[first:], strict=True)
        )

    @property
    def growth(self) -> float:
        """How much of the memory at the end was not there after the start."""
        first = self.memory[int((len(self.memory) - 1) * _START)]
        return self.memory[-1] / first - 1


class Worker:
    """A process that makes calls; see `traffic_worker`."""

    def __init__(self, system: str, case: Traffic, folder: Path, threads: int) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.traffic_worker",
            system,
            case.name,
            str(folder),
            str(threads),
        ]
        source = str(ROOT / "src")
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), source])}
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """What the process says next. Raises RuntimeError when it has ended."""
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                (self._process.stderr.read().strip().splitlines() or ["it ended without a word"])[
                    -1
                ][:300]
            )
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, first: int, count: int) -> dict[str, Any]:
        """Make so many calls."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"first": first, "count": count}) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def agree(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> bool:
    """The sums of all results are those of the other system, to a thousandth."""
    if [len(sums) for sums in ours] != [len(sums) for sums in theirs]:
        return False
    return all(
        abs(a - b) <= 1e-3 * max(1.0, abs(b))
        for x, y in zip(ours, theirs, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def measured(case: Traffic, options: Options, folder: Path, notes: list[str]) -> list[Record]:
    """All systems on one kind of traffic, by turns."""
    write_model(case.model(), folder / "model.xml")
    names = [
        "uncork",
        *(
            n
            for n in ("openvino", "onnxruntime")
            if options.peers.get(n) and (n != "onnxruntime" or case.onnx)
        ),
    ]
    records: list[Record] = []
    workers: dict[str, Worker] = {}
    sums: list[list[float]] = []
    try:
        for name in names:
            workers[name] = Worker(name, case, folder, options.threads)
            try:
                answer = workers[name].answer()
            except RuntimeError as error:
                notes.append(f"{case.name}: {name} failed: {error}")
                workers.pop(name).end()
                continue
            sums = sums or answer["sums"]
            if not agree(answer["sums"], sums):
                notes.append(f"{case.name}: {name} gives other results")
                workers.pop(name).end()
                continue
            records.append(Record(case.name, name))
            records[-1].take(answer)
        calls = case.quick if options.quick else min(case.calls, options.calls or case.calls)
        for turn, first in enumerate(range(0, calls, _TURN)):
            for place in range(len(records)):
                record = records[(place + turn) % len(records)]
                record.take(workers[record.system].run(first, min(_TURN, calls - first)))
    finally:
        for worker in workers.values():
            worker.end()
    return records


def row(record: Record, ours: Record | None) -> list[str]:
    """The line of the table."""
    median = statistics.median(record.settled)
    ratio = (
        "" if ours is None or ours is record else f"{median / statistics.median(ours.settled):.2f}"
    )
    slow = median
    if len(record.settled) > 1:
        slow = statistics.quantiles(record.settled, n=100)[98]
    dearer = record.dearer
    made = [
        f"{numbers[0]} to {numbers[-1]}" if numbers else ""
        for numbers in (record.kernels, record.plans)
    ]
    return [
        record.case,
        record.system,
        str(len(record.new)),
        f"{median:.1f}",
        f"{slow:.1f}",
        ratio,
        "" if dearer is None else f"{dearer:.1f}",
        f"{record.memory[0]:.0f} to {record.memory[-1]:.0f}",
        *made,
    ]


def misses(records: Sequence[Record]) -> list[str]:
    """What is not as it should be: slower than OpenVINO, dear new sizes, memory, kernels or plans
    that grow.
    """
    found: list[str] = []
    for record in (r for r in records if r.system == "uncork"):
        peer = next((r for r in records if r.case == record.case and r.system == "openvino"), None)
        if peer is not None and statistics.median(record.settled) > statistics.median(peer.settled):
            found.append(f"{record.case}: slower than OpenVINO")
        if record.dearer is not None and record.dearer > DEARER:
            found.append(f"{record.case}: a new size costs {record.dearer:.0f} us more")
        if record.growth > GROWTH:
            found.append(f"{record.case}: memory grows by {record.growth:.0%} after the start")
        for name, numbers in (("kernels", record.kernels), ("plans", record.plans)):
            start = numbers[int((len(numbers) - 1) * _START)]
            if numbers[-1] > start:
                found.append(
                    f"{record.case}: {name} grow from {start} to {numbers[-1]} after the start"
                )
    return found


def main(options: Options) -> int:
    """Every kind of traffic that was asked for."""
    if not Path("/proc/self/statm").exists():
        print("memory is read from /proc, which this system does not have")
        return 0
    records: list[Record] = []
    notes: list[str] = []
    for case in CASES:
        if options.wants(case.name):
            with tempfile.TemporaryDirectory() as scratch:
                records += measured(case, options, Path(scratch), notes)
            print(
                f"{case.name}: "
                + ", ".join(
                    f"{r.system} {statistics.median(r.settled):.1f} us"
                    for r in records
                    if r.case == case.name
                )
            )
    if not records:
        print("no traffic has such a name")
        return 2
    ours = {r.case: r for r in records if r.system == "uncork"}
    head = [
        "traffic",
        "system",
        "calls",
        "median, us",
        "99 %, us",
        "times ours",
        "a new size more, us",
        "memory, MB",
        "kernels",
        "plans",
    ]
    table = markdown_table(head, [row(record, ours.get(record.case)) for record in records])
    missed = [f"**Misses:** {', '.join(misses(records))}." if misses(records) else "No misses."]
    report = Report("traffic", options)
    report.write(
        {"traffic": [asdict(record) for record in records], "notes": notes},
        "\n\n".join([table, *missed, *notes]),
    )
    plots.traffic(records, _TURN, options.out / f"{report.name}.png")
    report.say()
    return 1 if notes else 0
