"""Writes docs/models.md from a run of `python -m benchmarks zoo`: `python -m tools.models_page
[zoo.json]`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import Outcome

from tools import models_figure

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "models.md"
RESULTS = ROOT / "benchmarks" / "results" / "zoo.json"
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
    return head + "\n".join(table) + "\n" + TAIL


def _shapes(about: Mapping[str, Any]) -> str:
    if "calls" in about:
        return f"{about['calls']} calls"
    return ", ".join(
        f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in about["inputs"]
    )


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    source = Path(arguments[0]) if arguments else RESULTS
    PAGE.write_text(page(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
    models_figure.write()
    print(f"written: {PAGE}, its figure, and what the README says of it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
