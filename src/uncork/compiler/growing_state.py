"""Models with variables that only grow: a call writes what is new into their storage, and moves a length when it has succeeded."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


@dataclass
class _Given:
    """What a call is given beside its inputs: values, and storages with their lengths."""

    values: list[Array]
    storages: list[Array] = field(default_factory=list)
    lengths: list[Array] = field(default_factory=list)

    def among(self, inputs: Sequence[Array]) -> list[Array]:
        """All arrays, as the lifted model takes them."""
        return [*inputs, *self.values, *self.storages, *self.lengths]


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
            arrays = None if given is None else self._call(inputs, given)
            if given is not None and arrays is not None:
                return self._done(inputs, given, arrays, state)
        values = {name: self._whole(name, value) for name, value in state.items()}
        results = interpret(self.model, inputs, values) if self._appends else self._plain.run(inputs, values)
        state.update({name: self._kept(name, value) for name, value in values.items()})
        return results

    def run_as_before(self, inputs: Sequence[Array], state: Values) -> list[Array] | None:
        """The results, when these arrays are like those of the last call, and a plan made that; else None."""
        if not all(_in_order(inputs[number]) for number in self._picked_by):
            return None
        try:
            values = [cast(Array, state[name]) for name in self._plain_names]
            kept = [cast(Kept, state[name]) for name in self._names]
        except KeyError:
            return None
        given = _Given(values, [storage for storage, _ in kept], [length for _, length in kept])
        arrays = self.executor.run_as_before(given.among(inputs))
        return None if arrays is None else self._done(inputs, given, arrays, state)

    def _call(self, inputs: Sequence[Array], given: _Given) -> list[Array] | None:
        """The results, values and lengths of a call; None where no plan makes it."""
        arrays = self.executor.run_as_before(given.among(inputs))
        if arrays is None and self._make_room(inputs, given):
            arrays = self.executor.run_planned(given.among(inputs))
        return arrays

    def _done(self, inputs: Sequence[Array], given: _Given, arrays: Sequence[Array], state: Values) -> list[Array]:
        """The results of a call that has succeeded; the state takes the rest."""
        first, last = len(self.model.results), len(arrays) - len(self._names)
        results = list(arrays[:first])
        new: dict[str, Any] = {}
        if last > first:
            new.update(owned_values(self.lifted.assigned, arrays[first:last], (*inputs, *results)))
            ours = {id(array) for array in given.values}
            results = [array.copy() if id(array) in ours else array for array in results]
        new.update(zip(self._names, zip(given.storages, arrays[last:])))
        state.update(new)
        return results

    # ---- what a call is given

    def _given(self, inputs: Sequence[Array], state: Values) -> _Given | None:
        """What the state holds, with the rows that are picked; None where only the interpreter knows that."""
        begun: dict[int, Array] | None = {}
        if not all(name in state for name in (*self._plain_names, *self._names)):
            begun = self.initial.of_unset(inputs, state.keys())
        if begun is None:
            return None
        given = _Given([begun[n.id] if n.id in begun else cast(Array, state[variable_of(n)]) for n in self.lifted.reads])
        for append in self.lifted.appended:
            name, value = append.variable, begun.get(append.read.id)
            storage, length = cast(Kept, state[name] if value is None else self._kept(name, value))
            given.storages.append(storage)
            given.lengths.append(length)
        moved = [number for number in self._picked_by if not _in_order(inputs[number])]
        if moved and not self._pick(inputs, given, lambda pick, _: pick.input in moved):
            return None
        return given

    def _pick(self, inputs: Sequence[Array], given: _Given, wanted: Callable[[Pick, Array], bool]) -> bool:
        """Give storages of the rows that are picked, where that is wanted. False where only the interpreter knows them."""
        for place, append in enumerate(self.lifted.appended):
            pick, storage = append.pick, given.storages[place]
            if pick is not None and wanted(pick, storage):
                picked = _picked(append, pick, storage, int(given.lengths[place][0]), inputs[pick.input])
                if picked is None:
                    return False
                given.storages[place] = picked
        return True

    def _make_room(self, inputs: Sequence[Array], given: _Given) -> bool:
        """Give storages that the call fits into. False where it is none that appends."""
        if not self._pick(inputs, given, lambda pick, storage: len(inputs[pick.input]) != storage.shape[pick.axis]):
            return False
        needed = self.executor.extended(given.among(inputs))
        if needed is None:
            self._appends = False
            return False
        for place, append in enumerate(self.lifted.appended):
            storage, axis = given.storages[place], append.axis
            shape, least = storage.shape, needed.get(len(inputs) + len(given.values) + place)
            if least is None or (*shape[:axis], *shape[axis + 1 :]) != (*least[:axis], *least[axis + 1 :]):
                return False
            if least[axis] > shape[axis]:
                others = sum(array.nbytes for array in given.storages) - storage.nbytes
                given.storages[place] = _grown(append, storage, int(given.lengths[place][0]), least[axis], others)
        return True

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
