"""Writes docs/models.md from a run of `python -m benchmarks zoo`: `python -m tools.models_page
[zoo.json]`. Its table of bf16 is from the results of `python -m benchmarks precision`, which may be
written by themselves: `python -m tools.models_page --bf16`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import Outcome

from tools import models_figure

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "models.md"
RESULTS = ROOT / "benchmarks" / "results" / "zoo.json"
PRECISION = ROOT / "benchmarks" / "results" / "precision.md"
#: Errors that an emulator of instructions on bf16 tells, by network.
EMULATED = ROOT / "benchmarks" / "emulated_errors.json"
HEAD = """# Models that were tried

Well-known networks beside OpenVINO {openvino}: the same file, the same inputs, one thread each,
f32, {machine}, {date}. Written by `python -m tools.models_page` from a run of
`python -m benchmarks zoo`, which compares results before it takes times. Weights are random,
architectures those of torchvision, transformers and others, some of them smaller than the published
ones. A row is a call; "inputs 0, 1, .." are calls of other sizes of one model, and models with
state are all their calls after a reset.

A ratio above 1: uncork is faster. Of these {count} calls {faster} are; the geometric mean is
**{mean:.2f}**, the smallest {worst:.2f}.

![Bars: how many times as fast as OpenVINO each network is](models.svg)

"""
_HEADING = "\n## In bf16"
BF16 = (
    _HEADING
    + """

Beside OpenVINO's default, which is bf16 where a processor has its instructions, and both in f32:
{machine}, {date}, one thread, milliseconds of a call. The ratio is
OpenVINO's default / uncork in bf16. Errors are the root mean square of the difference from
OpenVINO's f32, over that of its result. Written from a run of `python -m benchmarks precision`
([all columns](../benchmarks/results/precision.md)); [when bf16 is safe](precision.md). Rows with an
error alone were computed by the emulator of AVX512-BF16 that the tests have, on a processor without
it: there is no time to tell, and OpenVINO's default is f32 there. Their weights are trained, and
their inputs real (both of gpt2 random).

"""
)
#: The date and the processor of a page of results.
_MEASURED = re.compile(r"^(\d{4}-\d{2}-\d{2}) [^.]*\. (.*?), \d+ cores", re.MULTILINE)
TAIL = """
What is slower, and why, is in [misses](../benchmarks/results/misses.md); single layers are in
[kernels](../benchmarks/results/kernels.md). To see where the time of your own model goes:
`uncork bench model.xml --profile`.
"""


def page(data: Mapping[str, Any]) -> str:
    """The page of a run."""
    rows: list[str] = []
    ratios: list[float] = []
    for case in sorted(data["cases"], key=lambda case: str(case["name"])):
        found = Outcome.from_dict(case).cheapest_times("openvino")
        if found is None:
            continue
        theirs, ours = found
        ratios.append(theirs / ours)
        rows.append(
            f"| {case['name']} | {_shapes(case['about'])} | {theirs / 1e3:.2f} | "
            f"{ours / 1e3:.2f} | {theirs / ours:.2f} |"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    machine = data["machine"]
    said = {
        "openvino": machine["versions"]["openvino"],
        "machine": machine["cpu"],
        "date": machine["date"][:10],
    }
    numbers = {
        "count": len(ratios),
        "faster": sum(ratio > 1 for ratio in ratios),
        "mean": mean,
        "worst": min(ratios),
    }
    head = HEAD.format(**said, **numbers)
    table = [
        "| network | inputs | OpenVINO ms | uncork ms | ratio |",
        "|---|---|--:|--:|--:|",
        *rows,
    ]
    return head + "\n".join(table) + "\n" + _in_bf16() + TAIL


def _in_bf16() -> str:
    """The section on bf16, from what lies in the project."""
    emulated = json.loads(EMULATED.read_text(encoding="utf-8"))["errors"]
    return in_bf16(PRECISION.read_text(encoding="utf-8"), emulated)


def in_bf16(results: str, emulated: Mapping[str, str]) -> str:
    """The section on bf16, from the page of results of `python -m benchmarks precision`, and from
    errors without times.
    """
    date, machine = _MEASURED.findall(results)[0]
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in results.splitlines()
        if line.startswith("|")
    )
    times = ["openvino f32, ms", "openvino default, ms", "uncork f32, ms", "uncork bf16, ms"]
    errors = ["error, openvino default", "error, uncork bf16"]
    titles = [
        "network",
        *(title.removesuffix(", ms").replace("openvino", "OpenVINO") for title in times),
        "ratio",
        *(title.replace("openvino", "OpenVINO") for title in errors),
    ]
    table = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    for row in rows:
        found = dict(zip(head, row, strict=True))
        least = [found[title].split()[0] for title in times]
        cells = [found["network"], *least, found["default / bf16"], *(found[e] for e in errors)]
        table.append("| " + " | ".join(cells) + " |")
    for name, error in sorted(emulated.items()):
        table.append(f"| {name} |" + " -- |" * (len(titles) - 2) + f" {error} |")
    return BF16.format(machine=machine, date=date) + "\n".join(table) + "\n"


def _shapes(about: Mapping[str, Any]) -> str:
    if "calls" in about:
        return f"{about['calls']} calls"
    return ", ".join(
        f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in about["inputs"]
    )


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    if list(arguments) == ["--bf16"]:
        before, _, _ = PAGE.read_text(encoding="utf-8").removesuffix(TAIL).partition(_HEADING)
        PAGE.write_text(before + _in_bf16() + TAIL, encoding="utf-8")
        print(f"written: what {PAGE} says of bf16")
        return 0
    source = Path(arguments[0]) if arguments else RESULTS
    PAGE.write_text(page(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
    models_figure.write()
    print(f"written: {PAGE}, its figure, and what the README says of it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
