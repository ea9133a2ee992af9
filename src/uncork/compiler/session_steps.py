"""A step of sessions: their rows go from the memory through batches into rows that are kept when
all batches have succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from uncork.compiler.session_batches import Batches, Split, check_shapes
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
    memory.keep(places, step.old, step.new, step.begins)
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
        self._frames, self._count = frames, len(places)
        #: Whether it is the first step of some session.
        self.begins = self._begin(places)
        #: The rows that the step reads, and those that it writes.
        self.old, self.new = memory.of(places), memory.room(len(places), may_spare)
        self._groups = memory.groups(places)

    def _begin(self, places: Array) -> bool:
        """Have sessions without a step begin; whether there are any."""
        memory, model = self._memory, self._model
        fresh = memory.fresh[places]
        if not np.count_nonzero(fresh):
            return False
        if model.begins_alike:
            memory.begin(places[fresh], model.begun(list))
            return True
        for at in np.flatnonzero(fresh)[:, None]:
            memory.begin(int(places[at[0]]), model.begun(partial(self._given, at)))
        return True

    def run(self) -> list[Array]:
        """The results, as the caller's own arrays."""
        count = self._count
        if self._groups is not None:
            return self._scattered([part for some in self._groups for part in self._parts(some)])
        split = self._batches.split(count, self._frames, self._state)
        if split.sizes == [count]:
            made = self._batches.call(self._frames, self.old, self.new)
            return [self._own(array) for array in made]
        if len(split.sizes) > 1 and any(self._model.result_axes):
            return self._scattered(self._parts(np.arange(count)))
        return self._in_order(split)

    def _parts(self, some: Array) -> list[tuple[Array, int]]:
        """Sessions of one group, by their positions, as batches of so many rows."""
        sizes = self._batches.split(len(some), self._frames, self._state).sizes
        ends = accumulate(sizes)
        return [(some[end - size : end], size) for end, size in zip(ends, sizes, strict=True)]

    def _state(self) -> list[Array]:
        return [table[self.old.numbers[0]] for table in self.old.tables]

    def _in_order(self, split: Split) -> list[Array]:
        """The results of batches, written where they stay by batches of the usual size, when it is
        known what they are.
        """
        sizes, total = split.sizes, sum(split.sizes)
        if len(sizes) == 1:
            made = self._batch(slice(0, total), total)
            axes = self._model.result_axes
            return [self._cut(array, axis) for array, axis in zip(made, axes, strict=True)]
        wholes = [np.empty((total, *row), dtype) for row, dtype in split.results or ()]
        at = 0
        for size in sizes:
            some = slice(at, at + size)
            places = [whole[some] for whole in wholes]
            made = self._batch(some, size, places if size == sizes[0] else ())
            if at == 0 and split.results != (
                found := [(array.shape[1:], array.dtype) for array in made]
            ):
                split.results = found
                wholes = [np.empty((total, *row), dtype) for row, dtype in found]
                places = [whole[some] for whole in wholes]
            for position, (place, array) in enumerate(zip(places, made, strict=True)):
                if place is not array:
                    check_shapes(position, place.shape, array.shape)
                    place[...] = array
            at += size
        return [whole[: self._count] for whole in wholes]

    def _scattered(self, parts: Sequence[tuple[Array, int]]) -> list[Array]:
        """The results of batches, put into the order of the sessions."""
        axes, count = self._model.result_axes, self._count
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

    def _batch(self, some: slice | Array, size: int, into: Sequence[Array] = ()) -> Sequence[Array]:
        """Run a batch of so many rows, of some sessions by their positions; the first row comes
        again where there are fewer sessions, for nobody.
        """
        old, new = self.old, self.new
        read, written = old.numbers[some], new.numbers[some]
        more = size - len(read)
        if more:
            some = np.arange(self._count)[some]
            some = np.concatenate([some, np.repeat(some[:1], more)])
            nobody = np.full(more, len(new.tables[0]) - 1)
            read, written = old.numbers[some], np.concatenate([written, nobody])
        return self._batches.call(
            self._given(some), Rows(old.tables, read), Rows(new.tables, written), into
        )

    def _given(self, some: slice | Array) -> list[Array]:
        """The frames of some sessions."""
        return [
            array if axis is None else _taken(array, some, axis)
            for array, axis in zip(self._frames, self._model.input_axes, strict=True)
        ]

    def _own(self, array: Array) -> Array:
        """A result of one batch as the caller's own array."""
        is_own = array.base is None and all(array is not frame for frame in self._frames)
        return array if is_own else array.copy()

    def _cut(self, array: Array, axis: int) -> Array:
        """A result of one batch without the rows of nobody, as the caller's own array."""
        own: Array = array[(slice(None),) * axis + (slice(self._count),)].copy()
        return own


def _taken(array: Array, some: slice | Array, axis: int) -> Array:
    """The rows of an array at some places."""
    if axis == 0:
        rows: Array = array[some]
        return rows
    found: Array = np.ascontiguousarray(array[(slice(None),) * axis + (some,)])
    return found
