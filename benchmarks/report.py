"""Results on disk: JSON with everything, and a page with the tables; to be read without this
program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import machine
from benchmarks.cases import Outcome, summarise
from benchmarks.goals import GOALS, ORDINARY_TINY, PRECISIONS, Goal, verdict
from benchmarks.options import Options


class Report:
    """The files of one command: `name.json`, `name.md`, and `name.png` by whoever plots."""

    def __init__(self, name: str, options: Options) -> None:
        self.name = (
            name
            + ("-quick" if options.quick else "")
            + (f"-{options.threads}-threads" if options.threads > 1 else "")
        )
        self.options = options
        options.out.mkdir(parents=True, exist_ok=True)

    def write(self, data: Mapping[str, Any], page: str) -> None:
        """Both files; each is whole at any time."""
        described = machine.describe(self.options.threads)
        text = f"# {self.name}\n\n{machine.in_words(described)}\n\n{page}\n"
        self._replace(
            "json",
            json.dumps(
                {"machine": described, "quick": self.options.quick, **data},
                indent=1,
                allow_nan=False,
            )
            + "\n",
        )
        self._replace("md", text)

    def say(self) -> None:
        """Print the page, and where it lies."""
        page = self.options.out / f"{self.name}.md"
        print(page.read_text(encoding="utf-8"))
        print(f"written: {page}, {self.name}.json")

    def _replace(self, suffix: str, text: str) -> None:
        path = self.options.out / f"{self.name}.{suffix}"
        scratch = path.with_suffix(f".{suffix}.new")
        scratch.write_text(text, encoding="utf-8")
        os.replace(scratch, path)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in plain text too; all columns but the first stand to the
    right.
    """
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return (
            "| "
            + " | ".join(
                cell.rjust(w) if column else cell.ljust(w)
                for column, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            + " |"
        )

    rule = (
        "|"
        + "|".join(
            (":" if not column else "-") + "-" * w + (":" if column else "-")
            for column, w in enumerate(widths)
        )
        + "|"
    )
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def number(value: float | None) -> str:
    """A time or a ratio, to three digits."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def outcomes_page(outcomes: Sequence[Outcome]) -> str:
    """Groups against their goals, then every case, then what was left out."""
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    parts = [
        "Ratios are time of the peer / ours: above 1, uncork is faster. Every group: geometric "
        "mean over its cases, worst case.\n"
        "`best path`: the cheapest way to call either (arrays bound before, or results made "
        "anew: like with like). `ordinary`: the call that\n"
        "users write. `limit`: the time of a native loop that does the least the work needs / "
        "ours.",
        _groups(groups, outcomes),
        *(f"## {group}\n\n{_cases([o for o in outcomes if o.group == group])}" for group in groups),
        _left_out(outcomes),
    ]
    return "\n\n".join(part for part in parts if part)


def _groups(groups: Sequence[str], outcomes: Sequence[Outcome]) -> str:
    head = [
        "group",
        "cases",
        "OpenVINO, best path",
        "worst",
        "best peer",
        "worst",
        "by medians",
        "OpenVINO, ordinary",
        "worst",
        "limit",
        "worst",
    ]
    rows: list[list[str]] = []
    for group in groups:
        mine = [o for o in outcomes if o.group == group]
        goal = GOALS.get(group, Goal())
        openvino, peer = (
            summarise(o.cheapest("openvino") for o in mine),
            summarise(o.cheapest() for o in mine),
        )
        medians, ordinary = (
            summarise(o.cheapest(statistic="median") for o in mine),
            summarise(o.ordinary("openvino") for o in mine),
        )
        limit = summarise(o.to_limit() for o in mine)
        row = [group, str(len(mine))]
        row += [
            verdict(openvino and openvino[0], goal.openvino),
            verdict(openvino and openvino[1], goal.worst if not goal.best_peer else None),
        ]
        row += [
            verdict(peer and peer[0], goal.best_peer),
            verdict(peer and peer[1], goal.worst if goal.best_peer else None),
        ]
        row += [verdict(medians and medians[0], None)]
        row += [
            verdict(ordinary and ordinary[0], goal.ordinary),
            verdict(ordinary and ordinary[1], None),
        ]
        row += [verdict(limit and limit[0], goal.limit), verdict(limit and limit[1], None)]
        rows.append(row)
    lines = [markdown_table(head, rows)]
    tiny = summarise(o.ordinary("openvino") for o in outcomes if o.about.get("tiny"))
    if tiny:
        lines.append(
            f"Tiny cases, ordinary call against OpenVINO's: {verdict(tiny[0], ORDINARY_TINY)}, "
            f"worst {verdict(tiny[1], ORDINARY_TINY)}."
        )
    for (group, precision), wanted in PRECISIONS.items():
        against = "f32" if precision == "bf16x3" else "bf16"
        found = summarise(
            o.cheapest("openvino", precision=precision, against=against)
            for o in outcomes
            if o.group == group
        )
        if found:
            lines.append(
                f"{group}, {precision} against OpenVINO in {against}: "
                f"{verdict(found[0], wanted)}, worst {found[1]:.2f}."
            )
    return "\n\n".join(lines)


def _cases(outcomes: Sequence[Outcome]) -> str:
    names = list(
        dict.fromkeys((t.system != "uncork", t.contender) for o in outcomes for t in o.times)
    )
    contenders = [name for _, name in sorted(names, key=lambda pair: pair[0])]
    head = [
        "case, us: minimum / median",
        *contenders,
        "OpenVINO/ours",
        "best peer/ours",
        "ordinary",
        "limit",
    ]
    rows = []
    for outcome in outcomes:
        times = {t.contender: f"{number(t.min_us)} / {number(t.median_us)}" for t in outcome.times}
        row = [outcome.name, *(times.get(name, "-") for name in contenders)]
        row += map(
            number,
            (
                outcome.cheapest("openvino"),
                outcome.cheapest(),
                outcome.ordinary("openvino"),
                outcome.to_limit(),
            ),
        )
        rows.append(row)
    return markdown_table(head, rows)


def _left_out(outcomes: Sequence[Outcome]) -> str:
    """What was not measured, and why; cases with the same reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for contender, reason in outcome.left_out.items():
            reasons.setdefault((contender, reason), []).append(outcome.full_name)
    if not reasons:
        return ""
    lines = [
        f"- {contender}: {reason} "
        f"({', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''})"
        for (contender, reason), names in reasons.items()
    ]
    return "## Left out\n\n" + "\n".join(lines)
