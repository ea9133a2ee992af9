"""An If as a step of a segment: one of two bodies runs natively, each by a plan of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from uncork.compiler.bodies import KernelBody
from uncork.compiler.call_plan import BranchTensor, CallPlan
from uncork.compiler.step_bodies import COST, known_cost, native_plan, step_body, takes
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.segment_plan import BodyAddress, KernelArgument, MadeResult, StepBody
from uncork.kernels.runtime.turns import TurnPlan, turns_function
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.types import TensorSpec

#: The sizes of a tensor as they are for calls like the one that is planned; None where open.
ShapeOf = Callable[[TensorSpec], Sequence["int | None"]]


@dataclass(frozen=True, slots=True)
class Branch:
    """A body with the plan that runs it."""

    map: BodyMap
    plan: CallPlan
    body: StepBody

    def pairs(
        self, inputs: Mapping[int, BranchTensor], outputs: Mapping[int, BranchTensor]
    ) -> list[KernelArgument]:
        """The words of the body's table that a step sets: addresses and values in turn; see
        `branch_layout`.
        """
        words: list[KernelArgument] = []
        for entry in self.map.inputs:
            assert entry.port is not None
            given, number = inputs[entry.port], entry.parameter
            words += BodyAddress(self.body, "parameter", number), given.address
            for axis, size in enumerate(given.sizes):
                words += BodyAddress(self.body, "size", number, axis), size
        for output in self.map.outputs:
            assert output.port is not None
            made, number = outputs[output.port], output.result
            words += BodyAddress(self.body, "result", number), made.address
            words += BodyAddress(self.body, "buffer", number), made.bytes
            for axis, size in enumerate(made.sizes):
                words += BodyAddress(self.body, "kept", number, axis), size
        return words


def native_branches(
    operation: SubGraphOperation,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shape_of: ShapeOf,
) -> tuple[Branch, ...] | None:
    """Both branches of an If, for inputs of shapes like these; None where one has no plan that is
    native as a whole.
    """
    branches = [
        _branch(operation.bodies[name], inputs, outputs, shape_of) for name in operation.body_names
    ]
    known = tuple(branch for branch in branches if branch is not None)
    return known if len(known) == len(branches) else None


def _branch(
    body: BodyMap, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], shape_of: ShapeOf
) -> Branch | None:
    if not isinstance(body.body, KernelBody):
        return None
    ports = {entry.parameter: entry.port for entry in body.inputs}
    shapes = {n: shape_of(inputs[port]) for n, port in ports.items() if port is not None}
    plan = native_plan(body.body, shapes, lambda plan: _fits(body, plan, inputs, outputs))
    if plan is None:
        return None
    results = tuple(MadeResult(result.dtype, result.sizes or ()) for result in plan.results)
    # A loop of one turn, whose results have the sizes that they are given.
    once = TurnPlan(plan.array_guards, results, stacked=frozenset(range(len(results))))
    return Branch(body, plan, step_body(body.body, plan, once))


def _fits(
    body: BodyMap, plan: CallPlan, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> bool:
    """Whether the plan takes and gives tensors of these types and ranks, and each result is an
    output.
    """
    given = [(entry.parameter, entry.port) for entry in body.inputs]
    made = [(outputs[o.port], plan.results[o.result]) for o in body.outputs if o.port is not None]
    return (
        len(given) == len(plan.array_guards)
        and len(made) == len(body.outputs) == len(plan.results)
        and all(port is not None and takes(plan, n, inputs[port]) for n, port in given)
        and all(s.element_type.dtype == r.dtype and s.rank == len(r.sizes or ()) for s, r in made)
        and all(r.argument == len(plan.array_guards) + n for n, r in enumerate(plan.results))
    )


def branch_step(
    branches: Sequence[Branch],
    condition: KernelArgument,
    inputs: Mapping[int, BranchTensor],
    outputs: Mapping[int, BranchTensor],
) -> tuple[int, tuple[KernelArgument, ...]]:
    """The function and the arguments of the step that runs one of two branches."""
    pairs = [branch.pairs(inputs, outputs) for branch in branches]
    head: list[KernelArgument] = [turns_function(), condition]
    for branch, words in zip(branches, pairs):
        head += BodyAddress(branch.body), len(words) // 2
    return branch_function(), (*head, *pairs[0], *pairs[1])


def branch_function() -> int:
    """The address of the function that runs one of two bodies."""

    def make() -> str:
        from uncork.kernels.runtime.emit_branch import emit_branch

        return emit_branch()

    return STORE.function("branch", "branch", make)


def cost(branches: Sequence[Branch]) -> int:
    """Nanoseconds of the dearer branch, as far as it is known."""
    return COST + max(known_cost(branch.plan) for branch in branches)
