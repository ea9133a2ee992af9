"""A step of sessions: their rows taken from the memory, run in batches, and what is to be written
when all of them have succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.compiler.session_batches import Batches
from uncork.compiler.session_memory import SessionMemory, Write
from uncork.errors import InputError
from uncork.types import Array


def stepped(
    batches: Batches, memory: SessionMemory, rows: Array, frames: Sequence[Array]
) -> tuple[list[Array], list[Write]]:
    """The results of a step of the sessions in these rows of the memory, and what the memory is to
    hold after it. `frames` are carriers.
    """
    step = _Step(batches, memory, rows, frames)
    for places in memory.groups(rows):
        step.run(places)
    return step.joined(), step.writes


class _Step:
    """What a step has made so far."""

    def __init__(
        self, batches: Batches, memory: SessionMemory, rows: Array, frames: Sequence[Array]
    ) -> None:
        self._batches, self._memory, self._model = batches, memory, batches.model
        self._rows, self._frames = rows, frames
        self.writes: list[Write] = []
        #: The results so far, with the sessions in axis 0.
        self.results: list[Array] = []

    def run(self, places: Array) -> None:
        """Run rows that may be of one batch, by their positions."""
        sizes = self._batches.sizes(
            len(places), self._frames, lambda: self._states(places[:1], self._rows[places[:1]])
        )
        at = 0
        for size in sizes:
            self._batch(places[at : at + size], size)
            at += size

    def _batch(self, places: Array, size: int) -> None:
        """Run a batch of so many rows; the first row comes again where there are fewer sessions,
        for nobody.
        """
        model, count = self._model, len(places)
        filled = places
        if count < size:
            filled = np.concatenate([places, np.repeat(places[:1], size - count)])
        given = [
            _taken(array, filled, axis)
            for array, axis in zip(self._frames, model.input_axes, strict=True)
        ]
        made = self._batches.call(given, self._states(filled, self._rows[filled]))
        first, own = len(model.result_axes), self._rows[places]
        for number, source in enumerate(model.assigned):
            value = self._memory.as_rows(number, made[first + source], count)
            self.writes.append((number, own, value))
        self._keep(places, made[:first])

    def _states(self, places: Array, rows: Array) -> list[Array]:
        """What a batch reads of the variables."""
        model, memory = self._model, self._memory
        states = [memory.read(number, rows) for number in model.taken]
        for place in np.flatnonzero(memory.fresh[rows]):
            begun = model.begun(lambda row=places[place : place + 1]: self._alone(row))  # type: ignore[misc]
            for index, (number, value) in enumerate(zip(model.taken, begun, strict=True)):
                axis = model.kept[number].axis
                if axis is None:
                    states[index] = value
                else:
                    states[index][(slice(None),) * axis + (slice(place, place + 1),)] = value
        return states

    def _alone(self, place: Array) -> list[Array]:
        """The frames of one session."""
        axes = self._model.input_axes
        return [_taken(array, place, axis) for array, axis in zip(self._frames, axes, strict=True)]

    def _keep(self, places: Array, made: Sequence[Array]) -> None:
        """Put the results of a batch among those of the step, in the order of the sessions."""
        count = len(self._rows)
        for position, (array, axis) in enumerate(zip(made, self._model.result_axes, strict=True)):
            part = array.swapaxes(0, axis)[: len(places)]
            if len(places) == count:  # one batch, in order
                others = (*self._frames, *self.results)
                alone = not any(np.may_share_memory(part, other) for other in others)
                self.results.append(part if alone else part.copy())
                continue
            if position == len(self.results):
                self.results.append(np.empty((count, *part.shape[1:]), part.dtype))
            whole = self.results[position]
            if part.shape[1:] != whole.shape[1:]:
                raise InputError(
                    f"sessions give shapes {list(whole.shape[1:])} and {list(part.shape[1:])}: "
                    "step them one by one",
                    f"output {position}",
                )
            first, last = int(places[0]), int(places[-1])
            if last - first == len(places) - 1:
                whole[first : last + 1] = part
            else:
                whole[places] = part

    def joined(self) -> list[Array]:
        """The results as the caller's own arrays."""
        return [
            np.ascontiguousarray(array.swapaxes(0, axis))
            for array, axis in zip(self.results, self._model.result_axes, strict=True)
        ]


def _taken(array: Array, places: Array, axis: int | None) -> Array:
    """The rows of an array at some places."""
    if axis is None:
        return array
    first, last = int(places[0]), int(places[-1])
    if axis == 0 and last - first == len(places) - 1:
        return array[first : last + 1]  # places ascend, or repeat the first one at the end
    return np.ascontiguousarray(array.take(places, axis))
