"""Batches of sessions: a call for rows of some sessions, whose answers are bit for bit the same
whoever else is in the batch.

Kernels take rows together, and may compute those that are left over in another way. So a batch has
a number of rows of which it is known that each row's bits depend on nothing else: sizes are tried,
with frames of the call's shape, before they are first used. Rows of nobody fill a batch up. Where
no size passes, every session is a call of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.compiler.session_memory import Rows
from uncork.compiler.session_model import SessionModel
from uncork.errors import InputError, warn_once
from uncork.kernels.runtime.layout import OK
from uncork.types import Array

#: Rows of a batch are a multiple of the first of these whose rows do not depend on their place.
_STEPS = 1, 2, 4, 8, 12, 16, 24, 32
#: The most rows of a batch: more do not make a row cheaper, and leave the cache.
_MOST = 64
#: Calls into results that are given, for other shapes, that are kept: each has working memory.
_MOST_BOUND = 8
#: Numbers of rows whose batches are remembered.
_MOST_SIZES = 256

#: Whether rows of a batch of one size are those of a batch of another.
_Tried = dict[tuple[int, int], bool]
#: A row of every variable.
State = Callable[[], Sequence[Array]]


class Split(Struct):
    """How the rows of a step are split into batches: how many rows each takes, the rows of nobody
    at its end included. And, when a step was made so, the shapes of rows of its results, with their
    types.
    """

    sizes: list[int]
    results: list[tuple[tuple[int, ...], np.dtype[Any]]] | None = None


class Batches:
    """Calls of a model for rows of sessions. May be used from several threads."""

    def __init__(self, model: SessionModel) -> None:
        self.model = model
        #: By the shapes of frames: the sizes of batches that were tried, and with what outcome.
        self._tried: dict[tuple[object, ...], _Tried] = {}
        #: By the number of rows and the shapes of frames.
        self._splits: dict[tuple[object, ...], Split] = {}
        #: By the shapes of arrays: native calls into results that are given, or None.
        self._bound: dict[tuple[object, ...], Callable[..., Any] | None] = {}

    def call(
        self, frames: Sequence[Array], old: Rows, new: Rows, into: Sequence[Array] = ()
    ) -> Sequence[Array]:
        """The results for some rows of sessions, which go from `old` to `new` rows; written `into`
        arrays where that can be.
        """
        executor, count = self.model.executor, len(self.model.result_axes)
        given = [*frames, old.numbers, new.numbers, *old.tables, *new.tables]
        run = self._call_into(given, into) if into else None
        if run is not None and run(*given, *into, *[_NOTHING] * len(old.tables)) == OK:
            return into
        return (executor.run_as_before(given) or executor.run(given))[:count]

    def _call_into(
        self, given: Sequence[Array], into: Sequence[Array]
    ) -> Callable[..., Any] | None:
        """A native call that writes its results into arrays of these shapes; None where there is
        none.
        """
        key = (*[array.shape for array in given], *[array.shape for array in into])
        if key not in self._bound:
            if len(self._bound) >= _MOST_BOUND:
                self._bound.clear()
            native = self.model.executor.native_call(given)
            own = None if native is None else native.results(given)
            fits = own is not None and all(
                (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(own, into, strict=False)
            )
            call = native.bound(given) if native is not None and fits else None
            self._bound[key] = None if call is None else call.run
        return self._bound[key]

    def split(self, count: int, frames: Sequence[Array], state: State) -> Split:
        """The batches of so many rows. `state` gives a row of every variable, to make trials of."""
        key = (count, *[array.shape for array in frames])
        split = self._splits.get(key)
        if split is None:
            if len(self._splits) >= _MOST_SIZES:
                self._splits.clear()
            batched = self.model.batched
            sizes = self._sizes_of(count, frames, state) if batched else [1] * count
            split = self._splits[key] = Split(sizes)
        return split

    def _sizes_of(self, count: int, frames: Sequence[Array], state: State) -> list[int]:
        tried = self._tried.setdefault(self._shapes(frames), {})
        step = self._step(tried, frames, state)
        if step is None:
            return [1] * count
        sizes: list[int] = []
        left = count
        while left > 0:
            size = min(-(-left // step) * step, _MOST // step * step)
            while size > step and not self._passes(tried, size, step, frames, state):
                size -= step
            sizes.append(size)
            left -= size
        return sizes

    def _shapes(self, frames: Sequence[Array]) -> tuple[object, ...]:
        return tuple(
            [
                array.shape if axis is None else (*array.shape[:axis], *array.shape[axis + 1 :])
                for array, axis in zip(frames, self.model.input_axes, strict=True)
            ]
        )

    # ---- trials

    def _step(self, tried: _Tried, frames: Sequence[Array], state: State) -> int | None:
        """The number of rows of which batches are multiples; None: rows do not stay the same."""
        for step in _STEPS:
            most = _MOST // step * step
            if all(self._passes(tried, size, step, frames, state) for size in (most, step)):
                return step
        warn_once(
            f"sessions of {self.model.model.name}",
            f"model '{self.model.model.name}': rows of a batch depend on the other rows, so each "
            "session is a call of its own",
        )
        return None

    def _passes(
        self,
        tried: _Tried,
        size: int,
        step: int,
        frames: Sequence[Array],
        state: State,
    ) -> bool:
        """Whether rows of a batch of this size are bit for bit those of a batch of `step`, and in
        whatever place.
        """
        key = step, size
        if key not in tried:
            tried[key] = self._tries(size, step, frames, state)
        return tried[key]

    def _tries(self, size: int, step: int, frames: Sequence[Array], state: State) -> bool:
        """Rows that are known, in each place once, with rows of others in the other places."""
        random = np.random.default_rng(size)
        count = step + size
        rows = [
            array if axis is None else _random_rows(random, array, axis, count)
            for array, axis in zip(frames, self.model.input_axes, strict=True)
        ]
        tables = [
            np.repeat(row[None], count, 0)
            if kept.axis is None
            else _random_rows(random, row[None], 0, count)
            for kept, row in zip(self.model.kept, state(), strict=True)
        ]
        expected = self._ran(rows, tables, np.arange(step))
        known = random.permutation(size) < max(1, size // 2)
        for own in (known, ~known):
            places = np.arange(step, step + size)
            places[own] = np.resize(np.arange(step)[::-1], size)[own]
            found = self._ran(rows, tables, places)
            for whole, part, axis in zip(expected, found, self._axes, strict=True):
                mine = whole.take(places[own], axis)
                if mine.tobytes() != part.take(np.flatnonzero(own), axis).tobytes():
                    return False
        return True

    def _ran(self, rows: Sequence[Array], tables: Sequence[Array], places: Array) -> list[Array]:
        """The results and the new rows of a trial."""
        given = [
            array if axis is None else np.ascontiguousarray(array.take(places, axis))
            for array, axis in zip(rows, self.model.input_axes, strict=True)
        ]
        new = Rows([np.zeros_like(table) for table in tables], np.arange(len(places)))
        results = self.call(given, Rows(tables, places), new)
        return [*results, *(table[: len(places)] for table in new.tables)]

    @property
    def _axes(self) -> list[int]:
        return [*self.model.result_axes, *[0] * len(self.model.kept)]


def check_shapes(output: int, one: Sequence[int], other: Sequence[int]) -> None:
    """Refuse results of batches that do not fit into one array."""
    if tuple(one) != tuple(other):
        raise InputError(
            f"sessions give shapes {list(one)} and {list(other)}: step them one by one",
            f"output {output}",
        )


#: What layers give that write rows.
_NOTHING = np.empty(0, np.uint8)


def _random_rows(random: np.random.Generator, array: Array, axis: int, count: int) -> Array:
    """So many rows like those of an array: other floats, and the same whole numbers, which may be
    ids.
    """
    rows = array.take(np.resize(np.arange(array.shape[axis]), count), axis)
    if rows.dtype.kind == "f":
        rows = random.uniform(-1, 1, rows.shape).astype(rows.dtype)
    return np.ascontiguousarray(rows)
