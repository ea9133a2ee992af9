"""Models with variables that only grow: a call writes what is new into their storage.

A length moves when the call has succeeded, so that none that fails has to be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.plan import Plan
from uncork.compiler.state import (
    ExecutorOf,
    OfVariables,
    References,
    StateExecutor,
)
from uncork.compiler.state_storage import begun as begun_in
from uncork.compiler.state_storage import first_of, grown, in_order, kept, selected_rows
from uncork.compiler.variable_values import Kept, Values
from uncork.concurrency import lazy, unforked
from uncork.ir.model import Model
from uncork.passes.functionalize_variables import Lifted, functionalize_variables, variable_of
from uncork.passes.match_appends import RowSelection
from uncork.types import Array


class _CallInputs:
    """The arrays that a call is given beside its inputs: values of variables, and the storages and
    lengths of variables that grow.
    """

    def __init__(self, values: list[Array], kept: list[Kept]) -> None:
        self.values, self.kept = values, kept

    def embedded(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs with all these arrays behind them, in the order in which the lifted model
        takes them.
        """
        return [*inputs, *self.values, *[k[0] for k in self.kept], *[k[1] for k in self.kept]]

    @property
    def held(self) -> int:
        """The bytes of all storages."""
        return sum(
            array.nbytes
            for storage, _, spare in self.kept
            for array in (storage, spare)
            if array is not None
        )


def stateful(model: Model, executor_of: ExecutorOf) -> StateExecutor | GrowingStateExecutor | None:
    """The executor of a model with variables; None where only the interpreter runs it."""
    lifted = functionalize_variables(model)
    if lifted is None:
        return None
    if not lifted.appended:
        return StateExecutor(model, lifted, executor_of)

    def plain() -> StateExecutor:
        unchanged = functionalize_variables(model, in_place=False)
        assert unchanged is not None
        return StateExecutor(model, unchanged, executor_of)

    return GrowingStateExecutor(model, lifted, executor_of, plain)


class GrowingStateExecutor(OfVariables):
    """The executor of a checked model that has variables which grow.

    It may be called from several threads, each call with a state of its own.
    """

    def __init__(
        self,
        model: Model,
        lifted: Lifted,
        executor_of: ExecutorOf,
        plain: Callable[[], StateExecutor],
        references: References | None = None,
    ) -> None:
        """`executor_of` makes what runs a model without variables, `references` make the calls that
        this one cannot.

        `plain` makes what runs this one where nothing can grow in place.
        """
        super().__init__(model, lifted, executor_of, references)
        self._make_plain = plain
        self._names = tuple(append.variable for append in lifted.appended)
        self._row_indices = tuple(
            dict.fromkeys(
                append.selection.input for append in lifted.appended if append.selection is not None
            )
        )
        #: There is a plan that appends, as far as anybody knows.
        self._appends = True

    def run(self, inputs: Sequence[Array], state: Values) -> list[Array]:
        """The results. `state` takes what the model assigns when the call has succeeded."""
        if self._appends:
            given = self._given(inputs, state)
            arrays = None if given is None else self._call(inputs, given)
            if given is not None and arrays is not None:
                return self._done(given, arrays, state)
        values = {name: self.whole(name, value) for name, value in state.items()}
        results = (
            self.by_references(inputs, values) if self._appends else self._plain.run(inputs, values)
        )
        state.update({name: self.as_kept(name, value) for name, value in values.items()})
        return results

    def run_as_before(self, inputs: Sequence[Any], state: Values) -> list[Array] | None:
        """The results, by the plan of the last call; None when these arrays are not like those of
        that call, or a variable has no value yet. Inputs may be anything.
        """
        if not all(in_order(inputs[number]) for number in self._row_indices):
            return None
        try:
            values = [cast(Array, state[name]) for name in self._read]
            given = _CallInputs(values, [cast(Kept, state[name]) for name in self._names])
        except KeyError:
            return None
        arrays = self.executor.run_as_before(given.embedded(inputs))
        return None if arrays is None else self._done(given, arrays, state)

    def _call(self, inputs: Sequence[Array], given: _CallInputs) -> list[Array] | None:
        """The results, values and lengths of a call; None where no plan makes it."""
        arrays = self.executor.run_as_before(given.embedded(inputs))
        if arrays is None and self._reserve(inputs, given):
            arrays = self.executor.run_planned(given.embedded(inputs))
        return arrays

    def without_variables(
        self, inputs: Sequence[Array], state: Values
    ) -> tuple[BaseExecutor, list[Array] | None]:
        """See `StateExecutor.without_variables`; the storages have room for what is appended."""
        state.own()
        given = self._given(inputs, state) if self._appends else None
        if given is not None and self._reserve(inputs, given):
            return self.executor, given.embedded(inputs)
        values = {name: self.whole(name, value) for name, value in state.items()}
        return self._plain.without_variables(inputs, values)

    def _done(self, given: _CallInputs, arrays: Sequence[Array], state: Values) -> list[Array]:
        """The results of the model, from all arrays of a call that has succeeded, which are new
        ones; those behind them are put into the state.
        """
        last = len(arrays) - len(self._names)
        new: dict[str, Any] = dict(
            zip(self.lifted.assigned, arrays[self._count : last], strict=True)
        )
        for name, k, length in zip(self._names, given.kept, arrays[last:], strict=True):
            new[name] = k[0], length, k[2]
        state.update(new)
        return list(arrays[: self._count])

    # ---- what a call is given

    def _given(self, inputs: Sequence[Array], state: Values) -> _CallInputs | None:
        """The values of the state for a call, with the rows that are picked; None where only the
        interpreter knows them.
        """
        begun: dict[int, Array] | None = {}
        if not all(name in state for name in (*self._read, *self._names)):
            begun = self.initial.of_unset(inputs, state.keys())
        if begun is None:
            return None
        values = [
            begun[n.id] if n.id in begun else cast(Array, state[variable_of(n)])
            for n in self.lifted.reads
        ]
        given = _CallInputs(values, [])
        for append in self.lifted.appended:
            value = begun.get(append.read.id)
            given.kept.append(
                cast(Kept, state[append.variable])
                if value is None
                else begun_in(value, append.axis, state.spares.pop(append.variable, None))
            )
        moved = [number for number in self._row_indices if not in_order(inputs[number])]
        if moved and not self._select_rows(inputs, given, lambda pick, _: pick.input in moved):
            return None
        return given

    def _select_rows(
        self,
        inputs: Sequence[Array],
        given: _CallInputs,
        wanted: Callable[[RowSelection, Array], bool],
    ) -> bool:
        """Replace storages by ones of the picked rows, for the picks that are `wanted`.

        False where only the interpreter knows what comes of the picks.
        """
        for index, append in enumerate(self.lifted.appended):
            pick, old = append.selection, given.kept[index]
            if pick is not None and wanted(pick, old[0]):
                new = selected_rows(append, pick, old, inputs[pick.input], given.held)
                if new is None:
                    return False
                given.kept[index] = new
        return True

    def _reserve(self, inputs: Sequence[Array], given: _CallInputs) -> bool:
        """Make the storages large enough for what the call appends. False where it is no call that
        appends.
        """
        if not self._select_rows(
            inputs, given, lambda pick, storage: len(inputs[pick.input]) != storage.shape[pick.axis]
        ):
            return False
        needed = self.executor.extended(given.embedded(inputs))
        if needed is None:
            self._appends = False
            return False
        for index, append in enumerate(self.lifted.appended):
            shape, axis = given.kept[index][0].shape, append.axis
            least = needed.get(len(inputs) + len(given.values) + index)
            if least is None or (*shape[:axis], *shape[axis + 1 :]) != (
                *least[:axis],
                *least[axis + 1 :],
            ):
                return False
            if least[axis] > shape[axis]:
                given.kept[index] = grown(append, given.kept[index], least[axis], given.held)
        return True

    # ---- values of variables

    def whole(self, name: str, value: Array | Kept) -> Array:
        """A variable's value as one array, which may look at its storage."""
        if not isinstance(value, tuple):
            return value
        return np.ascontiguousarray(first_of(value[0], self._axis(name), int(value[1][0])))

    def as_kept(self, name: str, value: Array) -> Array | Kept:
        """A variable's value in the form in which the state keeps it."""
        return kept(value, self._axis(name)) if name in self._names else value

    def _axis(self, name: str) -> int:
        return self.lifted.appended[self._names.index(name)].axis

    @lazy
    def _plain(self) -> StateExecutor:
        with unforked():
            return self._make_plain()

    def plan(self) -> Plan:
        """The plan of a call; see `Executor.plan`."""
        return super().plan() if self._appends else self._plain.plan()

    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> Plan:
        """How calls of inputs of these shapes run, by number."""
        return super().plan_for(shapes) if self._appends else self._plain.plan_for(shapes)

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        super().release_memory()
        if not self._appends:
            self._plain.release_memory()
