"""Makes random graphs whose sizes are found as they run (see `graphs`) and calls each by both
backends, which must agree.

    python -m tests.fuzz.run_graphs --count 5000 --seed 1
    python -m tests.fuzz.run_graphs --opened --count 5000 --seed 1

They agree when they give the same results or the same error. Everything else (another exception, a
warning, a crash, a hang, a write past memory where the C library looks) is a finding. Each case
depends on the seed and its number alone: `--only` repeats one and prints its graph.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence

from tests.fuzz.run import Report, Worker, heap_checks


def fuzz(
    seed: int | str,
    numbers: Sequence[int],
    *,
    seconds: float = 60,
    memory: int = 8 << 30,
    progress: bool = False,
    opened: bool = False,
    empty: bool = False,
) -> Report:
    """Try the numbered graphs. `outcomes` also counts the calls, and those that were refused,
    answered by plans, or answered with inputs of nothing. `opened`: models of known layers with
    open inputs, of which some axes may be `empty`.
    """
    report = Report()
    module = "tests.fuzz.opened_worker" if opened else "tests.fuzz.graph_worker"
    worker = Worker(memory, seconds, module)
    try:
        for number in numbers:
            answer = worker.run({"seed": f"{seed}:{number}", "empty": empty})
            if answer["outcome"] == "no model":
                report.outcomes["no model"] += 1
                continue
            report.outcomes["calls"] += answer.get("calls", 0)
            report.outcomes["calls refused"] += answer.get("refused", 0)
            report.outcomes["answers to nothing"] += answer.get("of nothing", 0)
            report.outcomes["calls by plans"] += answer.get("planned", 0)
            report.add(number, "graphs", answer, [], progress)
    finally:
        worker.close()
        worker.errors.close()
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first graph")
    parser.add_argument(
        "--states", action="store_true", help="graphs with variables that grow from call to call"
    )
    parser.add_argument(
        "--opened",
        action="store_true",
        help="known layers whose inputs are opened at random, called with sizes that agree and "
        "that contradict each other, every step shared, between pages that nobody may touch",
    )
    parser.add_argument("--empty", action="store_true", help="the same with empty axes")
    parser.add_argument("--only", type=int, help="try this graph and no other, and print it")
    options = parser.parse_args(arguments)
    numbers = (
        [options.only]
        if options.only is not None
        else range(options.start, options.start + options.count)
    )
    report = fuzz(
        f"states{options.seed}" if options.states else options.seed,
        numbers,
        progress=True,
        opened=options.opened or options.empty,
        empty=options.empty,
    )
    checked = "" if heap_checks() else ", without checks of the heap, which this C library lacks"
    print(f"{len(numbers)} graphs{checked}: {dict(report.outcomes)}")
    if options.only is not None and report.findings:
        print(report.findings[0].traceback)
    for kind, number in Counter(
        (f.outcome, f.place, re.sub(r"\d+", "#", f.detail)[:110]) for f in report.findings
    ).most_common():
        print(f"{number:6} {' '.join(kind)}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
