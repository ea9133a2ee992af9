"""`SessionMemory`: the states of all sessions, for each variable a table with a row for each.

Some rows are spare: a step writes what comes after into them, and when it has succeeded they are
the rows of its sessions, and the old ones are spare. A step of more sessions, or one beside another
step, writes into tables of its own, which are copied then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from operator import setitem
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.concurrency import held_at_forks
from uncork.errors import InputError
from uncork.ops._memory import check_memory
from uncork.passes.state_rows import Kept
from uncork.types import Array, PartialShape, TensorSpec

#: Of so many rows one is nobody's own, but these are at least.
_SESSIONS_FOR_SPARE, _LEAST_SPARE = 10, 64

#: Held while a step is told: forks wait for it. `with` enters it in C, where no interrupt comes.
_writing = threading.RLock()
held_at_forks(_writing)


class Rows(Struct, frozen=True):
    """Rows of tables, by their numbers. The last row of all tables is nobody's."""

    tables: Sequence[Array]
    numbers: Array


class SessionMemory:
    """Places of sessions, each with a row of every table. Nobody is at work with a place that
    another thread is at work with: `Sessions` sees to that.
    """

    def __init__(self, kept: Sequence[Kept], capacity: int, is_timed: bool) -> None:
        """`is_timed`: somebody asks when a session had its last step."""
        self.kept, self.capacity, self._is_timed = kept, capacity, is_timed
        spare = min(capacity, max(_LEAST_SPARE, capacity // _SESSIONS_FOR_SPARE - 1))
        # One row more: rows that fill a batch up are written there.
        shape = capacity + spare + 1
        specs = [TensorSpec(k.element_type, PartialShape((shape, *k.row))) for k in kept]
        try:
            check_memory(specs)
            #: A row is memory that the process has when it is first written.
            self.tables = [np.zeros(spec.shape.static, spec.element_type.dtype) for spec in specs]
            #: The row of each place.
            self.rows = np.arange(capacity)
            self.spare = np.arange(capacity, capacity + spare)
            #: Places whose session has had no step: its row is not read.
            self.fresh = np.ones(capacity, bool)
            #: When each session was opened or had its last step, where somebody asks.
            self.used = np.zeros(capacity)
            #: Tables of values that a batch shares.
            self._common = [t for k, t in zip(kept, self.tables, strict=True) if k.axis is None]
        except (InputError, MemoryError, ValueError) as error:
            raise InputError(
                f"the states of {capacity:,} sessions do not fit into memory: {error}", "sessions"
            ) from None

    @property
    def nbytes(self) -> int:
        """The bytes of all states, the spare ones included."""
        return sum(table.nbytes for table in self.tables)

    def of(self, places: Array) -> Rows:
        """The rows of some sessions."""
        return Rows(self.tables, self.rows[places])

    def room(self, count: int, may_spare: bool) -> Rows:
        """Rows for what comes after a step of so many sessions; of `spare` where that is the
        caller's alone.
        """
        if may_spare and count <= len(self.spare):
            return Rows(self.tables, self.spare[:count].copy())
        own = [np.empty((count + 1, *table.shape[1:]), table.dtype) for table in self.tables]
        return Rows(own, np.arange(count))

    # ---- values

    def read(self, number: int, place: int) -> Array:
        """The value of a variable for one session."""
        kept, row = self.kept[number], self.tables[number][self.rows[place]]
        return row.copy() if kept.axis is None else np.expand_dims(row, kept.axis)

    def begin(self, place: int | Array, values: Sequence[Array]) -> None:
        """Write what fresh sessions begin with into their rows; they stay fresh."""
        for table, row in zip(self.tables, self._as_rows(values), strict=True):
            table[self.rows[place]] = row

    def set(self, place: int, values: Sequence[Array]) -> None:
        """Write the values of all variables of a session."""
        row = self.rows[place]
        writes = [
            (table, row, v) for table, v in zip(self.tables, self._as_rows(values), strict=True)
        ]
        told = (self.fresh, place, False), (self.used, place, time.monotonic())
        _written([*writes, *told])

    def _as_rows(self, values: Sequence[Array]) -> list[Array]:
        """Values of variables of one session as rows of the tables."""
        return [value.reshape(kept.row) for kept, value in zip(self.kept, values, strict=True)]

    # ---- steps

    def keep(self, places: Array, old: Rows, new: Rows, begin: bool) -> None:
        """Have sessions go on with the rows that a step has written; `begin`: it was the first one
        of some of them.
        """
        if new.tables is self.tables:
            first = slice(0, len(places))
            writes: list[_Write] = [
                (self.rows, places, new.numbers),
                (self.spare, first, old.numbers),
            ]
        else:
            writes = [
                (table, old.numbers, own[: len(places)])
                for table, own in zip(self.tables, new.tables, strict=True)
            ]
        if begin:
            writes.append((self.fresh, places, False))
        if self._is_timed:
            writes.append((self.used, places, time.monotonic()))
        _written(writes)

    def groups(self, places: Array) -> list[Array] | None:
        """The positions of sessions that may be of one batch: those whose common values agree; None
        where all may.
        """
        if not self._common or len(places) < 2:
            return None
        rows = self.rows[places]
        keys = np.concatenate(
            [
                np.ascontiguousarray(table[rows].reshape(len(rows), -1)).view(np.uint8)
                for table in self._common
            ],
            1,
        )
        if (keys == keys[0]).all():
            return None
        _, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]


#: An array, which of it, what.
_Write = tuple[Array, Any, Any]


def _written(writes: Sequence[_Write]) -> None:
    """Write into arrays, one after the other. No signal handler comes between, as Python runs none
    inside of one function of its own, and no fork: all is written, or nothing is.
    """
    assign: Any = setitem
    with _writing:
        deque(map(assign, *zip(*writes, strict=True)), maxlen=0)
