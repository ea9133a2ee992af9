"""The native function that runs one of two bodies, by a condition that a step has computed."""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, U8, Kernel
from uncork.kernels.runtime.branch_layout import BRANCH
from uncork.kernels.runtime.turns_layout import REACHED, TURNS_HEAD


def emit_branch() -> str:
    """The LLVM text of `i64 branch(i64 words)`: 0, or 1 where the body declines; see
    `branch_layout`.
    """
    k = Kernel("branch", ["words"], direct=True)
    (words,) = k.arguments
    turns, condition, then, then_count, other, other_count = (
        k.load(words + 8 * i, I64) for i in range(len(BRANCH))
    )
    taken = k.load(condition, U8).to(I64).equals(0).equals(0)
    body, count = k.select(taken, then, other), k.select(taken, then_count, other_count)
    first = words + 8 * len(BRANCH) + k.select(taken, k.integer(0), then_count * 16)
    with k.loop(0, count) as i:
        k.store(k.load(first + i * 16 + 8, I64), k.load(first + i * 16, I64))
    k.store(k.integer(0), body + 8 * TURNS_HEAD.index("turn"))
    k.store(k.integer(1), body + 8 * TURNS_HEAD.index("stop"))
    status = k.call_address(turns, [body])
    k.store(status, body + 8 * TURNS_HEAD.index("status"))
    k.finish(k.select(status.equals(REACHED), k.integer(0), k.integer(1)))
    return k.text()
