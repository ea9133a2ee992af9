"""The plans of a model, each of the widest scope in which every layer that has a kernel gets it.

That is one plan for every size, nearly always. Where the model leaves a size open that a kernel is
made for (how long the rows of a table are), calls have plans for inner sizes like theirs, else for
just their sizes. Those are few: further calls run by the plan for every size, or by the references
where there is none. Sizes are taken to be at least 1, which leaves fewer questions: calls with an
empty input have plans of their own in which that one may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from uncork.compiler.call_plan import CallPlan
from uncork.compiler.known_sizes import Hints, known_size
from uncork.compiler.layer_kernels import LayerKernels
from uncork.compiler.native_call import NativeCall
from uncork.compiler.planned_parts import NotPlanned
from uncork.compiler.planner import Planner
from uncork.compiler.policy import MOST_SCOPES
from uncork.compiler.recent import Recent
from uncork.compiler.scope import NARROWER, Scope, Shapes, narrowed, scoped
from uncork.compiler.scoped_plans import (
    CallDeclined,
    HintsOf,
    NoPlan,
    PlannedCall,
    ScopedPlans,
    lacking,
    refuse_wrong_sizes,
)
from uncork.errors import CompileError, InputError
from uncork.files import MappedFile
from uncork.ir.model import Model
from uncork.ir.symbols import infer_symbolic
from uncork.ir.taken_branches import TakenBranches
from uncork.kernels import select
from uncork.kernels.runtime.entries import resize_function
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Facts, Origin
from uncork.types import Array, TensorSpec

__all__ = ["CallDeclined", "NoPlan", "PlanSet", "PlannedCall", "Planning"]

#: Numbers of an input that shapes may read.
_FEW = 64
#: Inputs of which it is tried one by one whether kernels need their last axes.
_MOST_INNER = 16


class Planning(Struct, frozen=True):
    """A model to plan, and what all its plans are made with."""

    model: Model
    #: The passes that need specs.
    rewrite: Callable[[Model], Model]
    target: Target
    #: A call uses at most so many threads.
    threads: int = 1
    #: Where constants may lie.
    files: Sequence[MappedFile] = ()
    #: Inputs are taken to be of at least one element, but for these: calls in which another one is
    #: empty have plans of their own.
    may_be_empty: Collection[int] = ()
    #: The working memory of a call, in bytes.
    memory_limit: int | None = None
    #: So many make the kernels.
    compilers: int = 1
    #: What is put in the place of If layers whose conditions follow from sizes.
    branches: TakenBranches | None = None

    def described(
        self, specs: Mapping[int, TensorSpec] | None, hints: Hints
    ) -> tuple[Model, Facts]:
        """The model behind the passes for sizes like the hints, and what is known of its sizes;
        `specs` say what parameters are, by node id.
        """
        found, facts = infer_symbolic(self.model, specs, hints, self.may_be_empty, self.branches)
        return self.rewrite(found), facts


class PlanSet:
    """Plans a model at its first call, and again where a guard fails.

    May be used from several threads.
    """

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._model = model = planning.model
        self.target = planning.target
        ranked = all(
            model.by_id[parameter].outputs[0].spec.rank is not None
            for parameter in model.parameters
        )
        #: The plans for every size; None where these are by the ranks of inputs.
        self._every = self._plans_of(Scope.EVERY_SIZE, None) if ranked else None
        self._scopes: Recent[tuple[Scope, Shapes], ScopedPlans] = Recent(MOST_SCOPES)
        #: The plans of calls with empty inputs, by these.
        self._with_empty: Recent[frozenset[int], PlanSet] = Recent(MOST_SCOPES)
        #: The inputs, by number, whose last axes kernels need; None before anybody has looked.
        self._inner: frozenset[int] | None = None
        #: What made the last call.
        self.last: PlannedCall | None = None
        #: The same where no other plan could make a call better that it takes. Safe to run with
        #: anything.
        self.fast: PlannedCall | None = None

    def _plans_of(self, scope: Scope, specs: Mapping[int, TensorSpec] | None) -> ScopedPlans:
        planning = self._planning  # not this object, which would be kept by a circle

        def plan(hints: Hints, compiles: bool) -> CallPlan:
            made = planned(planning, specs, hints, compiles)
            return replace(made, memory_limit=planning.memory_limit)

        return ScopedPlans(scope, plan, self.target)

    @property
    def _own(self) -> list[ScopedPlans]:
        return [*([] if self._every is None else [self._every]), *self._scopes.values()]

    @property
    def _all(self) -> list[ScopedPlans]:
        others = (plans for other in self._with_empty.values() for plans in other._all)
        return [*self._own, *others]

    def _for(self, sizes: Iterable[tuple[int, int, int | None]]) -> PlanSet:
        """The plans for calls with such sizes, each with its parameter and axis: this, or where an
        input is empty, those in which it may be, once there are some.
        """
        empty = frozenset(
            parameter
            for parameter, axis, size in sizes
            if size == 0
            and parameter not in self._planning.may_be_empty
            and self._is_open(parameter, axis)
        )
        if not empty:
            return self

        may_be_empty = empty.union(self._planning.may_be_empty)
        return (
            self._with_empty.of(
                empty, lambda: PlanSet(replace(self._planning, may_be_empty=may_be_empty))
            )
            or self
        )

    def _is_open(self, parameter: int, axis: int) -> bool:
        """Whether the model leaves the size of an input open."""
        declared = self._model.by_id[parameter].outputs[0].spec.shape
        return declared.rank is None or (axis < declared.rank and not declared.dims[axis].is_static)

    def _for_shapes(self, shapes: Sequence[Sequence[int | None] | None]) -> PlanSet:
        return self._for(
            (parameter, axis, size)
            for parameter, shape in zip(self._model.parameters, shapes, strict=True)
            for axis, size in enumerate(shape or ())
        )

    def _for_hints(self, hints: Hints) -> PlanSet:
        parameters = {*self._model.parameters}
        return self._for(
            (origin.node, origin.position, size)
            for origin, size in hints.items()
            if origin.node in parameters and not origin.is_element
        )

    @property
    def plans(self) -> list[tuple[Scope, CallPlan]]:
        """The plans made so far, each with its scope: by scope, the last one of each first."""
        return [(plans.scope, call.plan) for plans in self._all for call in plans.calls]

    @property
    def reason(self) -> str:
        """Why there is no plan for every size; empty while there is one or nobody has tried."""
        return "" if self._every is None else self._every.reason

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return sum(call.working_bytes for plans in self._all for call in plans.calls)

    def make(self, inputs: Sequence[Array]) -> list[Array]:
        """The results. Raises CallDeclined where references have to look at the call."""
        best, hints = self._best_of(inputs)
        call, results = best.make(inputs, hints)
        self.last, self.fast = call, call if best.is_best else None
        return results

    def _best_of(self, inputs: Sequence[Array]) -> tuple[ScopedPlans, HintsOf]:
        """The best plans for a call, and what hints it gives. Raises CallDeclined."""
        hints = partial(_hints_of, self._model, inputs)
        shapes = [array.shape for array in inputs]
        return self._for_shapes(shapes)._best(shapes, hints), hints

    def _best(self, shapes: Sequence[tuple[int, ...]], hints: HintsOf) -> ScopedPlans:
        """The plans for such a call: of the widest scope in which the fewest layers lack a kernel.

        Raises CallDeclined.
        """
        best = self._every or self._scoped(Scope.EVERY_SIZE, shapes)
        if best is None or not all(map(self._may_have, self._model.parameters, shapes)):
            raise CallDeclined
        fewest = best.lacking(hints)
        for scope in NARROWER if fewest else ():
            if scope is Scope.INNER_SIZES:
                if self._inner is None:
                    self._inner = self._inner_inputs(shapes, hints, fewest)
                if not (self._inner is None or self._inner):
                    continue  # they would be plans of the wider scope
            plans = self._scoped(scope, shapes)
            if plans is None:
                break
            try:
                fewer = plans.lacking(hints)
            except NoPlan as error:
                if best.reason:
                    raise
                plans.fail(str(error))
                continue
            if fewer < fewest:
                best, fewest = plans, fewer
            if not fewest:
                break
        return best

    def _may_have(self, parameter: int, shape: Sequence[int]) -> bool:
        """Whether an input may be of so many dimensions: a body may be given others."""
        rank = self._model.by_id[parameter].outputs[0].spec.rank
        return rank is None or rank == len(shape)

    def _inner_inputs(
        self, shapes: Sequence[tuple[int, ...]], hints: HintsOf, with_none: int
    ) -> frozenset[int] | None:
        """The inputs whose last axes have to be numbers for as many kernels as with all of them,
        where so many steps lack one `with_none`; None where this call does not tell.
        """
        made: dict[frozenset[int], ScopedPlans] = {}

        def lacking_with(inner: frozenset[int]) -> int:
            if not inner:
                return with_none
            sizes = scoped(Scope.INNER_SIZES, self._model, shapes, inner)
            made[inner] = self._plans_of(Scope.INNER_SIZES, narrowed(self._model, sizes))
            return made[inner].lacking(hints)  # nothing is compiled to tell

        every = scoped(Scope.INNER_SIZES, self._model, shapes)
        result = frozenset(number for number, sizes in enumerate(every) if any(sizes))
        if len(result) > _MOST_INNER:
            return result
        try:
            fewest = lacking_with(result)
            if fewest >= with_none:
                return frozenset()
            for number in sorted(result):
                if lacking_with(result - {number}) <= fewest:
                    result -= {number}
        except NoPlan:
            return None
        sizes = scoped(Scope.INNER_SIZES, self._model, shapes, result)
        self._scopes.of((Scope.INNER_SIZES, sizes), lambda: made[result])
        return result

    def _scoped(self, scope: Scope, shapes: Sequence[tuple[int, ...]]) -> ScopedPlans | None:
        """The plans of a scope for such shapes; None where there are many, and these new."""
        sizes = scoped(scope, self._model, shapes, self._inner)
        return self._scopes.of(
            (scope, sizes), lambda: self._plans_of(scope, narrowed(self._model, sizes))
        )

    def inspect(
        self, shapes: Sequence[Sequence[int | None] | None], hints: Hints
    ) -> tuple[Scope, CallPlan]:
        """The plan that makes calls of such shapes, or would: nothing is compiled or kept.

        Sizes, or shapes, that are None are any. Raises NotPlanned where that is known at the call
        only, and ValidationError for shapes that do not go together.
        """
        plans_for = self._for_shapes(shapes)
        if plans_for is not self:
            return plans_for.inspect(shapes, hints)
        whole = [
            tuple(size for size in shape if size is not None)
            for shape in shapes
            if shape is not None
        ]
        known = len(whole) == len(shapes) and all(
            len(a) == len(b or ()) for a, b in zip(whole, shapes, strict=True)
        )
        if self._every is None and not known:
            raise NotPlanned("the rank of an input is known at the call only")
        every = self._every or self._inspected(Scope.EVERY_SIZE, whole)
        scope, best = Scope.EVERY_SIZE, every.inspect(hints)
        fewest = lacking(best, hints, self.target) or 0
        for narrower in NARROWER if known and fewest else ():
            plan = self._inspected(narrower, whole).inspect(hints)
            if (fewer := lacking(plan, hints, self.target) or 0) < fewest:
                scope, best, fewest = narrower, plan, fewer
        return scope, best

    def model_of(self, inputs: Sequence[Array]) -> Model:
        """The model behind the plan of such a call: its layers are the steps, and sizes that the
        plan leaves open are open. Raises as `inspect` does.
        """
        shapes = [array.shape for array in inputs]
        plans_for = self._for_shapes(shapes)
        if plans_for is not self:
            return plans_for.model_of(inputs)
        hints, planning = _hints_of(self._model, inputs), self._planning
        scope, _ = self.inspect(shapes, hints)
        specs = narrowed(self._model, scoped(scope, self._model, shapes, self._inner))
        return planning.described(specs, hints)[0]

    def _inspected(self, scope: Scope, shapes: Sequence[tuple[int, ...]]) -> ScopedPlans:
        """The plans of a scope, or new ones that are not kept."""
        sizes = scoped(scope, self._model, shapes, self._inner)
        known = self._scopes.get((scope, sizes))
        return known or self._plans_of(scope, narrowed(self._model, sizes))

    def prepare(self, hints: Hints) -> None:
        """Make a plan for calls of such sizes, with all its kernels, unless there is one.

        Raises InputError for sizes that do not go together.
        """
        every = self._for_hints(hints)._every
        if every is None or every.serves(hints):
            return
        try:
            every.add(hints, every.calls)
        except NoPlan as error:
            if hints:
                raise InputError(f"no call has such sizes: {error}") from None
        for call in every.calls[:1]:
            refuse_wrong_sizes(call.plan, hints)

    def serving(self, hints: Hints) -> list[CallPlan]:
        """The plans that may make calls of such sizes; made if there is none. Raises as `prepare`
        does.
        """
        self.prepare(hints)
        every = self._for_hints(hints)._every
        return [] if every is None else every.serving(hints)

    def extended(self, inputs: Sequence[Array]) -> dict[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that the call writes to; None where the model
        has no plan.

        There are none for a call that no plan takes, such as one whose sizes contradict each other.
        """
        hints = _hints_of(self._model, inputs)
        try:
            plans = self._for_hints(hints)._every
            if plans is None:
                return None
            plan = plans.made_for(hints)
        except NoPlan:
            return {}
        if plan is None:
            return None
        shapes: dict[int, tuple[int, ...]] = {}
        for number, extended, _ in plan.extended:
            sizes = [known_size(size, hints) for size in extended]
            shapes[number] = tuple(size for size in sizes if isinstance(size, int))
            if len(shapes[number]) < len(sizes):
                return {}
        return shapes

    def is_native(self, inputs: Sequence[Array]) -> bool:
        """Whether one native call makes calls like these as a whole, whatever their contents."""
        try:
            plans, hints = self._best_of(inputs)
            if not plans.calls:
                plans.add(hints(), plans.calls)
        except CallDeclined:
            return False
        return bool(plans.calls) and isinstance(plans.calls[0], NativeCall)

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """The native call that takes sizes like those of these inputs; None where there is none."""
        try:
            plans, hints = self._best_of(inputs)
            known = plans.native_call(inputs)
            if known is not None or not all(isinstance(call, NativeCall) for call in plans.calls):
                return known
            plans.add(hints(), plans.calls)
        except CallDeclined:
            return None
        return plans.native_call(inputs)

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back.

        Plans that are not for every size are forgotten.
        """
        self.last = self.fast = None
        self._scopes.clear()
        for other in self._with_empty.values():
            other.release_memory()
        for plans in self._own:
            for call in plans.calls:
                call.release_memory()


def _hints_of(model: Model, inputs: Sequence[Array]) -> dict[Origin, int]:
    """The sizes of a call, and the elements of its small integer inputs."""
    hints: dict[Origin, int] = {}
    for parameter, array in zip(model.parameters, inputs, strict=True):
        hints |= {Origin(parameter, 0, axis): size for axis, size in enumerate(array.shape)}
        if array.dtype.kind in "iu" and array.size <= _FEW:
            hints |= {
                Origin(parameter, 0, i, True): int(value)
                for i, value in enumerate(array.reshape(-1))
            }
    return hints


def planned(
    planning: Planning, specs: Mapping[int, TensorSpec] | None, hints: Hints, compiles: bool
) -> CallPlan:
    """The plan of a model for sizes like the hints; `specs` say what parameters are, by node id.
    Kernels are made where it `compiles`.
    """
    model, target, files = planning.model, planning.target, planning.files
    compilers = planning.compilers if compiles else 0
    kernels = LayerKernels(target, planning.threads, compilers, planning.memory_limit)
    with kernels.compiled(bool(files)):
        planner = Planner(*planning.described(specs, hints), kernels, files)
        planner.select()
        if planner.refused and compilers:
            _refuse_or_tell(model, planner.refused)
    if compilers:
        resize_function(target)  # what every segment needs
    return planner.plan()


def _refuse_or_tell(model: Model, refused: Sequence[CannotCompile]) -> None:
    """Warn of kernels that cannot be had; raise CompileError where they are required."""
    if any(node.hints.kernels_required for node in model.nodes):
        reasons = dict.fromkeys(map(str, refused))
        raise CompileError("; ".join(reasons))
    for one in refused:
        select.falls_back(one)
