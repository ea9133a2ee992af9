"""A plan that is one native segment, called without anything around it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from uncork.compiler.call_plan import CallPlan, Stop
from uncork.compiler.instances import Instances
from uncork.compiler.policy import RELEASE_COST
from uncork.compiler.working_memory import grow
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import ANSWER, NO_MEMORY, OK
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArrayGuard, IdentityGuard, MadeResult
from uncork.types import Array


class _SegmentInstance:
    """A segment with its context, as an instance of a plan."""

    def __init__(self, plan: CallPlan, segment: Segment, context: Context) -> None:
        self._plan, self.segment, self.context = plan, segment, context
        self.run = segment.run
        self.shut_out, self.misfits = segment.shut_out, segment.misfits
        self.bodies_lack_memory = segment.lacks_memory

    @property
    def lacks_memory(self) -> bool:
        return self.context.get("needed") > self.context.get("capacity")

    def grow(self) -> None:
        grow(self._plan, self.context)

    @property
    def working_bytes(self) -> int:
        return self.context.memory.nbytes + self.segment.working_bytes


class NativeCall(Instances[_SegmentInstance]):
    """Calls of a plan that is one segment. May be used from several threads, each in memory of its
    own.
    """

    def __init__(
        self,
        plan: CallPlan,
        arguments: Sequence[ArrayGuard | IdentityGuard] = (),
        positions: Sequence[int] = (),
        known: Mapping[int, Array] | None = None,
        way: int = 0,
    ) -> None:
        """With `arguments` it is called with these, among which the inputs have these `positions`,
        and results too if they are given.

        `known` are arrays that inputs always are, by number of the input. `way` is how to return,
        if not in a list: `ALONE`, `ANSWER`. Raises CannotBeKnown.
        """
        assert plan.is_native
        self._way = way
        self._known = dict(known or {})
        self.plan = plan
        self._arguments = arguments or plan.array_guards
        self._positions = positions or range(len(plan.array_guards))
        #: Bound calls that somebody has, by who shares them and the shapes of their inputs.
        self._bound: dict[tuple[object, ...], weakref.ref[NativeCall]] = {}
        super().__init__()
        self.release_memory()

    def embedded(
        self,
        arguments: Sequence[ArrayGuard | IdentityGuard],
        positions: Sequence[int],
        known: Mapping[int, Array] | None = None,
        way: int = 0,
    ) -> NativeCall:
        """This call in memory of its own, whose inputs are at these positions among other
        arguments.

        Inputs that are `known`, by their numbers, are always these arrays, whatever is given in
        their positions. Raises CannotBeKnown where the plan has to read them at each call.
        """
        return NativeCall(self.plan, arguments, positions, known, way)

    def bound(self, inputs: Sequence[Array], users: object = None) -> NativeCall | None:
        """This call for arrays of just these shapes and results that are given; None where their
        sizes are values, or bodies run, which ask for memory as they do.

        The same `users` get the same call for the same shapes: what it reads of its own stays in
        the caches when many arrays are bound, and each is called now and then.
        """
        key = (users, *[array.shape for array in inputs])
        known = self._bound.get(key)
        call = None if known is None else known()
        if call is None:
            call = self._new_bound(inputs)
            live = {own: one for own, one in self._bound.items() if one() is not None}
            self._bound = live if call is None else {**live, key: weakref.ref(call)}
        return call

    def _new_bound(self, inputs: Sequence[Array]) -> NativeCall | None:
        (segment,) = self.plan.segment_plans
        if segment.runs_bodies or any(bind.element for bind in segment.binds):
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
        arguments = (*fixed, *written)
        call = NativeCall(self.plan, arguments, range(len(arguments)), way=ANSWER)
        call.grow((*inputs, *results))
        return call

    def refuse(self) -> None:
        """Make no calls from now on."""
        self.segment.refuse()

    def grow(self, arguments: Sequence[Array]) -> None:
        """Take the working memory that a call of these arguments needs, since nobody calls `retry`
        for a bound call.
        """
        if self.segment.bind(arguments) == NO_MEMORY:
            self._replace(self._instances, 0)

    def results(self, inputs: Sequence[Array]) -> list[Array] | None:
        """New arrays for the results of such inputs; None where the plan does not take them."""
        made = self._made()
        status = made.segment.bind(inputs)
        if status == NO_MEMORY:
            made.grow()
            status = made.segment.bind(inputs)
        if status != OK:
            return None
        return [
            np.empty([made.context.value(size) for size in result.sizes or ()], result.dtype)
            for result in self.plan.results
        ]

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until they end."""
        self.plan.segment_plans[0].forget_memory()
        self._begin()

    @property
    def segment(self) -> Segment:
        """The segment that makes calls while no other call is under way."""
        return self._instances[0].segment

    def attempt(self, inputs: Sequence[Array]) -> list[Array] | Stop:
        """The results, or why there are none."""
        found = self.run(*inputs)
        if isinstance(found, int):  # why there are none yet
            found = self.finish(found, inputs)
        return Stop(found) if isinstance(found, int) else found

    def _made(self, like: _SegmentInstance | None = None) -> _SegmentInstance:
        plan = self.plan
        own, numbers = plan.segment_plans[0].with_known(self._known)
        context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        for slot, number in numbers:
            context.set_symbol(slot, number)
        if like is not None:
            grow(plan, like.context, context)
        given = len(self._positions) - len(plan.array_guards)
        ends = range(len(self._arguments), len(self._arguments) + len(plan.results) - given)
        segment = Segment(
            own.with_arguments(dict(enumerate((*self._positions, *ends)))),
            context,
            array_guards=self._arguments,
            results=[
                MadeResult(result.dtype, result.sizes or ()) for result in plan.results[given:]
            ],
            release_cost=RELEASE_COST,
            keep=(plan, self._known),
        )
        if self._way:
            segment.return_as(self._way)
        return _SegmentInstance(plan, segment, context)
