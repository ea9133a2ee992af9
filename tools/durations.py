"""`python -m tools.durations RESULTS.xml`: how long tests took, by folder, and which took too long.

RESULTS.xml is what `pytest --junit-xml RESULTS.xml` writes. A test that takes longer than the
budget fails the check: it is made smaller, or parted, before the whole check becomes slow.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator, Sequence

#: Seconds that one test may take on a machine that does other things, too.
BUDGET = 120.0


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a test took longer than the budget."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.durations", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("results", help="what pytest --junit-xml wrote")
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds ({BUDGET:.0f})")
    options = parser.parse_args(words)
    tests = list(durations(options.results))
    print("\n".join(by_folder(tests)))
    slow = sorted((seconds, name) for name, seconds in tests if seconds > options.budget)
    for seconds, name in reversed(slow):
        print(f"{name} took {seconds:.0f} s, more than the {options.budget:.0f} it may take")
    return 1 if slow else 0


def durations(path: str) -> Iterator[tuple[str, float]]:
    """Each test, as `tests.ops.test_every_op::test_sample[Abs-1]`, with its seconds."""
    for case in ElementTree.parse(path).iter("testcase"):
        yield f"{case.get('classname')}::{case.get('name')}", float(case.get("time", "0"))


def by_folder(tests: Sequence[tuple[str, float]]) -> list[str]:
    """A table of the folders of tests, the slowest first."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for name, taken in tests:
        module = name.partition("::")[0].split(".")
        folder = "/".join(module[:2]) if len(module) > 2 else module[0]
        seconds[folder] += taken
        counts[folder] += 1
    order = sorted(seconds, key=lambda folder: -seconds[folder])
    lines = [f"{folder:<20}{counts[folder]:>8} tests{seconds[folder]:>9.1f} s" for folder in order]
    return [*lines, f"{'all':<20}{len(tests):>8} tests{sum(seconds.values()):>9.1f} s"]


if __name__ == "__main__":
    sys.exit(main())
