"""`python -m benchmarks ops`: the operations that this project is for, each alone."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from benchmarks import cases_embedding, cases_gather, cases_recurrent, plots
from benchmarks.cases import Case, Outcome, run
from benchmarks.options import Options
from benchmarks.report import Report, number, outcomes_page


def main(options: Options) -> int:
    """All cases that were asked for."""
    return run_cases(
        "ops", [*cases_embedding.cases(), *cases_gather.cases(), *cases_recurrent.cases()], options
    )


def run_cases(name: str, cases: Iterable[Case], options: Options) -> int:
    """Run cases one by one; what is done is on disk at any time. Returns the exit status."""
    chosen = [
        case
        for case in cases
        if options.wants(case.full_name) and (case.quick or not options.quick)
    ]
    if not chosen:
        print("no case has such a name")
        return 2
    report = Report(name, options)
    outcomes: list[Outcome] = []
    for position, case in enumerate(chosen, 1):
        gc.collect()  # the arrays and models of the case before
        outcome = run(case, options)
        outcomes.append(outcome)
        print(f"{position}/{len(chosen)} {_line(outcome)}", flush=True)
        if position % 10 == 0 or position == len(chosen):
            write(report, outcomes)
    report.say()
    wrong = [o.full_name for o in outcomes if o.wrong]
    if wrong:
        print("uncork was wrong or failed on: " + "; ".join(wrong))
    return 1 if wrong else 0


def write(report: Report, outcomes: Sequence[Outcome]) -> None:
    """The files of a report over cases, the groups in the order of their first case."""
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    ordered = sorted(outcomes, key=lambda outcome: groups.index(outcome.group))
    report.write({"cases": [outcome.to_dict() for outcome in ordered]}, outcomes_page(ordered))
    plots.ratios(ordered, report.name, report.options.out / f"{report.name}.png")


def _line(outcome: Outcome) -> str:
    found = {
        "best path us": outcome.ours("preset"),
        "call us": outcome.ours("call"),
        "openvino/ours": outcome.cheapest("openvino"),
        "best peer/ours": outcome.cheapest(),
        "ordinary": outcome.ordinary("openvino"),
        "limit": outcome.to_limit(),
    }
    wrong = "".join(
        f"  {name}: {reason}"
        for name, reason in outcome.left_out.items()
        if outcome.wrong and name.startswith("uncork")
    )
    return (
        f"{outcome.full_name}  "
        + "  ".join(f"{name} {number(value)}" for name, value in found.items() if value is not None)
        + wrong
    )
