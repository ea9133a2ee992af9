"""A plan that is one native segment, called without anything around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uncork.compiler.call_plan import CallPlan, NativeStep, Stop
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import BUSY, NO_MEMORY
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import MadeResult
from uncork.types import Array

#: Calls that take longer than this many nanoseconds let other Python threads run meanwhile; for shorter ones handing over costs more.
RELEASE_COST = 50_000.0


class NativeCall:
    """Calls of a plan that is one segment. May be used from several threads, each in memory of its own."""

    def __init__(self, plan: CallPlan) -> None:
        assert plan.is_native
        self.plan = plan
        self.release_memory()

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until they end."""
        #: One for each call at a time that there has been.
        self._segments = [self._made()]
        #: Safe to call with anything: it gives a list of new results, or a number, with which `again` is asked.
        self.run: Callable[..., Any] = self._segments[0][0].run

    def call(self, inputs: Sequence[Array]) -> list[Array] | Stop:
        """The results, or why there are none."""
        found = self._finish(self.run(*inputs), inputs)
        return Stop(found) if isinstance(found, int) else found

    def again(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """What comes of a call for which `run` gave a number; None when this plan does not make it."""
        result = self._finish(found, inputs)
        return None if isinstance(result, int) else result

    def _finish(self, found: list[Array] | int, inputs: Sequence[Any]) -> list[Array] | int:
        """The outcome of a call that met a segment at work, or too little memory."""
        segments, at = self._segments, 0
        while type(found) is not list and found in (BUSY, NO_MEMORY):
            if found == NO_MEMORY:  # new memory comes with a new segment: another thread may be at work in the old one
                segments[at] = self._made(segments[at][1].get("needed"))
                if at == 0:
                    self.run = segments[0][0].run
            else:
                at += 1
                if at == len(segments):
                    segments.append(self._made())
            found = segments[at][0].run(*inputs)
        return found

    def _made(self, needed: int = 0) -> tuple[Segment, Context]:
        plan = self.plan
        (part,) = plan.parts
        assert isinstance(part, NativeStep)
        context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        if needed:
            context.grow(needed)
        segment = Segment(
            part.segment,
            context,
            plan.buffers,
            likes=plan.likes,
            results=[MadeResult(result.dtype, result.sizes or ()) for result in plan.results],
            release_cost=RELEASE_COST,
            keep=plan,
        )
        return segment, context
