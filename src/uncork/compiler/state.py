"""Models with variables, run by kernels: a call of such a model is a call of one without variables,
with their values among its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.compiler.arguments import owned
from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.plan import Plan
from uncork.concurrency import lazy, unforked
from uncork.errors import UncorkError
from uncork.ir.interpret import State, interpret
from uncork.ir.model import Model, Node
from uncork.passes.functionalize_variables import Lifted, initial_values, variable_of
from uncork.types import Array

#: Makes what runs a model without variables; some of its parameters, by node id, may be empty.
ExecutorOf = Callable[[Model, Collection[int]], BaseExecutor]
#: The results of a call, by the interpreter, which may change the state.
References = Callable[[Sequence[Array], Any], list[Array]]


class OfVariables:
    """The executor of a checked model that has variables, as far as all kinds share it: it holds
    the executors of the lifted model and of initial values.
    """

    def __init__(
        self,
        model: Model,
        lifted: Lifted,
        executor_of: ExecutorOf,
        references: References | None = None,
    ) -> None:
        """`executor_of` makes what runs a model without variables, `references` make the calls that
        this one cannot.
        """
        self.model, self.lifted = model, lifted
        self.by_references = partial(interpret, model) if references is None else references
        #: How many results the model has; what is assigned comes behind them.
        self._count = len(model.results)
        #: The variables that are read as they are.
        self._read = tuple(map(variable_of, lifted.reads))
        reads = (*lifted.reads, *(append.read for append in lifted.appended))
        begin_empty = frozenset(node.id for node in reads)
        self.executor = executor_of(lifted.model, begin_empty)
        self.initial = InitialValues(model, reads, executor_of)

    def plan(self) -> Plan:
        """The plan of a call, with the steps that compute initial values before it."""
        return self.initial.before(self.executor.plan(), lambda initial: initial.plan())

    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan:
        """How calls of inputs of these shapes run, by number."""
        return self.initial.before(
            self.executor.plan_for(shapes), lambda initial: initial.plan_for(shapes)
        )

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Plan calls of inputs of these shapes, by number, and the computing of initial values."""
        self.executor.prepare(shapes)
        self.initial.prepare(shapes)

    def whole(self, name: str, value: Any) -> Array:
        """A variable's value as one array, which may look at its storage."""
        array: Array = value
        return array

    def as_kept(self, name: str, value: Array) -> Any:
        """A variable's value in the form in which the state keeps it."""
        return value

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        self.executor.release_memory()
        self.initial.release_memory()


class StateExecutor(OfVariables):
    """Runs a checked model that has variables, none of which grows in place; may be called from
    several threads, each call with a state of its own.
    """

    def run(self, inputs: Sequence[Array], state: State) -> list[Array]:
        """The results. `state` takes what the model assigns when the call has succeeded."""
        given = self._given(inputs, state)
        if given is None:
            return self.by_references(inputs, state)
        everything = [*inputs, *given]
        try:
            arrays = self.executor.run_as_before(everything) or self.executor.run(everything)
        except UncorkError:
            return self.by_references(inputs, state)  # which say it of the model that was read
        return self._done(owned(arrays, everything), state)

    def run_as_before(self, inputs: Sequence[Any], state: State) -> list[Array] | None:
        """The results, by the plan of the last call; None when these arrays are not like those of
        that call, a variable has no value yet, or no plan made it. Inputs may be anything.
        """
        try:
            given = [state[name] for name in self._read]
        except KeyError:
            return None
        arrays = self.executor.run_as_before([*inputs, *given])
        return None if arrays is None else self._done(arrays, state)

    def _given(self, inputs: Sequence[Array], state: State) -> list[Array] | None:
        """The values of the variables that are read; None where only the interpreter knows them."""
        try:
            return [state[name] for name in self._read]
        except KeyError:
            begun = self.initial.of_unset(inputs, state)
        if begun is None:
            return None
        return [
            begun[node.id] if node.id in begun else state[variable_of(node)]
            for node in self.lifted.reads
        ]

    def without_variables(
        self, inputs: Sequence[Array], state: State
    ) -> tuple[BaseExecutor, list[Array] | None]:
        """The executor of the model without variables, and all arrays that a call gives it; None
        where only the interpreter knows them.
        """
        given = self._given(inputs, state)
        return self.executor, None if given is None else [*inputs, *given]

    def _done(self, arrays: Sequence[Array], state: State) -> list[Array]:
        """The results of the model, from all arrays of a call that has succeeded, each of which is
        nobody else's; those behind them are put into the state.
        """
        state.update(zip(self.lifted.assigned, arrays[self._count :], strict=True))
        return list(arrays[: self._count])


#: Remarks of a plan: when initial values are computed, and where nobody but references can.
_ONLY_AT_FIRST = "steps of <initial values> run in calls that find a variable without a value"
_BY_REFERENCES = (
    "<initial values> depend on other variables: "
    "references make calls that find one without a value"
)


class InitialValues:
    """The initial values of variables: constants, or what the model computes of the inputs."""

    def __init__(self, model: Model, reads: Sequence[Node], executor_of: ExecutorOf) -> None:
        self.model, self.reads = model, reads
        self._executor_of = executor_of
        #: The reads whose initial value the model computes.
        self._computed = tuple(node for node in reads if is_computed(model, node))
        self._constants: dict[int, Array] = {}

    def of_unset(self, inputs: Sequence[Array], state: Collection[str]) -> dict[int, Array] | None:
        """The values that are read of the variables that are not in the state, by node; None where
        only the interpreter knows them.

        Several nodes may read a variable, each with an initial value of its own.
        """
        unset = [node for node in self.reads if variable_of(node) not in state]
        computed: dict[int, Array] = {}
        if not {node.id for node in unset}.isdisjoint(node.id for node in self._computed):
            if self._executor is None:
                return None
            try:
                computed = {
                    node.id: value
                    for node, value in zip(self._computed, self._executor.run(inputs), strict=True)
                }
            except UncorkError:
                return None
        return {
            node.id: computed[node.id] if node.id in computed else self._constant(node)
            for node in unset
        }

    def _constant(self, node: Node) -> Array:
        """The initial value of a read that is known before a call. Nobody writes to it."""
        if node.id not in self._constants:
            self._constants[node.id] = constant_value(self.model, node)
        return self._constants[node.id]

    @lazy
    def _executor(self) -> BaseExecutor | None:
        """The executor that computes the initial values that are no constants; None where they
        depend on variables.
        """
        with unforked():
            model = initial_values(self.model, self._computed)
            return None if model is None else self._executor_of(model, ())

    def before(self, plan: Plan, plan_of: Callable[[BaseExecutor], Plan]) -> Plan:
        """The plan of a call with the steps that compute initial values, which `plan_of` tells."""
        if not self._computed:
            return plan
        if self._executor is None:
            return replace(plan, remarks=(*plan.remarks, _BY_REFERENCES))
        own = plan_of(self._executor)
        steps = [replace(step, layer=f"<initial values> {step.layer}") for step in own.steps]
        known = own.working_bytes is not None and plan.working_bytes is not None
        return replace(
            plan,
            steps=(*steps, *plan.steps),
            working_bytes=(own.working_bytes or 0) + (plan.working_bytes or 0) if known else None,
            guards=tuple(dict.fromkeys((*own.guards, *plan.guards))),
            remarks=(*plan.remarks, _ONLY_AT_FIRST) if steps else plan.remarks,
        )

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Plan the computing of the values."""
        if self._computed and self._executor is not None:
            self._executor.prepare(shapes)

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        if self._computed and self._executor is not None:
            self._executor.release_memory()


def is_computed(model: Model, read: Node) -> bool:
    """Whether the initial value of a ReadValue is computed in a call, not known before."""
    return any(model.spec(source).value is None for source in read.inputs)


def constant_value(model: Model, read: Node) -> Array:
    """The initial value of a ReadValue whose inputs are all known before a call."""
    try:
        specs = [model.spec(source) for source in read.inputs]
        value = read.checked_operation.evaluate(specs)[0].value
    except UncorkError as error:
        raise error.at(read.label) from None
    assert value is not None
    # Of the very type that NumPy gives its own arrays, which plans look for.
    return np.ascontiguousarray(value, np.dtype(value.dtype.char)).reshape(value.shape)
