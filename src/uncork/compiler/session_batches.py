"""Batches of sessions: a call for rows of some sessions, whose answers are bit for bit the same
whoever else is in the batch.

Kernels take rows together, and add up the rows that are left over in another order. So a batch has
a number of rows of which it is known that each row's bits depend on nothing else: sizes are tried,
with frames of the call's shape, before they are first used. Rows of nobody fill a batch up. Where
no size passes, every session is a call of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from uncork.compiler.session_model import SessionModel
from uncork.errors import warn_once
from uncork.types import Array

#: Rows of a batch are a multiple of the first of these whose rows do not depend on their place.
_STEPS = 8, 12, 16, 24, 32
#: The most rows of a batch: more do not make a row cheaper, and leave the cache.
_MOST = 64

States = Callable[[], Sequence[Array]]


class Batches:
    """Calls of a model for rows of sessions. May be used from several threads."""

    def __init__(self, model: SessionModel) -> None:
        self.model = model
        #: By the shapes of frames: the sizes of batches that were tried, and whether they are used.
        self._tried: dict[tuple[object, ...], dict[int, bool]] = {}

    def call(self, frames: Sequence[Array], states: Sequence[Array]) -> list[Array]:
        """What the model gives for any number of rows: results, and values assigned."""
        given, executor = [*frames, *states], self.model.executor
        return executor.run_as_before(given) or executor.run(given)

    def sizes(self, count: int, frames: Sequence[Array], states: States) -> list[int]:
        """How many of `count` rows each batch takes, the rows of nobody at its end included.

        `states` gives a row of every variable, to make trials of.
        """
        tried = self._tried.setdefault(self._shapes(frames), {})
        step = self._step(tried, frames, states)
        if step is None:
            return [1] * count
        sizes: list[int] = []
        left = count
        while left > 0:
            size = min(-(-left // step) * step, _MOST // step * step)
            while size > step and not self._passes(tried, size, step, frames, states):
                size -= step
            sizes.append(size)
            left -= size
        return sizes

    def _shapes(self, frames: Sequence[Array]) -> tuple[object, ...]:
        return tuple(
            array.shape if axis is None else (*array.shape[:axis], *array.shape[axis + 1 :])
            for array, axis in zip(frames, self.model.input_axes, strict=True)
        )

    # ---- trials

    def _step(self, tried: dict[int, bool], frames: Sequence[Array], states: States) -> int | None:
        """The number of rows of which batches are multiples; None: rows do not stay the same."""
        for step in _STEPS:
            if self._passes(tried, step, step, frames, states):
                return step
        warn_once(
            f"sessions of {self.model.model.name}",
            f"model '{self.model.model.name}': rows of a batch depend on the other rows, so each "
            "session is a call of its own",
        )
        return None

    def _passes(
        self,
        tried: dict[int, bool],
        size: int,
        step: int,
        frames: Sequence[Array],
        states: States,
    ) -> bool:
        """Whether rows of a batch of this size are bit for bit those of a batch of `step`, and in
        whatever place.
        """
        if size not in tried:
            tried[size] = self._tries(size, step, frames, states)
        return tried[size]

    def _tries(self, size: int, step: int, frames: Sequence[Array], states: States) -> bool:
        """Rows that are known, in each place once, with rows of others in the other places."""
        random = np.random.default_rng(size)
        rows = [
            _random_rows(random, array, axis, step + size)
            for array, axis in zip(
                (*frames, *states()), (*self.model.input_axes, *self._state_axes), strict=True
            )
        ]
        expected = self._ran(rows, np.arange(step))
        known = random.permutation(size) < size // 2
        for own in (known, ~known):
            places = np.arange(step, step + size)
            places[own] = np.resize(np.arange(step)[::-1], size)[own]
            found = self._ran(rows, places)
            for whole, part, axis in zip(expected, found, self._given_axes, strict=True):
                if axis is None:
                    same = whole.tobytes() == part.tobytes()
                else:
                    same = (
                        whole.take(places[own], axis).tobytes()
                        == part.take(np.flatnonzero(own), axis).tobytes()
                    )
                if not same:
                    return False
        return True

    def _ran(self, rows: Sequence[Array], places: Array) -> list[Array]:
        axes = (*self.model.input_axes, *self._state_axes)
        given = [
            array if axis is None else np.ascontiguousarray(array.take(places, axis))
            for array, axis in zip(rows, axes, strict=True)
        ]
        count = len(self.model.input_axes)
        arrays = self.call(given[:count], given[count:])
        results = len(self.model.result_axes)
        return [*arrays[:results], *(arrays[results + n] for n in self.model.assigned)]

    @property
    def _state_axes(self) -> list[int | None]:
        return [self.model.kept[number].axis for number in self.model.taken]

    @property
    def _given_axes(self) -> list[int | None]:
        return [*self.model.result_axes, *(kept.axis for kept in self.model.kept)]


def _random_rows(random: np.random.Generator, array: Array, axis: int | None, count: int) -> Array:
    """So many rows like those of an array: other floats, and the same whole numbers, which may be
    ids.
    """
    if axis is None:
        return array
    rows = array.take(np.resize(np.arange(array.shape[axis]), count), axis)
    if rows.dtype.kind == "f":
        rows = random.uniform(-1, 1, rows.shape).astype(rows.dtype)
    return np.ascontiguousarray(rows)
