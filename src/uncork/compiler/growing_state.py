"""Models with variables that only grow: a call writes what is new into their storage, and moves a length when it has succeeded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Union, cast

import numpy as np

from uncork.compiler.state import ExecutorOf, InitialValues, StateExecutor, owned_values
from uncork.concurrency import lazy, unforked
from uncork.errors import InputError
from uncork.ir.interpret import interpret
from uncork.ir.model import Model
from uncork.memory import available
from uncork.passes.functionalize_variables import Lifted, functionalize_variables, variable_of
from uncork.passes.match_appends import Append, Pick
from uncork.types import Array

#: A storage, and how many elements of it along the axis are the variable's value: i64 [1]. Neither is changed once a call has left
#: it in the state, but for what lies behind these elements.
Kept = tuple[Array, Array]
#: The variables' values by id; of those that grow, as they are kept.
Values = dict[str, Union[Array, Kept]]

#: Elements that a storage has room for beyond those needed, at least: where they take no more than so many bytes in all.
_MORE, _FEW_BYTES = 64, 1 << 20


def stateful(model: Model, executor_of: ExecutorOf) -> StateExecutor | GrowingStateExecutor | None:
    """What runs a model with variables by kernels; None where only the interpreter does."""
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


class GrowingStateExecutor:
    """Runs a checked model that has variables which grow; may be called from several threads, each call with a state of its own."""

    def __init__(
        self,
        model: Model,
        lifted: Lifted,
        executor_of: ExecutorOf,
        plain: Callable[[], StateExecutor],
    ) -> None:
        """`executor_of` makes what runs a model without variables, `plain` what runs this one where nothing can grow in place."""
        self.model, self.lifted = model, lifted
        reads = (*lifted.reads, *(append.read for append in lifted.appended))
        self.executor = executor_of(lifted.model, frozenset(node.id for node in reads))  # which begin empty
        self.initial = InitialValues(model, reads, executor_of)
        self._make_plain = plain
        self._plain_names = tuple(map(variable_of, lifted.reads))
        self._names = tuple(append.variable for append in lifted.appended)
        self._picked_by = tuple(dict.fromkeys(append.pick.input for append in lifted.appended if append.pick is not None))
        #: There is a plan that appends, as far as anybody knows.
        self._appends = True

    def run(self, inputs: Sequence[Array], state: Values) -> list[Array]:
        """The results. `state` takes what the model assigns when the call has succeeded."""
        if self._appends:
            given = self._given(inputs, state)
            everything = [] if given is None else [*inputs, *given]
            arrays = self.executor.run_as_before(everything) if everything else None
            if arrays is None and everything:
                everything = self._with_room(everything, len(inputs)) or []
                arrays = self.executor.run_planned(everything) if everything else None
            if arrays is not None:
                return self._done(everything, arrays, len(inputs), state)
        values = {name: self._whole(name, value) for name, value in state.items()}
        results = interpret(self.model, inputs, values) if self._appends else self._plain.run(inputs, values)
        state.update({name: self._kept(name, value) for name, value in values.items()})
        return results

    def _done(self, everything: Sequence[Array], arrays: Sequence[Array], inputs: int, state: Values) -> list[Array]:
        """The results of a call that has succeeded; the state takes the rest."""
        first, last = len(self.model.results), len(arrays) - len(self._names)
        results = list(arrays[:first])
        new: dict[str, Any] = {}
        if last > first:
            new.update(owned_values(self.lifted.assigned, arrays[first:last], (*everything[:inputs], *results)))
            ours = {id(array) for array in everything[inputs:]}
            results = [array.copy() if id(array) in ours else array for array in results]
        storages = everything[inputs + len(self._plain_names) :]
        new.update(zip(self._names, zip(storages, arrays[last:])))
        state.update(new)
        return results

    # ---- what a call is given

    def _given(self, inputs: Sequence[Array], state: Values) -> list[Array] | None:
        """Values, storages and lengths as the lifted model takes them; None where only the interpreter knows them."""
        if not all(name in state for name in (*self._plain_names, *self._names)):
            begun = self.initial.of_unset(inputs, state.keys())
            if begun is None:
                return None
            state = {**state, **{name: self._kept(name, value) for name, value in begun.items()}}
        values = [cast(Array, state[name]) for name in self._plain_names]
        kept = [cast(Kept, state[name]) for name in self._names]
        storages, lengths = [storage for storage, _ in kept], [length for _, length in kept]
        for number in self._picked_by:
            if not _in_order(inputs[number]):
                for place, append in enumerate(self.lifted.appended):
                    if append.pick is not None and append.pick.input == number:
                        found = _picked(
                            append,
                            append.pick,
                            storages[place],
                            int(lengths[place][0]),
                            inputs[number],
                        )
                        if found is None:
                            return None
                        storages[place] = found
        return [*values, *storages, *lengths]

    def _with_room(self, everything: Sequence[Array], inputs: int) -> list[Array] | None:
        """The same with storages that the call fits into; None where it is no call that appends."""
        count, first = len(self._names), inputs + len(self._plain_names)
        found = list(everything)
        for place, append in enumerate(self.lifted.appended, first):
            if append.pick is not None and len(picks := everything[append.pick.input]) != found[place].shape[append.pick.axis]:
                picked = _picked(append, append.pick, found[place], int(found[place + count][0]), picks)
                if picked is None:
                    return None
                found[place] = picked
        needed = self.executor.extended(found)
        if needed is None:
            self._appends = False
            return None
        for place, append in enumerate(self.lifted.appended, first):
            shape, least, axis = found[place].shape, needed.get(place), append.axis
            if least is None or (*shape[:axis], *shape[axis + 1 :]) != (
                *least[:axis],
                *least[axis + 1 :],
            ):
                return None
            if least[axis] > shape[axis]:
                others = sum(array.nbytes for i, array in enumerate(found[first : first + count], first) if i != place)
                found[place] = _grown(append, found[place], int(found[place + count][0]), least[axis], others)
        return found

    # ---- values of variables

    def _whole(self, name: str, value: Array | Kept) -> Array:
        """A variable's value as an array of its own."""
        if not isinstance(value, tuple):
            return value
        storage, length = value
        return np.ascontiguousarray(storage[_first(self._axis(name), int(length[0]))])

    def _kept(self, name: str, value: Array) -> Array | Kept:
        """A variable's value as it is kept."""
        if name not in self._names:
            return value
        return np.ascontiguousarray(value).reshape(value.shape), np.array([value.shape[self._axis(name)]], np.int64)

    def _axis(self, name: str) -> int:
        return self.lifted.appended[self._names.index(name)].axis

    @lazy
    def _plain(self) -> StateExecutor:
        with unforked():
            return self._make_plain()

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        self.executor.release_memory()
        self.initial.release_memory()
        if not self._appends:
            self._plain.release_memory()


def _first(axis: int, count: int) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(count),)


@functools.lru_cache(maxsize=64)
def _numbers(count: int, dtype: np.dtype[Any]) -> bytes:
    return np.arange(count, dtype=dtype).tobytes()


def _in_order(picks: Array) -> bool:
    """The picks are 0, 1, 2, ..: every row stays where it is, if there are as many."""
    return picks.tobytes() == _numbers(picks.size, picks.dtype)


def _picked(append: Append, pick: Pick, storage: Array, length: int, picks: Array) -> Array | None:
    """A storage of the rows that are picked; None where only the interpreter knows what comes of them."""
    rows, operation = storage.shape[pick.axis], pick.node.operation
    if append.shape_is_read and len(picks) != rows:
        return None
    low = -rows if getattr(operation, "counts_from_end", False) else 0
    numbers = picks.tolist()
    outside = any(not low <= row < rows for row in numbers)
    if outside and (length or pick.node.operation is None or pick.node.operation.strict):
        return None
    new = np.empty((*storage.shape[: pick.axis], len(numbers), *storage.shape[pick.axis + 1 :]), storage.dtype)
    to, of = (array[_first(append.axis, length)].swapaxes(0, pick.axis) for array in (new, storage))
    for place, row in enumerate(numbers if length else ()):
        to[place] = of[row]
    return new


def _grown(append: Append, storage: Array, length: int, needed: int, others: int) -> Array:
    """A larger storage of the same value. Raises InputError where this process cannot hold it beside so many bytes of `others`."""
    axis, shape = append.axis, storage.shape
    each = math.prod((*shape[:axis], *shape[axis + 1 :])) * storage.itemsize
    limit, whose = available()
    if others + needed * each > limit:
        raise InputError(
            f"variable '{append.variable}' would hold {needed:,} elements along axis {axis}, {needed * each:,} bytes; with the other "
            f"variables that is more than {whose} ({limit:,} bytes): call reset_state(), or give fewer at a time",
            append.read.label,
        )
    more = max(needed // 2, _MORE if each * _MORE <= _FEW_BYTES else 0)
    capacity = needed + more if others + (needed + more) * each <= limit else needed
    new = np.empty((*shape[:axis], capacity, *shape[axis + 1 :]), storage.dtype)
    kept = _first(axis, length)
    new[kept] = storage[kept]
    return new
