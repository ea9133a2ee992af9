"""A plan that is one native segment, called without anything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.compiler.call_plan import CallPlan, NativeStep, Stop
from uncork.compiler.policy import RELEASE_COST
from uncork.compiler.working_memory import grow
from uncork.concurrency import WorkLock, renews_locks
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import BUSY, GUARD_FAILED, NO_MEMORY, OK
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArrayGuard, IdentityGuard, MadeResult
from uncork.types import Array


class NativeCall:
    """Calls of a plan that is one segment. May be used from several threads, each in memory of its
    own.
    """

    #: Safe to call with anything: it gives a list of new results, or a number, with which `retry`
    #: is asked.
    run: Callable[..., Any]

    def __init__(
        self,
        plan: CallPlan,
        arguments: Sequence[ArrayGuard | IdentityGuard] = (),
        positions: Sequence[int] = (),
        known: Mapping[int, Array] | None = None,
    ) -> None:
        """With `arguments` it is called with these, among which the inputs have these `positions`,
        and results too if they are given.

        `known` are arrays that inputs always are, by number of the input. Raises CannotBeKnown.
        """
        assert plan.is_native
        self._known = dict(known or {})
        self.plan = plan
        self._arguments = arguments or plan.array_guards
        self._positions = positions or range(len(plan.array_guards))
        self.renew_locks()
        renews_locks(self)
        self.release_memory()

    def renew_locks(self) -> None:
        """Make the lock of growing memory: at the start, and in a child process."""
        self._growth = WorkLock()

    def embedded(
        self,
        arguments: Sequence[ArrayGuard | IdentityGuard],
        positions: Sequence[int],
        known: Mapping[int, Array] | None = None,
    ) -> NativeCall:
        """This call in memory of its own, whose inputs are at these positions among other
        arguments.

        Inputs that are `known`, by their numbers, are always these arrays, whatever is given in
        their positions. Raises CannotBeKnown where the plan has to read them at each call.
        """
        return NativeCall(self.plan, arguments, positions, known)

    def bound(self, inputs: Sequence[Array]) -> NativeCall | None:
        """This call for arrays of just these shapes and results that are given; None where their
        sizes are values, or bodies run, which ask for memory as they do.
        """
        (part,) = self.plan.parts
        assert isinstance(part, NativeStep)
        if part.segment.runs_bodies or any(bind.element for bind in part.segment.binds):
            return None
        fixed = [
            replace(array_guard, shape=array.shape)
            for array_guard, array in zip(self.plan.array_guards, inputs, strict=True)
        ]
        results = self.results(inputs)
        if results is None:
            return None
        written = [
            ArrayGuard(result.dtype, array.shape, written=True)
            for result, array in zip(self.plan.results, results, strict=True)
        ]
        call = NativeCall(self.plan, (*fixed, *written), range(len(fixed) + len(written)))
        call.grow((*inputs, *results))
        return call

    def grow(self, arguments: Sequence[Array]) -> None:
        """Take the working memory that a call of these arguments needs, since nobody calls `retry`
        for a bound call.
        """
        segment, context = self._segments[0]
        if segment.bind(arguments) == NO_MEMORY:
            self._segments[0] = self._made(context)
            self.run = self._segments[0][0].run

    def results(self, inputs: Sequence[Array]) -> list[Array] | None:
        """New arrays for the results of such inputs; None where the plan does not take them."""
        segment, context = self._made()
        status = segment.bind(inputs)
        if status == NO_MEMORY:
            grow(self.plan, context)
            status = segment.bind(inputs)
        if status != OK:
            return None
        return [
            np.empty([context.value(size) for size in result.sizes or ()], result.dtype)
            for result in self.plan.results
        ]

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until they end."""
        (part,) = self.plan.parts
        assert isinstance(part, NativeStep)
        part.segment.forget_memory()
        #: One for each call at a time that there has been.
        self._segments = [self._made()]
        self.run = self._segments[0][0].run

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return sum(
            context.memory.nbytes + segment.working_bytes for segment, context in self._segments
        )

    def call(self, inputs: Sequence[Array]) -> list[Array] | Stop:
        """The results, or why there are none."""
        found = self._finish(self.run(*inputs), inputs)
        return Stop(found) if isinstance(found, int) else found

    def retry(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """The outcome of a call for which `run` gave a number; None when this plan does not make
        it.
        """
        result = self._finish(found, inputs)
        return None if isinstance(result, int) else result

    def _finish(self, found: list[Array] | int, inputs: Sequence[Any]) -> list[Array] | int:
        """The results of a call that met a segment at work, or too little memory: it is made again.
        A number where this plan does not make it.
        """
        segments, at = self._segments, 0
        while isinstance(found, int):
            if found == NO_MEMORY:
                self._grow(segments, at)
            elif found >= 0 and segments[at][0].lacks_memory():
                self._replace(segments, at)
            elif found >= 0 and segments[at][0].misfits():
                return GUARD_FAILED
            elif found == BUSY:
                at += 1
                if at == len(segments):
                    segments.append(self._made())
            else:
                break
            found = segments[at][0].run(*inputs)
        return found

    def _grow(self, segments: list[tuple[Segment, Context]], at: int) -> None:
        """Give a segment the working memory for the sizes that its context has."""
        with self._growth.held() as alone:
            segment, context = segments[at]
            if context.get("needed") <= context.get("capacity"):
                return  # another thread has had it grow meanwhile
            if alone and segment.shut_out():
                grow(self.plan, context)
            else:
                # Another call is at work in it, and goes on with the memory there is.
                self._replace(segments, at)

    def _replace(self, segments: list[tuple[Segment, Context]], at: int) -> None:
        """Put a new segment with more memory in the place of one."""
        segments[at] = self._made(segments[at][1])
        if at == 0 and segments is self._segments:
            self.run = segments[0][0].run

    def _made(self, bound: Context | None = None) -> tuple[Segment, Context]:
        """A new segment and its context, with memory of its own: as much as the sizes need that the
        context `bound` has.
        """
        plan = self.plan
        (part,) = plan.parts
        assert isinstance(part, NativeStep)
        own, numbers = part.segment.with_known(self._known)
        context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        for slot, number in numbers:
            context.set_symbol(slot, number)
        if bound is not None:
            grow(plan, bound, context)
        given = len(self._positions) - len(plan.array_guards)
        ends = range(len(self._arguments), len(self._arguments) + len(plan.results) - given)
        segment = Segment(
            own.with_arguments(dict(enumerate((*self._positions, *ends)))),
            context,
            plan.buffers,
            array_guards=self._arguments,
            results=[
                MadeResult(result.dtype, result.sizes or ()) for result in plan.results[given:]
            ],
            release_cost=RELEASE_COST,
            keep=(plan, self._known),
        )
        return segment, context
