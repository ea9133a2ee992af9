"""The numbers by which the compiler decides: how many plans there are, and from which cost on
something pays.

Printed with each plan.
"""

from __future__ import annotations

#: Plans of one scope that are kept, for the ways in which guards fail: six questions may be
#: answered in 64 ways, and models have few more. The one used longest ago goes.
MOST_PLANS = 64
#: Kinds of calls that have plans of their own, besides those for every size. When there are so many
#: a further kind has one from its second call on, and the one used longest ago goes.
MOST_SCOPES = 64
#: Plans that are made for one call: a guard on what its steps find shows only when they have run.
MOST_TRIES = 8
#: Good calls that no plan could be made for, before a scope counts as one that has none.
MOST_FAILURES = 4
#: Plans of one model that a compiled file has, for the ways in which guards on its inputs fail.
MOST_SAVED_PLANS = 8
#: To have such a guard fail, these sizes are tried in all combinations, of so many inputs at most,
#: until so many calls have turned out to be none.
TRIED_SIZES, MOST_TRIED_SIZES, MOST_TRIED_VAINLY = (1, 2, 3, 7, 64), 4, 2
#: Work that may take longer than this many nanoseconds (in memory, on a slow machine) is shared by
#: threads. One that looks for work takes it at once, and threads do so for a while after each step
#: of a network; to wake one takes up to 100 microseconds, in which whoever waits does the work
#: himself, call by call. Measured by `python -m benchmarks gain`; a lone small step that finds the
#: other thread asleep loses 2 to 3 microseconds.
SPLIT_COST = 30_000
#: Calls that take longer than this many nanoseconds let other Python threads run meanwhile; for
#: shorter ones handing over costs more.
RELEASE_COST = 50_000.0
#: Calls that take less than this many nanoseconds do not look whether files are whole: a look takes
#: a tenth of that.
LOOK_COST = 4_000


def described() -> tuple[str, ...]:
    """The numbers in words, for the printed plan."""
    return (
        f"plans: {MOST_PLANS} for sizes that break guards, {MOST_SCOPES} more kinds of calls "
        "where kernels "
        f"need sizes as numbers, of both those used last, {MOST_TRIES} tries in a call, "
        f"{MOST_FAILURES} good calls without one",
        f"costs: steps of {SPLIT_COST / 1e6:g} ms are shared by threads, calls of "
        f"{RELEASE_COST / 1e3:g} us "
        f"let other threads run, those of {LOOK_COST / 1e3:g} us look whether files are whole",
    )
