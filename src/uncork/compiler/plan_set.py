"""The plans of a model: one for every size, and a further one for each way in which a guard can fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from uncork.compiler.call_plan import CallPlan, ReferenceStep
from uncork.compiler.instance import Instance, NativeCall
from uncork.compiler.planned_parts import NotPlanned
from uncork.compiler.planner import Planner
from uncork.compiler.size_program import Unbound
from uncork.concurrency import renews_locks, unforked
from uncork.errors import UncorkError
from uncork.files import MappedFile
from uncork.ir.model import Model
from uncork.ir.symbols import infer_symbolic
from uncork.kernels import select
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.layout import GUARD_FAILED
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Origin, Size, Symbol
from uncork.types import Array, PartialShape, TensorSpec

#: Plans that are kept; the one not used for longest goes.
MOST_PLANS = 16
#: Numbers of an input that shapes may read.
_FEW = 64


class Declined(Exception):
    """A call that the references make, or refuse: kernels met values, or sizes, that they do not compute with."""


class PlannedModel:
    """A plan, and instances of it that no call uses now. May be used from several threads."""

    def __init__(self, plan: CallPlan) -> None:
        self.plan = plan
        self.native = NativeCall(plan) if plan.is_native else None
        self._idle: list[Instance] = []

    def run(self, inputs: Sequence[Array]) -> list[Array] | int:
        """The results, or the number of why a segment did not run."""
        try:
            instance = self._idle.pop()  # one step, also for threads and forks: there is no lock
        except IndexError:
            instance = Instance(self.plan)
        results = instance.run(inputs)
        self._idle.append(instance)
        return results

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        self._idle.clear()
        if self.native is not None:
            self.native.release_memory()


class PlanSet:
    """Plans a model at its first call, and again where a guard fails. May be used from several threads."""

    def __init__(
        self, model: Model, rewrite: Callable[[Model], Model], target: Target, threads: int = 1, files: Sequence[MappedFile] = ()
    ) -> None:
        """`rewrite` are the passes that need specs; kernels are selected for `target`; a call uses at most so many `threads`.

        Constants may lie in `files`.
        """
        self._model, self._rewrite, self._target, self._threads = model, rewrite, target, threads
        self._files = files
        self._plans: list[PlannedModel] = []
        self.renew_locks()
        renews_locks(self)
        #: Why the model has no plan for every size; empty while it has one or nobody has tried.
        self.reason = ""
        #: The plan of the last call, where it is one native call. Safe to call with anything.
        self.last: NativeCall | None = None

    def renew_locks(self) -> None:
        """Make the lock of the plans: at the start, and in a child process."""
        self._lock = threading.Lock()

    def current(self) -> CallPlan | None:
        """The plan that was made last; None before the first call."""
        return self._plans[0].plan if self._plans else None

    def preview(self) -> CallPlan:
        """The plan as it can be told before any call; no kernel is compiled. Raises NotPlanned or UncorkError where it cannot."""
        return planned(self._model, self._rewrite, {}, self._target, self._threads, address=lambda spec, target: 0)

    def run(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results; None where the model cannot be planned so. Raises Declined where references have to look at the call."""
        for planned in tuple(self._plans):
            results = planned.run(inputs)
            if results != GUARD_FAILED:
                return self._used(planned, results)
        if self.reason:
            return None
        made = self._add(inputs)
        return None if made is None else self._used(made, made.run(inputs))

    def _used(self, planned: PlannedModel, results: list[Array] | int) -> list[Array]:
        if isinstance(results, int):
            raise Declined
        self.last = planned.native
        return results

    def _add(self, inputs: Sequence[Array]) -> PlannedModel | None:
        """A plan for sizes like those of these inputs."""
        with unforked(), self._lock:  # a plan imports what the model needs
            try:
                plan = planned(self._model, self._rewrite, hints_of(self._model, inputs), self._target, self._threads, self._files)
                made = PlannedModel(plan)
            except CannotCompile as error:
                self.reason = select.falls_back(error)
                return None
            except (NotPlanned, Unbound, UncorkError, ValueError, TypeError) as error:
                self.reason = str(error)
                return None
            self._plans = [made, *self._plans[: MOST_PLANS - 1]]
        return made

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        for planned in self._plans:
            planned.release_memory()


def hints_of(model: Model, inputs: Sequence[Array]) -> dict[Origin, int]:
    """The sizes of a call, and the elements of its small integer inputs."""
    hints: dict[Origin, int] = {}
    for parameter, array in zip(model.parameters, inputs):
        hints |= {Origin(parameter, 0, axis): size for axis, size in enumerate(array.shape)}
        if array.dtype.kind in "iu" and array.size <= _FEW:
            hints |= {Origin(parameter, 0, i, True): int(value) for i, value in enumerate(array.reshape(-1))}
    return hints


def planned(
    model: Model,
    rewrite: Callable[[Model], Model],
    hints: Mapping[Origin, int],
    target: Target,
    threads: int = 1,
    files: Sequence[MappedFile] = (),
    address: Callable[[KernelSpec, Target | None], int] | None = None,
) -> CallPlan:
    """The plan of a model for sizes like the hints. Raises NotPlanned where kernels would be given up for it."""
    described, facts = infer_symbolic(model, hints=hints)
    described = rewrite(described)
    planner = Planner(described, facts, target, threads, files, address)
    plan = planner.plan()
    if not plan.is_native:
        # Sizes that a step finds, and layers that only references run: their plans are not as tried as native ones are.
        raise NotPlanned("a layer of it has no kernel, or finds a size")
    values = {symbol: hints[symbol.origin] for symbol in facts.symbols if symbol.origin in hints}
    for part in plan.parts:
        if isinstance(part, ReferenceStep) and part.node.operation is not None:
            inputs = [_numbers(described.spec(source), values) for source in part.node.inputs]
            outputs = [_numbers(port.spec, values) for port in part.node.outputs]
            if None in inputs or None in outputs:
                continue
            choice = select.choose(part.node.operation, inputs, [spec for spec in outputs if spec is not None], target)
            if not isinstance(choice, str):
                raise NotPlanned(f"{part.node.label}: its kernels are made for sizes that are known")
    return plan


def _numbers(spec: TensorSpec, values: Mapping[Symbol, int]) -> TensorSpec | None:
    """The spec with the numbers of a call; None where they do not tell it."""
    sizes: list[int] = []
    for dim in spec.shape.dims:
        size = dim.size
        if isinstance(size, Size):
            if not size.symbols <= values.keys():
                return None
            size = size.evaluate(values)
        if size is None:
            return None
        sizes.append(size)
    return TensorSpec(spec.element_type, PartialShape(sizes), spec.value)
