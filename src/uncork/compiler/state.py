"""Models with variables, run by kernels: a call is one of the model without variables, with their values among its arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.compiler.execute import Executor
from uncork.errors import UncorkError
from uncork.ir.interpret import State, interpret
from uncork.ir.model import Model, Node
from uncork.ops.state import ReadValue3
from uncork.passes.functionalize_variables import Lifted
from uncork.types import Array


class StateExecutor:
    """Runs a checked model that has variables; may be called from several threads, each call with a state of its own."""

    def __init__(self, model: Model, lifted: Lifted) -> None:
        self.model = model
        self.lifted = lifted
        self.executor = Executor(lifted.model, True)
        steady = all(node.outputs[0].spec.shape.is_static for node in lifted.reads)
        self._run = self.executor.run if steady else self.executor.run_patiently

    def run(self, inputs: Sequence[Array], state: State) -> list[Array]:
        """The results. `state` takes what the model assigns when the call has succeeded."""
        given: list[Array] = []
        for node in self.lifted.reads:
            value = self._value(node, state)
            if value is None:  # an initial value that the model computes: for the first call only
                return interpret(self.model, inputs, state)
            given.append(value)
        everything = [*inputs, *given]
        arrays = self.executor.run_as_before(everything) or self._run(everything)
        results, assigned = arrays[: len(self.model.results)], arrays[len(self.model.results) :]
        # The caller may write to the arrays that were given and to the results.
        theirs = {id(array) for array in (*inputs, *results)}
        new = {name: _own(array, theirs) for name, array in zip(self.lifted.assigned, assigned)}
        ours = {id(array) for array in given}
        state.update(new)
        return [array.copy() if id(array) in ours else array for array in results]

    def _value(self, node: Node, state: State) -> Array | None:
        """What a variable holds, or its initial value where that is no result of the model; None where it is one."""
        operation = node.operation
        assert isinstance(operation, ReadValue3)
        if operation.variable_id in state:
            return state[operation.variable_id]
        initial = [self.model.spec(source) for source in node.inputs]
        if any(spec.value is None for spec in initial):
            return None
        try:
            value = operation.evaluate(initial)[0].value
        except UncorkError as error:
            raise error.at(node.label) from None
        return None if value is None else np.ascontiguousarray(value).reshape(value.shape)


def _own(array: Array, theirs: set[int]) -> Array:
    return array.copy() if array.base is not None or id(array) in theirs else np.ascontiguousarray(array).reshape(array.shape)
