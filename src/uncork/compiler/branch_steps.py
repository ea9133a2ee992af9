"""An If as a step of a segment: one of two bodies runs natively, each by a plan of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from uncork.compiler.bodies import KernelBody
from uncork.compiler.call_plan import BranchTensor, CallPlan
from uncork.compiler.loop_call import makes_of
from uncork.compiler.rooms import JOINING, FoundPlaces, found_axes
from uncork.compiler.step_bodies import COST, known_cost, native_plan, step_body, takes
from uncork.kernels.runtime.addresses import native_function
from uncork.kernels.runtime.branch_layout import ALIKE, BRANCH, COUNTS, PAIR, ROOM_OF, SIZE
from uncork.kernels.runtime.cpython_entry import loop_functions
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.loop_layout import JOIN, LOOP_FUNCTIONS
from uncork.kernels.runtime.segment_plan import (
    BodyAddress,
    KernelArgument,
    MadeResult,
    SlotAddress,
    StepBody,
    VersionAddress,
)
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.turns import TURNS, TurnPlan
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.symbolic import Symbol
from uncork.types import TensorSpec

#: The sizes of a tensor as they are for calls like the one that is planned; None where open.
ShapeOf = Callable[[TensorSpec], Sequence["int | None"]]


class Branch(Struct, frozen=True):
    """A body with the plan that runs it. Along `axes`, by output, its results have sizes that
    only the body tells.
    """

    map: BodyMap
    plan: CallPlan
    body: StepBody
    axes: Mapping[int, Mapping[int, Symbol]]

    def words(
        self,
        inputs: Mapping[int, BranchTensor],
        outputs: Mapping[int, BranchTensor],
        found: FoundPlaces,
    ) -> list[KernelArgument]:
        """The words of the body, see `branch_layout`."""
        rows: dict[str, list[KernelArgument]] = {name: [] for name in COUNTS}
        pairs = rows["pairs"]
        for entry in self.map.fed:
            given, number = inputs[entry.port], entry.parameter
            pairs += BodyAddress(self.body, "parameter", number), given.address
            for axis, size in enumerate(given.sizes):
                pairs += BodyAddress(self.body, "size", number, axis), size
        for output in self.map.given:
            made, number = outputs[output.port], output.result
            if output.port in self.axes:
                self._grow(rows, output.port, number, made, found)
                continue
            pairs += BodyAddress(self.body, "result", number), made.address
            pairs += BodyAddress(self.body, "buffer", number), made.bytes
            for axis, size in enumerate(made.sizes):
                pairs += BodyAddress(self.body, "kept", number, axis), size
        widths = (len(PAIR), len(ROOM_OF), len(SIZE), len(ALIKE))
        counts = [len(rows[name]) // width for name, width in zip(COUNTS, widths, strict=True)]
        return [*counts, *(word for name in COUNTS for word in rows[name])]

    def _grow(
        self,
        rows: dict[str, list[KernelArgument]],
        port: int,
        result: int,
        made: BranchTensor,
        found: FoundPlaces,
    ) -> None:
        """Write the words of a result whose sizes only the body tells."""
        number = list(self.axes).index(port)
        made_as = [n for numbers in makes_of(self.plan) or () for n in numbers].index(result)
        rows["rooms"] += made_as, BodyAddress(self.body, "room", number), found.rooms[port]
        for axis, size in enumerate(made.sizes):
            kept = BodyAddress(self.body, "kept", result, axis)
            if axis in self.axes[port]:
                rows["sizes"] += kept, SlotAddress(found.slots[port, axis]), VersionAddress()
            else:
                rows["alike"] += kept, size


def native_branches(
    operation: SubGraphOperation,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shape_of: ShapeOf,
    found: Sequence[Symbol],
) -> tuple[Branch, ...] | None:
    """Both branches of an If, for inputs of shapes like these; None where one has no plan that is
    native as a whole. `found` are the sizes that only the branches tell.
    """
    if any(spec.rank is None for spec in (*inputs, *outputs)):
        return None
    axes = found_axes(outputs, found)
    if axes is None:
        return None
    branches = [
        _branch(operation.bodies[name], inputs, outputs, shape_of, axes)
        for name in operation.body_names
    ]
    known = tuple(branch for branch in branches if branch is not None)
    return known if len(known) == len(branches) else None


def _branch(
    body: BodyMap,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shape_of: ShapeOf,
    axes: Mapping[int, Mapping[int, Symbol]],
) -> Branch | None:
    if not isinstance(body.body, KernelBody):
        return None
    shapes = {entry.parameter: shape_of(inputs[entry.port]) for entry in body.fed}
    plan = native_plan(body.body, shapes, lambda plan: _fits(body, plan, inputs, outputs))
    if plan is None:
        return None
    results = tuple(MadeResult(result.dtype, result.sizes or ()) for result in plan.results)
    # A loop of one turn, whose results have the sizes that they are given, or find room.
    given = frozenset(o.result for o in body.given if o.port not in axes)
    once = TurnPlan(
        plan.array_guards, results, stacked=given, rooms=len(axes), makes=makes_of(plan) or ()
    )
    return Branch(body, plan, step_body(body.body, plan, once), axes)


def _fits(
    body: BodyMap, plan: CallPlan, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> bool:
    """Whether the plan takes and gives tensors of these types and ranks, and each result is an
    output.
    """
    given, made = body.fed, [(outputs[o.port], plan.results[o.result]) for o in body.given]
    return (
        len(given) == len(plan.array_guards)
        and len(made) == len(body.outputs) == len(plan.results)
        and all(takes(plan, e.parameter, inputs[e.port]) for e in given)
        and all(s.element_type.dtype == r.dtype and s.rank == len(r.sizes or ()) for s, r in made)
        and makes_of(plan) is not None
        and all(r.argument == len(plan.array_guards) + n for n, r in enumerate(plan.results))
    )


def branch_step(
    branches: Sequence[Branch],
    condition: KernelArgument,
    inputs: Mapping[int, BranchTensor],
    outputs: Mapping[int, BranchTensor],
    found: FoundPlaces,
) -> tuple[int, tuple[KernelArgument, ...]]:
    """The function and the arguments of the step that runs one of two branches."""
    then, other = (branch.words(inputs, outputs, found) for branch in branches)
    target = branches[0].body.segments[0].target
    head: dict[str, KernelArgument] = {
        "turns": STORE.address_of(TURNS, target),
        "condition": condition,
        "realloc": dict(zip(LOOP_FUNCTIONS, loop_functions(), strict=True))["realloc"],
        "then": BodyAddress(branches[0].body),
        "other": BodyAddress(branches[1].body),
        "then_words": len(then),
    }
    words = (*(head[name] for name in BRANCH), *then, *other)
    return STORE.address_of(BRANCH_FUNCTION, target), words


def copying_step(
    room: KernelArgument, output: BranchTensor, target: Target
) -> tuple[int, tuple[KernelArgument, ...]]:
    """The function and the arguments of the step that makes an output of what is in a room."""
    words: dict[str, KernelArgument] = {
        "found": room, "size": 1, "elements": 1, "first": output.address, "step": output.bytes,
        "runs": 1, "bytes": output.bytes, "stride": 0,
    }  # fmt: skip
    return STORE.address_of(JOINING, target), tuple(words[name] for name in JOIN)


#: The function that runs one of two bodies.
BRANCH_FUNCTION = native_function("branch", "uncork.kernels.runtime.emit_branch:emit_branch")


def cost(branches: Sequence[Branch]) -> int:
    """Nanoseconds of the dearer branch, as far as it is known."""
    return COST + max(known_cost(branch.plan) for branch in branches)
