"""Bodies that run as a part of a segment: the plan of a body that can, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from uncork.compiler.bodies import KernelBody
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.working_memory import room_bytes, take
from uncork.concurrency import part_of_work
from uncork.errors import UncorkError
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.segment_plan import StepBody
from uncork.kernels.runtime.turns import TurnPlan, TurnTable
from uncork.types import TensorSpec

#: What a step of bodies costs at least, in nanoseconds.
COST = 500


def native_plan(
    body: KernelBody,
    shapes: Mapping[int, Sequence[int | None]],
    fits: Callable[[CallPlan], bool],
) -> CallPlan | None:
    """The plan of a body for Parameters of such shapes, by number, as a part of a segment; None
    where it has none that is native segments only, or a call has shown that it needs several.
    """
    if not body.may_be_step or body.executor is None:
        return None
    try:
        with part_of_work():
            plans = body.executor.plans_for(shapes)
    except UncorkError:  # the sizes do not go together: the call will tell
        return None
    return next((plan for plan in plans if _is_native(plan) and fits(plan)), None)


def _is_native(plan: CallPlan) -> bool:
    return bool(plan.segments) and not has_unfit_body(plan)


def has_unfit_body(plan: CallPlan) -> bool:
    """Whether a call has shown that a body in the plan cannot be part of a segment."""
    return any(body.is_unfit for segment in plan.segment_plans for body in segment.bodies)


def step_body(body: KernelBody, plan: CallPlan, turns: TurnPlan) -> StepBody:
    """A body as steps run it, by a plan, in turns like these."""
    segments = [part.segment for part in plan.segments]
    return StepBody(partial(_table, plan, turns), body.refuse_steps, segments)


def _table(plan: CallPlan, turns: TurnPlan, working_bytes: int) -> TurnTable:
    context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
    if working_bytes:
        take(plan, context, working_bytes)
    rooms = room_bytes(plan) // max(1, turns.rooms)
    return TurnTable(
        [part.segment for part in plan.segments], turns, context, keep=plan, room_bytes=rooms
    )


def takes(plan: CallPlan, number: int, spec: TensorSpec) -> bool:
    """Whether a Parameter, by number, takes tensors of this type and rank."""
    guard = plan.array_guards[number]
    return spec.element_type.dtype == guard.dtype and spec.rank == len(guard.shape)


def known_cost(plan: CallPlan) -> int:
    """Nanoseconds of a run, as far as they are known before any."""
    costs = [part.segment.cost for part in plan.segments]
    return sum(plan.slots[cost.index] for cost in costs if cost is not None)
