"""Calls models whose inputs were opened at random (see `opened`) by both backends, in a process
that may be killed. See `worker` for the protocol.

Each job is {"seed": text, "empty": truth}. Every step of the plans is shared by threads, and all
arrays lie between pages that nobody may touch: whoever reads or writes beside them ends the
process.
"""

from __future__ import annotations

import random
from typing import Any

import uncork
from tests.fuzz.graph_worker import Answered, described, difference
from tests.fuzz.graphs import Array
from tests.fuzz.opened import case
from tests.fuzz.worker import serve
from tests.kernels._fences import Fenced
from uncork.compiler import shared_work


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Call the model of the seed by both backends; all calls must agree."""
    made = case(job["seed"], empty=job.get("empty", False))
    if made is None:
        return {"outcome": "no model", "detail": ""}
    text = described(made)
    shared_work.SPLIT_COST = -1  # nothing is too small to be shared
    threads = random.Random(job["seed"]).choice((1, 2, 3, 5))
    slow = uncork.compile_model(made.model, backend="reference")
    fast = uncork.compile_model(made.model, threads=threads)
    answered = Answered(fast)
    refused = of_nothing = 0
    for number, inputs in enumerate(made.calls):
        wanted = answer(slow, inputs)
        refused += isinstance(wanted, str)
        of_nothing += not isinstance(wanted, str) and any(array.size == 0 for array in inputs)
        got = answer(fast, [fenced(array, number % 2 == 1) for array in inputs])
        if found := difference(wanted, got):
            return {"outcome": "differs", "detail": f"call {number}: {found}", "traceback": text}
    return {
        "outcome": "ran",
        "detail": "",
        "calls": len(made.calls),
        "refused": refused,
        "of nothing": of_nothing,
        "planned": len(made.calls) - answered.not_planned,
    }


def answer(compiled: uncork.CompiledModel, inputs: list[Array]) -> list[Array] | str:
    """The results of a call, or the words in which it was refused."""
    try:
        return list(compiled(*inputs))
    except uncork.UncorkError as error:
        return f"{type(error).__name__}: {error}"


def fenced(array: Array, first: bool) -> Array:
    """A copy that nobody may write to, at the end or at the beginning of its pages."""
    room = Fenced(array.nbytes, first, array.itemsize)
    copy = room.bytes.view(array.dtype).reshape(array.shape)
    copy[...] = array
    room.only_read()
    return copy


if __name__ == "__main__":
    serve(attempt)
