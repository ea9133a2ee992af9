"""The plans of a model: one for every size, and a further one for each way in which a guard can fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Union

from uncork.compiler.call_plan import CallPlan, ReferenceStep, Stop
from uncork.compiler.direct import Refused
from uncork.compiler.native_call import NativeCall
from uncork.compiler.parted_call import PartedCall
from uncork.compiler.planned_parts import NotPlanned
from uncork.compiler.planner import Planner
from uncork.compiler.size_program import Unbound
from uncork.concurrency import renews_locks, unforked
from uncork.errors import UncorkError
from uncork.files import MappedFile
from uncork.ir.model import Model
from uncork.ir.symbols import infer_symbolic
from uncork.kernels import select
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.layout import GUARD_FAILED
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Guard, Origin, Size, SizeLike, Symbol
from uncork.types import Array, PartialShape, TensorSpec

#: Plans that are kept; the one made first goes.
MOST_PLANS = 16
#: Plans that are made for one call: a guard on what its steps find shows only when they have run.
_MOST_TRIES = 8
#: Calls that no plan could be made for, before the model counts as one that has none: a call may be at fault, too.
_MOST_FAILURES = 4
#: Numbers of an input that shapes may read.
_FEW = 64

#: Calls of one plan.
PlannedCall = Union[NativeCall, PartedCall]


class PlanSet:
    """Plans a model at its first call, and again where a guard fails. May be used from several threads."""

    def __init__(
        self,
        model: Model,
        rewrite: Callable[[Model], Model],
        target: Target,
        threads: int = 1,
        files: Sequence[MappedFile] = (),
        may_be_empty: Collection[int] = (),
    ) -> None:
        """`rewrite` are the passes that need specs; kernels are selected for `target`; a call uses at most so many `threads`.

        Constants may lie in `files`. Calls with an empty input are left to the references, but for inputs that `may_be_empty`.
        """
        self._model, self._rewrite, self._target, self._threads = model, rewrite, target, threads
        self._files, self._may_be_empty = files, may_be_empty
        self._calls: list[PlannedCall] = []
        self._failures = 0
        self.renew_locks()
        renews_locks(self)
        #: Why the model has no plan for every size; empty while it has one or nobody has tried.
        self.reason = ""
        #: What made the last call. Safe to run with anything.
        self.last: PlannedCall | None = None

    def renew_locks(self) -> None:
        """Make the lock of the plans: at the start, and in a child process."""
        self._lock = threading.Lock()

    @property
    def plans(self) -> list[CallPlan]:
        """What was planned so far, the last one first."""
        return [call.plan for call in self._calls]

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return sum(call.working_bytes for call in self._calls)

    def run(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results; None where the model cannot be planned so. Raises Refused where references have to look at the call."""
        hints: dict[Origin, int] = {}
        tried: list[PlannedCall] = []
        while True:
            for call in self._calls:
                if call in tried:
                    continue
                tried.append(call)
                found = call.call(_as_planned(call.plan, inputs))
                if not isinstance(found, Stop):
                    self.last = call
                    return found
                if found.status != GUARD_FAILED:
                    raise Refused
                hints = {**found.found, **hints_of(self._model, inputs)}
            if self.reason:
                return None
            if len(tried) > _MOST_TRIES + MOST_PLANS or not self._add(hints or hints_of(self._model, inputs), tried):
                raise Refused

    def _add(self, hints: Mapping[Origin, int], tried: Sequence[PlannedCall]) -> bool:
        """There is a plan that was not tried, or none can be made at all. False where none can be made for this call."""
        with unforked(), self._lock:  # a plan imports what the model needs
            if self.reason or any(call not in tried for call in self._calls):
                return True  # another thread has been here
            try:
                plan = planned(self._model, self._rewrite, hints, self._target, self._threads, self._files, self._may_be_empty)
                made: PlannedCall = NativeCall(plan) if plan.is_native else PartedCall(plan)
            except CannotCompile as error:
                self.reason = select.falls_back(error)
            except (NotPlanned, Unbound, ValueError, TypeError) as error:
                self.reason = str(error)
            except UncorkError as error:
                self._failures += 1
                if self._failures < _MOST_FAILURES:
                    return False
                self.reason = str(error)
            else:
                self._calls = [made, *self._calls[: MOST_PLANS - 1]]
        return True

    def prepare(self, hints: Mapping[Origin, int]) -> None:
        """Make a plan for calls of such sizes, with all its kernels, unless there is one."""
        if not any(_serves(call.plan, hints) for call in self._calls):
            self._add(hints, self._calls)

    def extended(self, inputs: Sequence[Array]) -> dict[int, tuple[int, ...]] | None:
        """The shapes that inputs which the call writes to must have at least, by number; None where the model has no plan.

        There are none for a call that no plan takes, such as one whose sizes contradict each other.
        """
        hints = hints_of(self._model, inputs)
        for _ in range(2):
            plan = next((call.plan for call in self._calls if _serves(call.plan, hints)), None)
            if plan is not None:
                try:
                    return {number: tuple(_value(size, hints) for size in shape) for number, shape in plan.extended}
                except (KeyError, ValueError):
                    return {}
            self._add(hints, self._calls)
        return None if self.reason else {}

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """The native call that takes sizes like those of these inputs; None where there is none."""
        known = self._native_call(inputs)
        if known is not None or any(isinstance(call, PartedCall) for call in self._calls):
            return known
        return self._native_call(inputs) if self._add(hints_of(self._model, inputs), self._calls) else None

    def _native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        for call in self._calls:
            if isinstance(call, NativeCall) and call.results(_as_planned(call.plan, inputs)) is not None:
                return call
        return None

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        for call in self._calls:
            call.release_memory()


def _serves(plan: CallPlan, hints: Mapping[Origin, int]) -> bool:
    """No guard of the plan is known to fail."""
    for relation in plan.relations:
        if not isinstance(relation, Guard):
            continue
        values = {symbol: hints[symbol.origin] for symbol in relation.symbols if symbol.origin in hints}
        if values.keys() == relation.symbols and not relation.holds(values):
            return False
    return True


def _value(size: SizeLike, hints: Mapping[Origin, int]) -> int:
    return size.evaluate({symbol: hints[symbol.origin] for symbol in size.symbols}) if isinstance(size, Size) else size


def _as_planned(plan: CallPlan, inputs: Sequence[Array]) -> list[Array]:
    """The arrays with element types that are the very objects of NumPy's own arrays: others may be equal to them."""
    return [array if array.dtype is like.dtype else array.view(like.dtype) for array, like in zip(inputs, plan.likes)]


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
    may_be_empty: Collection[int] = (),
) -> CallPlan:
    """The plan of a model for sizes like the hints. Raises NotPlanned where kernels would be given up for it."""
    described, facts = infer_symbolic(model, hints=hints, may_be_empty=may_be_empty)
    described = rewrite(described)
    plan = Planner(described, facts, target, threads, files).plan()
    values = {symbol: hints[symbol.origin] for symbol in facts.symbols if symbol.origin in hints}
    for part in plan.parts:
        if isinstance(part, ReferenceStep) and part.node.operation is not None:
            inputs = [_numbers(described.spec(source), values) for source in part.node.inputs]
            outputs = [_numbers(port.spec, values) for port in part.node.outputs]
            if None in inputs or None in outputs:
                continue
            choice = select.select_kernel(part.node.operation, inputs, [spec for spec in outputs if spec is not None], target)
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
