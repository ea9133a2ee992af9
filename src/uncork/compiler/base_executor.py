"""What all executors of models share: calls like the one before, and the values of variables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from uncork.files import MappedFile
from uncork.ir.model import Model
from uncork.kernels.runtime.target import Target
from uncork.passes.functionalize_variables import growing_axes
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.compiler.growing_state import GrowingStateExecutor
    from uncork.compiler.native_call import NativeCall
    from uncork.compiler.plan import Plan
    from uncork.compiler.state import StateExecutor
    from uncork.compiler.variable_values import Values


class NativelyMade(Protocol):
    """A call that is made by native code. `run` is safe to call with anything: it gives a list of
    new results, or a number, with which `retry` is asked.
    """

    @property
    def run(self) -> Callable[..., Any]: ...

    def retry(self, found: int, inputs: Sequence[Any]) -> list[Array] | None: ...


class RunsModel(Protocol):
    """What every executor of a model does."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types, from one carrier array per parameter."""

    def run_as_before(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results, when these arrays are like those of the last call; else None."""

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Plan the calls of inputs of these shapes, by number, and compile their kernels."""

    def plan(self) -> Plan:
        """The plan of the last call; before any call, what can be said of one."""


class BaseExecutor(RunsModel):
    """The executor of a model; may be called from several threads."""

    model: Model
    target: Target | None
    threads: int
    #: Where constants are mapped; they must be whole when a call begins.
    files: Sequence[MappedFile]
    memory_limit: int | None
    #: What made the call before this one.
    last: NativelyMade | None

    @property
    @abstractmethod
    def stateful(self) -> StateExecutor | GrowingStateExecutor | None:
        """The executor of a model with variables; None when the model has none, or only the
        interpreter runs it.
        """

    @abstractmethod
    def run_planned(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results by a plan for every size; None where there is none, or it refuses the
        call.
        """

    @abstractmethod
    def extended(self, inputs: Sequence[Array]) -> Mapping[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that a call writes to; None where there is no
        plan for it.
        """

    @abstractmethod
    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """One native call for arrays of these shapes and of the model's types; None when there is
        no such call.
        """

    @abstractmethod
    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan:
        """The plan of calls with inputs of these shapes, by number."""

    @abstractmethod
    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""

    @abstractmethod
    def without_variables(
        self, inputs: Sequence[Array], state: Values
    ) -> tuple[BaseExecutor, Sequence[Array]]:
        """The executor of the model without variables, and what a call gives it, which finds this
        state; itself where there are no variables, or the interpreter runs them.
        """

    @abstractmethod
    def as_it_runs(self, inputs: Sequence[Array]) -> Model:
        """The model after the passes for a call of these inputs: its layers are the steps, and all
        sizes are known.
        """

    def as_planned(self, inputs: Sequence[Array]) -> Model | None:
        """The same with the sizes open that the plan of the call leaves open; None where there is
        no plan.
        """
        return None

    def run_as_before(self, inputs: Sequence[Array]) -> list[Array] | None:
        last = self.last
        if last is None:
            return None
        found: Any = last.run(*inputs)
        return found if type(found) is list else last.retry(found, inputs)

    def run_with_state(self, inputs: Sequence[Array], state: Values) -> list[Array]:
        """`run` for a model with variables, whose values `state` keeps by their ids; it changes
        when the call has succeeded.
        """
        stateful = self.stateful
        if stateful is None:
            from uncork.ir.interpret import State, interpret  # where no kernels run the model

            return interpret(self.model, inputs, cast(State, state))
        if state.holders:
            state.own()
        return stateful.run(inputs, cast(Any, state))

    def run_with_state_as_before(self, inputs: Sequence[Any], state: Values) -> list[Array] | None:
        """The results of a model with variables when the arrays are like those of the last call and
        a plan made that; else None. Inputs may be anything.
        """
        stateful = self.stateful
        if state.holders:
            state.own()
        return None if stateful is None else stateful.run_as_before(inputs, cast(Any, state))

    def value_of(self, variable: str, state: Values) -> Array | None:
        """What a variable holds; None where nothing was assigned to it. It may be looked at until
        the next call.
        """
        value, stateful = state.get(variable), self.stateful
        if value is None or stateful is None:
            return cast("Array | None", value)
        return stateful.whole(variable, value)

    def set_value(self, variable: str, value: Array, state: Values) -> None:
        """Assign an array to a variable."""
        stateful = self.stateful
        state[variable] = value if stateful is None else stateful.as_kept(variable, value)

    def growing_axes(self) -> dict[str, int]:
        """The axes along which variables grow, by their ids."""
        return growing_axes(self.model)
