"""Models with variables, run by kernels: a call is one of the model without variables, with their values among its arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from uncork.compiler.plan import Plan
from uncork.concurrency import lazy, unforked
from uncork.errors import UncorkError
from uncork.ir.interpret import State, interpret
from uncork.ir.model import Model, Node
from uncork.ops.state import ReadValue3
from uncork.passes.functionalize_variables import Lifted, initial_values
from uncork.types import Array


class StatelessExecutor(Protocol):
    """Runs a model without variables; see `Executor`."""

    def run(self, inputs: Sequence[Array]) -> list[Array]: ...

    def run_as_before(self, inputs: Sequence[Array]) -> list[Array] | None: ...

    def plan(self) -> Plan: ...

    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan: ...

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None: ...

    def release_memory(self) -> None: ...


#: Makes what runs a model without variables; some of its parameters, by node id, may be empty.
ExecutorOf = Callable[[Model, Collection[int]], StatelessExecutor]


class StateExecutor:
    """Runs a checked model that has variables; may be called from several threads, each call with a state of its own."""

    def __init__(self, model: Model, lifted: Lifted, executor_of: ExecutorOf) -> None:
        """`executor_of` makes what runs a model without variables."""
        self.model = model
        self.lifted = lifted
        self.executor = executor_of(lifted.model, frozenset(node.id for node in lifted.reads))  # which begin empty
        self._executor_of = executor_of
        #: The reads whose initial value the model computes.
        self._computed = tuple(node for node in lifted.reads if any(model.spec(source).value is None for source in node.inputs))

    def run(self, inputs: Sequence[Array], state: State) -> list[Array]:
        """The results. `state` takes what the model assigns when the call has succeeded."""
        given = self._values(inputs, state)
        if given is None:
            return interpret(self.model, inputs, state)
        everything = [*inputs, *given]
        try:
            arrays = self.executor.run_as_before(everything) or self.executor.run(everything)
        except UncorkError:
            return interpret(self.model, inputs, state)  # which says it of the model that was read
        results, assigned = arrays[: len(self.model.results)], arrays[len(self.model.results) :]
        # The caller may write to the arrays that were given and to the results.
        theirs = {id(array) for array in (*inputs, *results)}
        new = {name: _own(array, theirs) for name, array in zip(self.lifted.assigned, assigned)}
        ours = {id(array) for array in given}
        state.update(new)
        return [array.copy() if id(array) in ours else array for array in results]

    def _values(self, inputs: Sequence[Array], state: State) -> list[Array] | None:
        """What each variable that is read holds, or its initial value; None where only the interpreter knows that."""
        computed: dict[int, Array] = {}
        if any(_variable(node) not in state for node in self._computed):
            if self._initial is None:
                return None
            try:
                computed = {node.id: value for node, value in zip(self._computed, self._initial.run(inputs))}
            except UncorkError:
                return None
        given: list[Array] = []
        for node in self.lifted.reads:
            value = state.get(_variable(node))
            if value is None:
                value = computed[node.id] if node.id in computed else self._constant(node)
            given.append(value)
        return given

    def _constant(self, node: Node) -> Array:
        """An initial value that is no result of the model."""
        operation = node.operation
        assert operation is not None
        try:
            value = operation.evaluate([self.model.spec(source) for source in node.inputs])[0].value
        except UncorkError as error:
            raise error.at(node.label) from None
        assert value is not None
        return np.ascontiguousarray(value).reshape(value.shape)

    @lazy
    def _initial(self) -> StatelessExecutor | None:
        """What computes the initial values that are no constants; None where they depend on variables."""
        with unforked():
            model = initial_values(self.model, self._computed)
            return None if model is None else self._executor_of(model, ())

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        self.executor.release_memory()
        if self._computed and self._initial is not None:
            self._initial.release_memory()


def _variable(node: Node) -> str:
    assert isinstance(node.operation, ReadValue3)
    return node.operation.variable_id


def _own(array: Array, theirs: set[int]) -> Array:
    return array.copy() if array.base is not None or id(array) in theirs else np.ascontiguousarray(array).reshape(array.shape)
