"""The plans of one scope: one for all its calls, and another for each way a guard can fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from uncork.collector import collector_paused
from uncork.compiler.call_plan import CallPlan, ReferenceStep, Stop
from uncork.compiler.known_sizes import Hints, known_size, known_values
from uncork.compiler.native_call import NativeCall
from uncork.compiler.planned_parts import NotPlanned
from uncork.compiler.policy import MOST_FAILURES, MOST_PLANS, MOST_TRIES
from uncork.compiler.scope import Scope
from uncork.compiler.size_program import Unbound
from uncork.concurrency import WorkLock, is_begun, unforked
from uncork.errors import CompileError, InputError, UncorkError
from uncork.kernels import select
from uncork.kernels.layer import most_table_bytes
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.layout import GUARD_FAILED
from uncork.kernels.runtime.target import Target
from uncork.symbolic import Check, Guard, Relation
from uncork.types import Array, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.parted_call import PartedCall

#: Calls of one plan.
PlannedCall: TypeAlias = "NativeCall | PartedCall"

#: Gives the hints of a call, when somebody needs them.
HintsOf = Callable[[], Hints]


class CallDeclined(Exception):
    """Raised for a call that the references make: they say what is wrong, or compute what kernels
    do not.
    """


class NoPlan(CallDeclined):
    """Raised for a call for which no plan could be made.

    Where the references make it all the same, `plans.fail` is to be told.
    """

    def __init__(self, plans: ScopedPlans, why: str) -> None:
        super().__init__(why)
        self.plans = plans


class ScopedPlans:
    """The plans of one scope: made at its first call, and again where a guard fails.

    May be used from several threads.
    """

    def __init__(
        self, scope: Scope, plan: Callable[[Hints, bool], CallPlan], target: Target
    ) -> None:
        """`plan` makes one for calls like those of its hints, by kernels for `target`.

        It is told whether to compile these.
        """
        self.scope, self._plan, self._target = scope, plan, target
        #: The one that made the last call first.
        self.calls: list[PlannedCall] = []
        #: Why there are no plans of this scope; empty while there is one or nobody has tried.
        self.reason = ""
        self._lacking: int | None = None
        #: Good calls that no plan could be made for, and calls since then for which making one was
        #: thought of.
        self._failures = self._skipped = 0
        self._lock = WorkLock()

    def lacking(self, hints: HintsOf) -> int:
        """The steps that a kernel would make if sizes were numbers, for calls like the first one.

        `hints` gives those of a call.

        The first plan is made. That for inner sizes may turn out to be of no use: nothing is
        compiled to tell. Raises NoPlan where there is none for this call.
        """
        if self._lacking is None and not self.reason:
            known = hints()
            if self.scope is not Scope.INNER_SIZES and not self.calls:
                self.add(known, ())
            try:
                found = lacking(self.inspect(known), known, self._target)
                if found is None:
                    return 0  # whether kernels need sizes shows in other calls
                self._lacking = found
            except NotPlanned as error:
                self.reason = str(error)
            except UncorkError as error:
                raise NoPlan(self, str(error)) from None
        return sys.maxsize if self._lacking is None else self._lacking

    @property
    def is_best(self) -> bool:
        """Whether no plan of a narrower scope has more kernels."""
        return self._lacking == 0 or self.scope is Scope.THESE_SIZES

    def make(self, inputs: Sequence[Array], hints: HintsOf) -> tuple[PlannedCall, list[Array]]:
        """The call that was made, and its results.

        Raises CallDeclined where references have to look at it.
        """
        tried: list[PlannedCall] = []
        found_here: Hints = {}
        while True:
            for call in self.calls:
                if call in tried:
                    continue
                tried.append(call)
                found = call.attempt(as_planned(call.plan, inputs))
                if not isinstance(found, Stop):
                    if len(tried) > 1:
                        self._put_first(call)
                    return call, found
                if found.status != GUARD_FAILED:
                    raise CallDeclined
                found_here = found.found
            if self.reason or len(tried) > MOST_TRIES + MOST_PLANS:
                raise CallDeclined
            self.add({**found_here, **hints()}, tried)

    def _put_first(self, call: PlannedCall) -> None:
        """Have this call tried first from now on: calls that alternate try few others."""
        with self._lock.held(wait=False) as alone:  # else a plan is being made, which comes first
            if alone:
                self.calls = [call, *(other for other in self.calls if other is not call)]

    def add(self, hints: Hints, tried: Sequence[PlannedCall]) -> None:
        """Make a plan for a call that the `tried` ones refused, unless another thread has made one,
        or note the reason why there is none.

        Raises NoPlan where it is this call's.
        """
        # A plan imports what the model needs.
        with unforked(), collector_paused(), self._lock.held():
            if self.reason or any(call not in tried for call in self.calls):
                return  # another thread has been here
            if self.calls and self._failures >= MOST_FAILURES:
                self._skipped += 1
                if self._skipped & (self._skipped - 1):  # not the 1st, 2nd, 4th, 8th, ...
                    raise CallDeclined
            try:
                made = self._made(hints)
            except CannotCompile as error:
                self.reason = select.falls_back(error)
            except CompileError:
                raise
            except UncorkError as error:  # which may be a ValueError, too
                raise NoPlan(self, str(error)) from None
            except (NotPlanned, Unbound, ValueError, TypeError) as error:
                self.reason = str(error)
            else:
                if any(call not in tried and _serves(call.plan, hints) for call in self.calls):
                    return  # what came between in this thread has made it, too
                self.calls = [made, *self.calls[: MOST_PLANS - 1]]

    def _made(self, hints: Hints) -> PlannedCall:
        """A new call. Where a kernel turns out not to compile, the next plan does without it."""
        refused = ""
        while True:
            try:
                return _call_of(self._planned(hints, True))
            except CannotCompile as error:
                if str(error) == refused:  # what all plans need
                    raise
                refused = select.falls_back(error)

    def _planned(self, hints: Hints, compiles: bool) -> CallPlan:
        """A new plan. Raises CallDeclined where this call has come between the import of a module
        that planning needs.
        """
        try:
            return self._plan(hints, compiles)
        except ImportError as error:
            if is_begun(error.name):
                raise CallDeclined from None
            raise

    def fail(self, why: str) -> None:
        """Note that a valid call could not be planned.

        After some of them nobody tries again, or where others have a plan, ever more rarely.
        """
        self._failures += 1
        if self._failures >= MOST_FAILURES and not self.calls:
            self.reason = why

    def inspect(self, hints: Hints) -> CallPlan:
        """The plan of such calls, or what it would be: nothing is compiled or kept.

        Raises NotPlanned and what inference raises.
        """
        for call in self.calls:
            if _serves(call.plan, hints):
                return call.plan
        if self.reason:
            raise NotPlanned(self.reason)
        try:
            return self._planned(hints, False)
        except UncorkError:  # which may be a ValueError, too
            raise
        except (Unbound, ValueError, TypeError) as error:
            raise NotPlanned(str(error)) from None

    def made_for(self, hints: Hints) -> CallPlan | None:
        """The plan for such calls, made if need be; None where there is none of this scope. Raises
        what `add` raises.
        """
        if not self.serves(hints):
            self.add(hints, self.calls)
        if self.reason:
            return None
        return next(iter(self.serving(hints)), None)

    def serves(self, hints: Hints) -> bool:
        """Whether there is a plan none of whose guards is known to fail."""
        return bool(self.serving(hints))

    def serving(self, hints: Hints) -> list[CallPlan]:
        """The plans none of whose guards is known to fail, that of the last call first."""
        return [call.plan for call in self.calls if _serves(call.plan, hints)]

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """The native call, of those made so far, that takes sizes like those of these inputs."""
        for call in self.calls:
            if (
                isinstance(call, NativeCall)
                and call.results(as_planned(call.plan, inputs)) is not None
            ):
                return call
        return None


def as_planned(plan: CallPlan, inputs: Sequence[Array]) -> list[Array]:
    """The arrays with element types that are the very objects of NumPy's own arrays.

    Others may be equal to them.
    """
    return [
        array if array.dtype is array_guard.dtype else array.view(array_guard.dtype)
        for array, array_guard in zip(inputs, plan.array_guards, strict=True)
    ]


def _serves(plan: CallPlan, hints: Hints) -> bool:
    """Whether no guard of the plan is known to fail."""
    return _broken(plan, hints, Guard) is None


def _broken(plan: CallPlan, hints: Hints, kind: type[Guard | Check]) -> Relation | None:
    """A guard that is known to fail, or a check that calls of these sizes break, whatever else
    they are.
    """
    for relation in plan.relations:
        values = known_values(relation.symbols, hints)
        if isinstance(relation, kind) and values is not None and not relation.holds(values):
            return relation
    return None


def lacking(plan: CallPlan, hints: Hints, target: Target) -> int | None:
    """The steps of a plan that a kernel would make if the sizes of such a call were numbers.

    None for calls that do not tell: wrong ones, and those of nothing, for which there may be no
    kernel.
    """
    steps = [part for part in plan.parts if isinstance(part, ReferenceStep)]
    if not steps:
        return 0
    is_empty = any(size == 0 and not origin.is_element for origin, size in hints.items())
    if is_empty or _broken(plan, hints, Check) is not None:
        return None
    try:
        room = most_table_bytes(plan.memory_limit)
        return sum(_has_kernel(step, hints, target, room) for step in steps)
    except _Negative:
        return None


class _Negative(Exception):
    """Raised for a size below 0."""


def refuse_wrong_sizes(plan: CallPlan, hints: Hints) -> None:
    """Raise InputError for sizes that break a check."""
    if check := _broken(plan, hints, Check):
        known = known_values(check.symbols, hints) or {}
        left, right = check.left.exact_value(known), check.right.exact_value(known)
        raise InputError(f"expected {check}, got {left} and {right}", check.where)


def _has_kernel(step: ReferenceStep, hints: Hints, target: Target, table_bytes: int) -> bool:
    operation = step.node.operation
    if operation is None:
        return False
    inputs = [spec for spec in (_in_numbers(s, hints) for s in step.specs) if spec is not None]
    outputs = [_in_numbers(port.spec, hints) for port in step.node.outputs]
    if len(inputs) < len(step.specs):
        return False
    known = [spec for spec in outputs if spec is not None]
    if len(known) < len(outputs):  # their ranks may follow from sizes
        try:
            known = list(operation.describe(inputs))
        except UncorkError:
            return False
        if not all(spec.shape.is_static for spec in known):
            return False
    selected = select.select_kernel(operation, inputs, known, target, step.node.hints, table_bytes)
    return not isinstance(selected, str)


def _in_numbers(spec: TensorSpec, hints: Hints) -> TensorSpec | None:
    """The spec with the sizes of a call; None where its hints do not tell them."""
    if spec.rank is None:
        return None
    sizes: list[int] = []
    for dim in spec.shape.dims:
        size = None if dim.size is None else known_size(dim.size, hints)
        if not isinstance(size, int):
            return None
        if size < 0:
            raise _Negative
        sizes.append(size)
    return replace(spec, shape=PartialShape(sizes))


def _call_of(plan: CallPlan) -> PlannedCall:
    if plan.is_native:
        return NativeCall(plan)
    from uncork.compiler.parted_call import PartedCall

    return PartedCall(plan)
