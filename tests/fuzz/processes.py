"""Threads, forks and interrupts at random moments, in many processes: each must end well.

    python -m tests.fuzz.processes --count 50 --seed 1

The suite runs a few of each (tests/processes); what a process does depends on the seed, and when,
on the machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.processes import test_cold_threads, test_forks, test_shared_steps
from tests.processes._children import run_child

#: Programs that print "well": they take a number that everything random in them depends on.
PROGRAMS = {
    "first calls of threads": test_cold_threads.FIRST_CALLS,
    "forks": test_forks.MODELS + test_forks.AT_RANDOM,
    "forks at a cold start": test_forks.MODELS + test_forks.COLD_START,
    "interrupts": test_shared_steps.INTERRUPTED,
}


def attempt(name: str, seed: int, seconds: float) -> str:
    """What went wrong; empty when nothing did."""
    with tempfile.TemporaryDirectory() as home:  # nothing is compiled yet
        try:
            done = run_child(PROGRAMS[name], seed, home=Path(home), timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"not done after {seconds} s"
    return (
        ""
        if done.stdout.strip() == "well"
        else f"exit {done.returncode}: {done.stdout.strip()[-300:]} {done.stderr.strip()[-600:]}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20, help="processes of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(PROGRAMS), help="this kind and no other")
    parser.add_argument(
        "--seconds", type=float, default=300, help="the time that one process may take"
    )
    options = parser.parse_args(arguments)
    found = 0
    for name in [options.only] if options.only else PROGRAMS:
        for seed in range(options.seed, options.seed + options.count):
            wrong = attempt(name, seed, options.seconds)
            found += bool(wrong)
            if wrong:
                print(f"{name}, seed {seed}: {wrong}", flush=True)
        print(f"{name}: {options.count} processes", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
