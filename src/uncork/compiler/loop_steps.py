"""A Loop or a TensorIterator as a step of a segment: one plan of the body makes all iterations
("turns"). Its outputs have sizes that are known before it runs, or are joined of as many parts as
there are turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.compiler.bodies import KernelBody
from uncork.compiler.branch_steps import ShapeOf
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.loop_call import turn_plan
from uncork.compiler.loop_parts import Sizes, parts_of, taken_spec
from uncork.compiler.planned_parts import dimensions
from uncork.compiler.rooms import found_axes
from uncork.compiler.step_bodies import COST, known_cost, native_plan, step_body, takes
from uncork.errors import UncorkError
from uncork.kernels.extents import certainly
from uncork.kernels.runtime.segment_plan import StepBody
from uncork.kernels.runtime.turns import TurnPlan
from uncork.ops._body import JoinedOutput
from uncork.ops.iteration import Iteration
from uncork.symbolic import Symbol
from uncork.types import TensorSpec


class LoopBody(Struct, frozen=True):
    """The body of a loop with the plan that makes its turns.

    `sliced` and `stacked` of `turns` are the Parameters and Results whose parts lie in the tensors
    of the layer one behind the other; those of others are copied. Outputs that are `grown` have as
    many parts as the loop makes turns, which only the loop tells: the parts of each go to a room,
    and the output is made of them when the loop has ended.
    """

    operation: Iteration
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    plan: CallPlan
    turns: TurnPlan
    body: StepBody
    #: By result, the sizes of what a turn gives.
    results: tuple[Sizes, ...]
    grown: tuple[JoinedOutput, ...] = ()

    @property
    def cost(self) -> int:
        """The cost of a turn in nanoseconds, as far as it is known: how many turns there are is
        known to the loop only.
        """
        return COST + known_cost(self.plan)


def native_loop(
    operation: Iteration,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shape_of: ShapeOf,
    found: Sequence[Symbol],
) -> LoopBody | None:
    """The body of a loop as a step runs it; None where it has no plan that is native as a whole, or
    native code cannot know where its outputs go. `found` are the sizes that only the loop tells.
    """
    body = operation.map.body
    if not isinstance(body, KernelBody) or not all(map(_is_placed, (*inputs, *outputs))):
        return None
    grown = _grown(operation, outputs, found)
    results = _result_sizes(operation, inputs, outputs)
    if results is None or len(grown) != len(found):
        return None
    fed = operation.map.fed
    shapes = {e.parameter: shape_of(taken_spec(operation, e, inputs[e.port])) for e in fed}
    plan = native_plan(
        body,
        shapes,
        lambda plan: (
            all(takes(plan, e.parameter, inputs[e.port]) for e in fed)
            and _gives(operation, plan, outputs, results)
            and turn_plan(operation.map, plan) is not None
        ),
    )
    turns = None if plan is None else turn_plan(operation.map, plan)
    if plan is None or turns is None:
        return None
    turns = replace(
        turns,
        sliced=tuple(n for n in turns.sliced if _lies_apart(operation, n, inputs)),
        stacked=frozenset(
            n for n in turns.stacked if not grown and _is_direct(operation, n, outputs)
        ),
        rooms=len(grown),
    )
    return LoopBody(
        operation,
        tuple(inputs),
        tuple(outputs),
        plan,
        turns,
        step_body(body, plan, turns),
        results,
        grown,
    )


def _grown(
    operation: Iteration, outputs: Sequence[TensorSpec], found: Sequence[Symbol]
) -> tuple[JoinedOutput, ...]:
    """The outputs that are joined, where each has one of these sizes along its axis; else none."""
    axes, joined = found_axes(outputs, found) or {}, operation.map.joined
    along = (operation.axis(o.slicing, len(outputs[o.port].shape.dims)) for o in joined)
    fit = (list(axes.get(o.port, ())) == [axis] for o, axis in zip(joined, along, strict=True))
    return tuple(joined) if axes and all(fit) else ()


def _is_placed(spec: TensorSpec) -> bool:
    """Whether the sizes of a tensor are expressions, and its elements are of a type that native
    code reads.
    """
    return (
        spec.rank is not None
        and spec.element_type.dtype != object
        and all(dim.size is not None for dim in spec.shape.dims)
    )


def _gives(
    operation: Iteration, plan: CallPlan, outputs: Sequence[TensorSpec], results: Sequence[Sizes]
) -> bool:
    return (
        len(results) == len(plan.results)
        and all(
            len(result.sizes or ()) == len(sizes)
            for result, sizes in zip(plan.results, results, strict=True)
        )
        and all(
            outputs[o.port].element_type.dtype == plan.results[o.result].dtype
            for o in operation.map.given
        )
    )


def _result_sizes(
    operation: Iteration, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Sizes, ...] | None:
    """The sizes of what a turn gives, by result: those of the output that it goes to, or of the
    input that it replaces in the next turn. None where one has neither.
    """
    found: dict[int, Sizes] = {}
    for output in operation.map.given:
        sizes = list(dimensions(outputs[output.port]))
        if isinstance(output, JoinedOutput):
            axis = operation.axis(output.slicing, len(sizes))
            sizes[axis] = output.slicing.part_size
        if found.setdefault(output.result, tuple(sizes)) != tuple(sizes):
            return None
    ports = {e.parameter: e.port for e in operation.map.whole}
    for result, parameter in operation.map.back_edges:
        if parameter in ports:
            found.setdefault(result, dimensions(inputs[ports[parameter]]))
    condition = operation.map.condition
    if condition is not None and condition not in found:
        rank = _declared_rank(operation, condition)
        if rank is None:
            return None
        found[condition] = (1,) * rank
    count = operation.map.body.output_count
    return tuple(found[n] for n in range(count)) if set(found) == set(range(count)) else None


def _declared_rank(operation: Iteration, result: int) -> int | None:
    """The rank of a result as the body alone tells it; None where it does not."""
    body = operation.map.body
    try:
        return body.describe(body.input_specs)[result].rank
    except UncorkError:
        return None


def _lies_apart(operation: Iteration, parameter: int, inputs: Sequence[TensorSpec]) -> bool:
    """Whether the parts of a sliced input are contiguous, so that nobody has to copy them."""
    entry = next(e for e in operation.map.sliced if e.parameter == parameter)
    return certainly(parts_of(operation, entry.slicing, inputs[entry.port], False).runs, 1)


def _is_direct(operation: Iteration, result: int, outputs: Sequence[TensorSpec]) -> bool:
    """Whether turns write a result directly into the only output that is put together of it."""
    first, *others = (o for o in operation.map.joined if o.result == result)
    parts = parts_of(operation, first.slicing, outputs[first.port], True)
    return not others and parts.step > 0 and certainly(parts.runs, 1)
