"""The working memory of a call: its limit, and the layer that needs most."""

from __future__ import annotations

from functools import partial

from uncork.compiler.call_plan import CallPlan
from uncork.kernels.runtime.context import Context
from uncork.memory import allowed, available, needs_most


def grow(plan: CallPlan, context: Context, into: Context | None = None) -> None:
    """Take the working memory that a context needs for the sizes bound to it; `into` is another
    context that takes it instead.

    Raises MemoryError when that is more than the plan allows, or more than there is.
    """
    needed = context.get("needed")
    (into or context).grow(
        needed, allowed(needed, plan.memory_limit, partial(_largest, plan, context))
    )


def take(plan: CallPlan, context: Context, needed: int) -> None:
    """Take so many bytes for a context to which no sizes are bound yet. Raises MemoryError like
    `grow`.
    """
    context.grow(needed, allowed(needed, plan.memory_limit))


def room_bytes(plan: CallPlan) -> int:
    """The most bytes that may be taken for what a call of the plan gives while nobody knows how
    much that will be; it is copied from there.
    """
    limit = available()[0] // 2
    return limit if plan.memory_limit is None else min(limit, plan.memory_limit)


def _largest(plan: CallPlan, context: Context) -> str:
    """The layer that needs the most working memory, in words for the message."""
    return needs_most(
        (plan.buffer_layers[buffer.buffer], context.value(buffer.bytes))
        for segment in plan.segment_plans
        for buffer in segment.buffers
    )
