"""The executor: calls by plans, and by the references where kernels do not compute with the values
or sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.native_call import NativeCall
from uncork.compiler.plan import Plan
from uncork.compiler.plan_set import CallDeclined, NoPlan, Planning, PlanSet
from uncork.compiler.planned_parts import NotPlanned
from uncork.compiler.scoped_plans import refuse_wrong_sizes
from uncork.concurrency import lazy, unforked
from uncork.errors import UncorkError
from uncork.files import MappedFile
from uncork.internal_ops.appended_state import StateLength
from uncork.ir.interpret import interpret
from uncork.ir.model import Model, Source
from uncork.ir.taken_branches import TakenBranches
from uncork.ir.validate import infer
from uncork.kernels import select
from uncork.kernels.runtime.bundle import bundle_of, usable_target
from uncork.kernels.runtime.target import Target, no_compiler, target_here
from uncork.ops._body import SubGraphOperation
from uncork.passes import pipeline
from uncork.symbolic import Origin
from uncork.types import Array, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.growing_state import GrowingStateExecutor
    from uncork.compiler.state import StateExecutor
    from uncork.compiler.variable_values import Values


def kernels_available() -> bool:
    """Whether there are kernels, or what compiles them."""
    return not select.unavailable()


def kernel_target(tiles: bool = False, name: str | None = None) -> Target | None:
    """The target that kernels are selected for on this machine, by its name or the largest level,
    with AMX only where `tiles` are asked for; None where there are no kernels.
    """
    if not kernels_available():
        return None
    if name is None:
        return usable_target(tiles)
    target = target_here(name, tiles)
    return None if no_compiler() and bundle_of(target) is None else target


def _loaded(target: Target, model: Model) -> Model:
    """The model after the passes that need no sizes."""
    return pipeline.apply_passes(pipeline.ON_LOAD, model, pipeline.Options(target))


def _fused(target: Target | None, model: Model) -> Model:
    """The model after the passes that need every size, as a number or an expression."""
    if target is None:
        return model
    return pipeline.apply_passes(pipeline.WITH_SIZES, model, pipeline.Options(target))


def _has_bodies(model: Model) -> bool:
    return any(isinstance(node.operation, SubGraphOperation) for node in model.nodes)


def _appended(body: Model) -> frozenset[int]:
    """The Parameters of a body that a Concat reads: what turns append to is empty before the first
    one.
    """
    read = {
        source.node for node in body.nodes if node.type_name == "Concat" for source in node.inputs
    }
    return frozenset(parameter for parameter in body.parameters if parameter in read)


def _branches_of(model: Model) -> TakenBranches | None:
    """The branches that may take the place of If layers; None where a model has none."""
    if not any(node.type_name == "If" for node in model.nodes):
        return None
    from uncork.compiler.bodies import graph_to_plan

    return TakenBranches(model, graph_to_plan)


def _with_bodies(
    model: Model, target: Target | None, memory_limit: int | None, compilers: int
) -> Model:
    """The model with an executor for each body. A body runs on one thread, since the model's calls
    have the others, but all threads compile its kernels.
    """
    if not _has_bodies(model):
        return model
    from uncork.compiler.bodies import with_kernel_bodies

    def executor(body: Model) -> Executor:
        empty = _appended(body)
        return Executor(body, target, 1, (), empty, memory_limit, compilers)

    return with_kernel_bodies(model, executor)


class Executor(BaseExecutor):
    """The executor of a checked model; may be called from several threads."""

    def __init__(
        self,
        model: Model,
        target: Target | None,
        threads: int = 1,
        files: Sequence[MappedFile] = (),
        may_be_empty: Collection[int] = (),
        memory_limit: int | None = None,
        compilers: int | None = None,
    ) -> None:
        """Without a `target` it runs by the references. `may_be_empty` are parameters that often
        are.

        A call takes at most `memory_limit` bytes of working memory. So many `compilers` make its
        kernels, if that is another number than that of `threads`.
        """
        compilers = threads if compilers is None else compilers
        self.memory_limit = memory_limit
        self.model = model
        #: Where constants are mapped; they must be whole when a call begins.
        self.files = files
        self.threads = threads
        self.target = target
        self.use_kernels = target is not None
        #: What runs; the interpreter keeps to the model as it was read.
        with unforked():
            self.prepared = (
                model
                if target is None
                else _with_bodies(_loaded(target, model), target, memory_limit, compilers)
            )
        self._branches = _branches_of(self.prepared)
        #: What runs calls by kernels; None where only references run.
        self.plans = None
        if target is not None:
            planning = Planning(
                self.prepared,
                partial(_fused, target),
                target,
                threads,
                files,
                may_be_empty,
                memory_limit,
                compilers,
                self._branches,
            )
            self.plans = PlanSet(planning)
        self.last = None

    @lazy
    def stateful(self) -> StateExecutor | GrowingStateExecutor | None:
        """The executor of a model with variables; None when the model has none, or only the
        interpreter runs it.
        """
        with unforked():
            from uncork.compiler.growing_state import stateful

            target, threads, files, limit = self.target, self.threads, self.files, self.memory_limit
            if not self.use_kernels or not self.model.sinks:
                return None
            return stateful(
                self.model,
                lambda model, empty: Executor(model, target, threads, files, empty, limit),
            )

    def run_planned(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results by a plan for every size; None where there is none, or it refuses the
        call.
        """
        if self.plans is None:
            return None
        try:
            results = self.plans.make(inputs)
        except CallDeclined:
            return None
        self.last = self.plans.fast
        return results

    def extended(self, inputs: Sequence[Array]) -> Mapping[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that a call writes to; None where there is no
        plan for it.
        """
        return None if self.plans is None else self.plans.extended(inputs)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types, from one carrier array per parameter."""
        if self.plans is None:
            return interpret(self.model, inputs)
        try:
            results = self.plans.make(inputs)
        except NoPlan as no_plan:
            results = interpret(
                self.model, inputs
            )  # raises what is wrong with the call, if anything is
            no_plan.plans.fail(str(no_plan))
            return results
        except CallDeclined:
            return interpret(self.model, inputs)
        self.last = self.plans.fast
        return results

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """One native call for arrays of these shapes and of the model's types; None when there is
        no such call.
        """
        return None if self.plans is None else self.plans.native_call(inputs)

    def _specs(self, inputs: Sequence[Array]) -> dict[int, TensorSpec]:
        """The specs of the parameters, by node id, for calls with inputs of these shapes; lengths
        of variables, which are sizes, with their values.
        """
        specs = {}
        for parameter, array in zip(self.model.parameters, inputs, strict=True):
            node = self.model.by_id[parameter]
            specs[parameter] = TensorSpec(
                node.outputs[0].spec.element_type,
                PartialShape(array.shape),
                array if isinstance(node.operation, StateLength) else None,
            )
        return specs

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Plan the calls of inputs of these shapes, by number, and compile their kernels; sizes
        that are not given are taken to be the usual ones.
        """
        if self.model.sinks:
            if self.stateful is not None:
                self.stateful.prepare(shapes)
        elif self.plans is not None:
            self.plans.prepare(self._hints(shapes))
        for body in self._bodies():
            body.prepare({})

    def _hints(self, shapes: Mapping[int, Sequence[int | None]]) -> dict[Origin, int]:
        """The known sizes of the inputs, from their shapes by number."""
        parameters = self.model.parameters
        sizes = (
            (Origin(parameters[n], 0, axis), size)
            for n, shape in shapes.items()
            for axis, size in enumerate(shape)
        )
        return {origin: size for origin, size in sizes if size is not None}

    def _bodies(self) -> list[Executor]:
        """The executors of the bodies of layers."""
        if not self.use_kernels or not _has_bodies(self.prepared):
            return []
        from uncork.compiler.bodies import executors_of_bodies

        return [
            executor
            for executor in executors_of_bodies(self.prepared)
            if isinstance(executor, Executor)
        ]

    def without_variables(
        self, inputs: Sequence[Array], state: Values
    ) -> tuple[Executor, Sequence[Array]]:
        """The executor of the model without variables, and what a call gives it, which finds this
        state; itself where there are no variables, or the interpreter runs them.
        """
        if not self.model.sinks or self.stateful is None:
            return self, inputs
        runs, given = self.stateful.without_variables(inputs, cast(Any, state))
        assert isinstance(runs, Executor)
        return (self, inputs) if given is None else (runs, given)

    def as_it_runs(self, inputs: Sequence[Array]) -> Model:
        """The model after the passes for a call of these inputs: its layers are the steps, and all
        sizes are known.
        """
        specs = self._specs(inputs)
        known, problems = infer(self.prepared, specs, trust_ports=True)
        if problems:
            return known
        while self._branches is not None:  # what is in branches is known when they are inferred
            before = {
                Source(node.id, i): port.spec
                for node in known.nodes
                for i, port in enumerate(node.outputs)
            }
            nodes = tuple(self._branches.walk(known.nodes, before))
            if len(nodes) == len(known.nodes) and all(
                a is b for a, b in zip(nodes, known.nodes, strict=True)
            ):
                break
            known, _ = infer(replace(known, nodes=nodes), specs, trust_ports=True)
        return _fused(self.target, known)

    def as_planned(self, inputs: Sequence[Array]) -> Model | None:
        """The same with the sizes open that the plan of the call leaves open; None where there is
        no plan.
        """
        try:
            return None if self.plans is None else self.plans.model_of(inputs)
        except (CallDeclined, UncorkError):
            return None

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        if self.plans is not None:
            self.plans.release_memory()
        if self.model.sinks and self.stateful is not None:
            self.stateful.release_memory()
        for body in self._bodies():
            body.release_memory()
        self.last = None

    def plans_for(self, shapes: Mapping[int, Sequence[int | None]]) -> list[CallPlan]:
        """The plans that may make calls of inputs of these shapes, by number."""
        return [] if self.plans is None else self.plans.serving(self._hints(shapes))

    def call_plans(self) -> list[CallPlan]:
        """The plans that calls have made so far, the last one first."""
        return [] if self.plans is None else [plan for _, plan in self.plans.plans]

    def plan(self) -> Plan:
        """The plan of the last call; before any call, what can be said of one. Nothing is compiled
        for it.
        """
        with unforked():
            return self._with_plans_of_bodies(self._plan())

    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan:
        """The plan of calls with inputs of these shapes, by number; other sizes stay open. Nothing
        is compiled for it.
        """
        with unforked():
            return self._with_plans_of_bodies(self._plan_for(shapes))

    def _plan(self) -> Plan:
        if self.model.sinks and self.stateful is not None:
            return self.stateful.plan()
        made = [] if self.plans is None else self.plans.plans
        if self.plans is None or not made:
            return self._plan_for({})
        from uncork.compiler.printed_plan import printed

        last = None if self.plans.last is None else self.plans.last.plan
        scope, plan = next((pair for pair in made if pair[1] is last), made[0])
        return printed(plan, self.plans.target, scope, {}, len(made), self.plans.working_bytes)

    def _plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan:
        if self.model.sinks and self.stateful is not None:
            return self.stateful.plan_for(shapes)
        from uncork.compiler.printed_plan import listed, printed

        if self.plans is None or self.model.sinks:
            return listed(self.prepared, "reference", self._why_references)
        hints = self._hints(shapes)
        try:
            scope, plan = self.plans.inspect(
                [shapes.get(index) for index in range(len(self.model.parameters))], hints
            )
        except NotPlanned as error:
            return listed(self.prepared, "reference" if self.plans.reason else "any", str(error))
        except UncorkError as error:
            if shapes:
                raise
            return listed(self.prepared, "any", str(error))
        refuse_wrong_sizes(plan, hints)
        return printed(plan, self.plans.target, scope, hints, len(self.plans.plans))

    @property
    def _why_references(self) -> str:
        """The reason why no kernel runs at all."""
        if self.use_kernels:
            return "it has variables that only the interpreter keeps"
        return select.unavailable() or "asked for"

    def _with_plans_of_bodies(self, plan: Plan) -> Plan:
        if not self.use_kernels or not _has_bodies(self.prepared):
            return plan
        from uncork.compiler.bodies import with_their_plans

        return with_their_plans(plan, self.prepared)
