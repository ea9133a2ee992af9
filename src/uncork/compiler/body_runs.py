"""Runs of layers with bodies: a loop's turns run natively where its body is one native segment."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from uncork.compiler.bodies import KernelBody
from uncork.compiler.call_plan import BodyRun, CallPlan
from uncork.compiler.loop_call import InputParts, LoopCall, sliced_inputs, turn_plan
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.turns import prepare_turns
from uncork.ops._operation import Operation
from uncork.ops._turns import Turns
from uncork.ops.branch import If8
from uncork.ops.iteration import Iteration
from uncork.types import Array

#: Plans of a body for which memory is kept.
_MOST = 16


def body_run(operation: Operation | None) -> BodyRun | None:
    """The run that takes the place of a layer's reference; None where it has no bodies that run by
    kernels.
    """
    if isinstance(operation, If8):
        branches = [branch.body for branch in operation.bodies.values()]
        return BranchRun(operation) if all(isinstance(b, KernelBody) for b in branches) else None
    if isinstance(operation, Iteration) and isinstance(operation.map.body, KernelBody):
        return LoopRun(operation, operation.map.body)
    return None


class BranchRun:
    """The run of an If. Each branch checks the sizes of its own inputs."""

    working_bytes = 0

    def __init__(self, operation: If8) -> None:
        self._operation = operation

    def prepare(self, target: Target) -> None:
        """Do nothing: the bodies have kernels of their own."""

    def evaluate(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """The outputs of the branch that the condition says."""
        return self._operation.reference(*inputs)

    def release_memory(self) -> None:
        """Do nothing: the bodies have memory of their own."""


class LoopRun:
    """The run of a Loop or a TensorIterator. May be used from several threads, each in memory of
    its own.
    """

    def __init__(self, operation: Iteration, body: KernelBody) -> None:
        self._operation, self._body = operation, body
        self._idle: dict[CallPlan, list[LoopCall]] = {}
        #: Plans by which native code cannot make turns.
        self._unfit: set[CallPlan] = set()
        #: The plans of the body that have made the first turn of the last loop, and turns after it.
        self._first: CallPlan | None = None
        self._later: CallPlan | None = None

    def prepare(self, target: Target) -> None:
        """Have the functions that make turns compiled."""
        with suppress(CannotCompile):  # turn by turn, then
            prepare_turns(target)

    def evaluate(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """The outputs: turn by turn where no plan of the body makes several at once."""
        turns = self._operation.begin(inputs)
        slices: dict[int, InputParts] | None = None
        while turns.go_on():
            plans = self._plans(turns)
            if plans and slices is None:
                slices = sliced_inputs(turns)
            if not any(self._advance(plan, turns, slices or {}) for plan in plans):
                turns.make(self._body)
        return turns.outputs()

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now, apart from that of running calls."""
        kept = [call for calls in list(self._idle.values()) for call in tuple(calls)]
        return sum(call.table.working_bytes for call in kept)

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until they end."""
        self._idle = {}

    def _plans(self, turns: Turns) -> list[CallPlan]:
        """Plans that may make the next turns natively, the likely one first; none before any
        call.
        """
        executor = self._body.executor
        plans = [] if executor is None else executor.call_plans()
        known = [plan for plan in plans if plan.segments and plan not in self._unfit]
        likely = self._later if turns.turn else self._first
        return sorted(known, key=lambda plan: plan is not likely)

    def _advance(self, plan: CallPlan, turns: Turns, slices: dict[int, InputParts]) -> bool:
        """Make turns by this plan; whether any were made."""
        idle = self._idle.setdefault(plan, [])
        try:
            call = idle.pop()  # one step, also for threads and forks: there is no lock
        except IndexError:
            made = self._made(plan)
            if made is None:
                return False
            call = made
        before = turns.turn
        call.advance(turns, slices)
        while call.declined and call.table.bodies_lack_memory():
            call = LoopCall(plan, call.how)  # whose bodies have it
            call.advance(turns, slices)
        if call.declined and call.table.bodies_misfit():
            self._unfit.add(plan)  # the body makes another one
        idle.append(call)
        if turns.turn == before:
            return False
        if before == 0:
            self._first = plan
        if before or turns.turn > 1:
            self._later = plan
        return True

    def _made(self, plan: CallPlan) -> LoopCall | None:
        """A new `LoopCall` of a plan, with memory of its own; None where native code cannot make
        its turns.
        """
        if len(self._idle) > _MOST:  # plans that the body has no more
            self._idle, self._unfit = {plan: []}, set()
        turns = turn_plan(self._operation.map, plan)
        try:
            if turns is not None:
                return LoopCall(plan, turns)
        except CannotCompile:
            pass  # turn by turn, then
        self._unfit.add(plan)
        return None
