"""Calls by the plans of a compiled file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from uncork.compiler import plan as printed
from uncork.compiler.arguments import owned
from uncork.compiler.image import format
from uncork.compiler.image.instance import Instance, LoadedPlan
from uncork.compiler.instances import Instances
from uncork.errors import InputError
from uncork.kernels.runtime.layout import CHECK_FAILED, GUARD_FAILED, OTHER_ARGUMENTS, OVERFLOW
from uncork.types import Array


class NotPlanned(InputError):
    """Raised for a call that no plan of a compiled file takes."""


class ImageCall(Instances[Instance]):
    """Calls by one plan. May be used from several threads, each in memory of its own."""

    def __init__(self, loaded: LoadedPlan, memory_limit: int | None) -> None:
        super().__init__()
        self.loaded, self._limit = loaded, memory_limit
        self._nothing = (None,) * loaded.plan.nothing
        self._begin()
        #: Whether the arrays that a call makes are the results of the model, all and in order.
        self.is_whole = list(loaded.plan.results) == [
            format.Result(number) for number in range(len(loaded.plan.results))
        ]
        #: What makes calls like the one before, of any arguments.
        self.fast = self if self.is_whole and not self._nothing else _FromInputs(self)

    def _made(self, like: Instance | None = None) -> Instance:
        made = Instance(self.loaded, self._limit)
        if like is not None:
            made.copy_needs(like)
            made.grow()
        return made

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until they end."""
        self._begin()

    def attempt(self, inputs: Sequence[Array]) -> list[Array] | int:
        """The results, or why there are none: see `layout`."""
        given = (*inputs, *self._nothing)
        found = self.finish(self.run(*given), given)
        return found if isinstance(found, int) or self.is_whole else self._results(found, inputs)

    def _results(self, made: list[Array], inputs: Sequence[Array]) -> list[Array]:
        first = self._instances[0]
        results: list[Array] = []
        for result in self.loaded.plan.results:
            array = inputs[result.number] if result.is_given else made[result.number]
            if result.sizes is not None:
                array = array.reshape([number_of(size, first) for size in result.sizes])
            results.append(array)
        return owned(results, inputs)

    def why(self, status: int) -> str:
        """What is wrong with a call that has this status."""
        plan, failed = self.loaded.plan, self._instances[0].failed
        if status == OVERFLOW:
            return "its sizes are more than 64 bits can count"
        if status in (CHECK_FAILED, GUARD_FAILED) and failed < len(plan.conditions):
            if failed < 0:
                return (
                    "a size is outside of what the plan is for (inputs without elements have plans "
                    "of their own: --shape NAME=0)"
                )
            condition = plan.conditions[failed]
            if condition.is_guard:
                return f"the plan is for calls in which {condition.text} ({condition.where})"
            return f"expected {condition.text} ({condition.where})"
        if status >= 0:
            steps = [step for step in plan.steps if step.kernel not in ("view", "")]
            which = f"'{steps[status].layer}'" if status < len(steps) else "a layer"
            return f"{which} met a value that kernels do not compute with"
        return f"the plan does not take it (status {status})"


class _FromInputs:
    """The calls of a plan whose native entry is given more than the inputs of the model, or gives
    other arrays than its results.
    """

    def __init__(self, call: ImageCall) -> None:
        self._call = call

    def run(self, *inputs: Any) -> list[Array] | int:
        """The results, or a number where the plan does not make the call."""
        return self._call.attempt(inputs)

    def retry(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """None: a call for which `run` gave a number has no results."""
        return None


def number_of(size: int, instance: Instance) -> int:
    """A size as `format.Result` writes it, in the last call of an instance."""
    return size if size >= 0 else instance.slot(-1 - size)


class ImagePlans:
    """The plans of a model for one target, tried one after the other."""

    def __init__(
        self,
        plans: Sequence[LoadedPlan],
        where: str,
        memory_limit: int | None,
        otherwise: Callable[[Sequence[Array]], list[Array]] | None = None,
    ) -> None:
        """`where` names the model in messages; `otherwise` makes calls that no plan takes."""
        self._otherwise = otherwise
        self.calls = [ImageCall(plan, memory_limit) for plan in plans]
        self._where = where
        #: What made the last call, where it gives results as they are. Safe to run with anything.
        self.fast: ImageCall | _FromInputs | None = None

    def make(self, inputs: Sequence[Array]) -> list[Array]:
        """The results. Raises NotPlanned for a call that no plan takes."""
        reasons: list[str] = []
        for call in self.calls:
            given = _as_planned(call.loaded.plan, inputs)
            found = None if given is None else call.attempt(given)
            if isinstance(found, list):
                self.fast = call.fast
                return found
            status = OTHER_ARGUMENTS if found is None else found
            reasons.append("it has other types or ranks" if found is None else call.why(status))
            if status not in (GUARD_FAILED, OTHER_ARGUMENTS):
                break
        if self._otherwise is not None:
            return self._otherwise(inputs)
        raise NotPlanned(
            f"cannot be called so: {'; '.join(dict.fromkeys(reasons))}: compile the model for such "
            "sizes (--shape) or with its source (--with-source), or load its .xml",
            self._where,
        )

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return sum(call.working_bytes for call in self.calls)

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        self.fast = None
        for call in self.calls:
            call.release_memory()

    def extended(self, inputs: Sequence[Array]) -> Mapping[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that a call writes to."""
        call = self.calls[0]
        instance = Instance(call.loaded)
        instance.bind(inputs)
        return {
            number: tuple(number_of(size, instance) for size in sizes)
            for number, sizes in call.loaded.plan.extended
        }

    def printed(self) -> printed.Plan:
        """The plan, to print."""
        plan = self.calls[0].loaded.plan
        return printed.Plan(
            tuple(
                printed.Step(s.layer, s.operation, s.kernel, "", s.outputs, s.place, s.note)
                for s in plan.steps
            ),
            self.working_bytes,
            tuple(f"{c.text} ({c.where})" for c in plan.conditions if c.is_guard and c.text),
            ("from a compiled file",),
            len(self.calls),
        )


def _as_planned(plan: format.Plan, inputs: Sequence[Array]) -> list[Any] | None:
    """The arrays with the element types that NumPy gives its own; None where ranks or types are
    others.
    """
    given: list[Any] = []
    for argument, array in zip(plan.arguments, inputs, strict=True):
        dtype = np.dtype(np.dtype(argument.dtype).char)
        if array.dtype != dtype or array.ndim != len(argument.shape):
            return None
        array = array if array.dtype is dtype else array.view(dtype)
        given.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
    return given
