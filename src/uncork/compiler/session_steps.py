"""A step of sessions: their rows go from the memory through batches into rows that are kept when
all batches have succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from uncork.compiler.session_batches import Batches, check_shapes
from uncork.compiler.session_memory import Rows, SessionMemory
from uncork.types import Array


def stepped(
    batches: Batches,
    memory: SessionMemory,
    places: Array,
    frames: Sequence[Array],
    may_spare: bool,
) -> list[Array]:
    """The results of a step of the sessions in these places of the memory, which holds what comes
    after it then. `frames` are carriers; `may_spare`: nobody else uses the memory's spare rows.
    """
    step = _Step(batches, memory, places, frames, may_spare)
    results = step.run()
    memory.keep(places, step.new)
    return results


class _Step:
    """A step before it is told."""

    def __init__(
        self,
        batches: Batches,
        memory: SessionMemory,
        places: Array,
        frames: Sequence[Array],
        may_spare: bool,
    ) -> None:
        self._batches, self._memory, self._model = batches, memory, batches.model
        self._frames = frames
        self._begin(places)
        self._old = memory.of(places)
        #: The rows that the step writes.
        self.new = memory.room(len(places), may_spare)
        self._groups = memory.groups(places)

    def _begin(self, places: Array) -> None:
        """Have sessions without a step begin."""
        memory, model = self._memory, self._model
        fresh = memory.fresh[places]
        if not fresh.any():
            return
        if model.begins_alike:
            memory.begin(places[fresh], model.begun(list))
            return
        for at in np.flatnonzero(fresh)[:, None]:
            memory.begin(int(places[at[0]]), model.begun(partial(self._given, at)))

    def run(self) -> list[Array]:
        """The results, as the caller's own arrays."""
        count = len(self._old.numbers)
        parts = [(some, size) for some in self._groups for some, size in self._parts(some)]
        if len(parts) == 1:
            (some, size) = parts[0]
            whole = size == count
            made = (
                self._batches.call(self._frames, self._old, self.new)
                if whole
                else self._batch(some, size)
            )
            return [
                self._own(array, axis, count)
                for array, axis in zip(made, self._model.result_axes, strict=True)
            ]
        if len(self._groups) == 1 and not any(self._model.result_axes):
            return self._in_order(parts)
        return self._scattered(parts)

    def _parts(self, some: Array) -> list[tuple[Array, int]]:
        """Sessions of one group, by their positions, as batches of so many rows."""
        sizes = self._batches.sizes(len(some), self._frames, self._state)
        ends = accumulate(sizes)
        return [(some[end - size : end], size) for end, size in zip(ends, sizes, strict=True)]

    def _state(self) -> list[Array]:
        return [table[self._old.numbers[0]] for table in self._old.tables]

    def _in_order(self, parts: Sequence[tuple[Array, int]]) -> list[Array]:
        """The results of batches, written where they stay by batches of the usual size."""
        wholes: list[Array] = []
        room, most, at = sum(size for _, size in parts), parts[0][1], 0
        for some, size in parts:
            places = [whole[at : at + size] for whole in wholes]
            made = self._batch(some, size, places if size == most else ())
            if not wholes:
                wholes = [np.empty((room, *array.shape[1:]), array.dtype) for array in made]
                places = [whole[:size] for whole in wholes]
            for position, (place, array) in enumerate(zip(places, made, strict=True)):
                if place is not array:
                    check_shapes(position, place.shape, array.shape)
                    place[...] = array
            at += size
        return [whole[: len(self._old.numbers)] for whole in wholes]

    def _scattered(self, parts: Sequence[tuple[Array, int]]) -> list[Array]:
        """The results of batches, put into the order of the sessions."""
        axes, count = self._model.result_axes, len(self._old.numbers)
        wholes: list[Array] = []
        for some, size in parts:
            made = [
                array.swapaxes(0, axis)
                for array, axis in zip(self._batch(some, size), axes, strict=True)
            ]
            if not wholes:
                wholes = [np.empty((count, *array.shape[1:]), array.dtype) for array in made]
            for position, (whole, array) in enumerate(zip(wholes, made, strict=True)):
                check_shapes(position, whole.shape[1:], array.shape[1:])
                whole[some] = array[: len(some)]
        return [
            np.ascontiguousarray(whole.swapaxes(0, axis))
            for whole, axis in zip(wholes, axes, strict=True)
        ]

    def _batch(self, some: Array, size: int, into: Sequence[Array] = ()) -> Sequence[Array]:
        """Run a batch of so many rows; the first row comes again where there are fewer sessions,
        for nobody.
        """
        old, new, more = self._old, self.new, size - len(some)
        targets = new.numbers[some]
        if more:
            some = np.concatenate([some, np.repeat(some[:1], more)])
            targets = np.concatenate([targets, np.full(more, self._memory.nobody)])
        return self._batches.call(
            self._given(some), Rows(old.tables, old.numbers[some]), Rows(new.tables, targets), into
        )

    def _given(self, some: Array) -> list[Array]:
        """The frames of some sessions."""
        return [
            _taken(array, some, axis)
            for array, axis in zip(self._frames, self._model.input_axes, strict=True)
        ]

    def _own(self, array: Array, axis: int, count: int) -> Array:
        """A result of one batch, of so many sessions, as the caller's own array."""
        if array.shape[axis] != count:
            array = np.ascontiguousarray(array[(slice(None),) * axis + (slice(count),)])
        is_own = array.base is None and all(array is not frame for frame in self._frames)
        return array if is_own else array.copy()


def _taken(array: Array, places: Array, axis: int | None) -> Array:
    """The rows of an array at some places."""
    if axis is None:
        return array
    count = len(places)
    if axis == 0:
        first = int(places[0])
        if (
            int(places[-1]) - first == count - 1
        ):  # places ascend, or repeat the first one at the end
            return array if count == len(array) else array[first : first + count]
    return np.ascontiguousarray(array.take(places, axis))
