"""`SessionMemory`: the states of all sessions, for each variable an array with a row for each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from operator import setitem
from typing import Any

import numpy as np

from uncork.compiler.session_model import Kept
from uncork.concurrency import held_at_forks
from uncork.errors import InputError, shortened
from uncork.ops._memory import check_memory
from uncork.types import Array, PartialShape, TensorSpec

#: Which variable, to which rows, what.
Write = tuple[int, Array, Array]

#: Held while a step is written: forks wait for it. `with` enters it in C, where no interrupt comes.
_writing = threading.RLock()
held_at_forks(_writing)


class SessionMemory:
    """Rows of variables. Nobody reads a row that another thread writes: `Sessions` sees to that."""

    def __init__(self, kept: Sequence[Kept], capacity: int) -> None:
        self.kept = kept
        specs = [
            TensorSpec(k.element_type, PartialShape((capacity, *_without(k.shape, k.axis))))
            for k in kept
        ]
        try:
            check_memory(specs)
            #: A row is memory that the process has when it is first written.
            self.tables = [np.zeros(spec.shape.static, spec.element_type.dtype) for spec in specs]
            #: Rows whose session has had no step: nothing is written in them.
            self.fresh = np.ones(capacity, bool)
            #: When each session had its last step.
            self.used = np.zeros(capacity)
        except (InputError, MemoryError, ValueError) as error:
            raise InputError(
                f"the states of {capacity:,} sessions do not fit into memory: {error}", "sessions"
            ) from None

    @property
    def nbytes(self) -> int:
        """The bytes of all states."""
        return sum(table.nbytes for table in self.tables)

    def read(self, number: int, rows: Array) -> Array:
        """The values of a variable for a batch of these rows."""
        kept, table = self.kept[number], self.tables[number]
        if kept.axis is None:
            value: Array = table[rows[0]].copy()
            return value
        found = table.take(rows, 0, mode="clip")
        if kept.axis == 0:
            return found
        return np.ascontiguousarray(np.moveaxis(found, 0, kept.axis))

    def as_rows(self, number: int, values: Array, count: int) -> Array:
        """The first rows of a batch's values, as the table has them; it may look at the values.

        Raises InputError where they are of another size.
        """
        kept, table = self.kept[number], self.tables[number]
        axis = kept.axis
        rows = values[None] if axis is None else values
        if axis:
            rows = np.moveaxis(values, axis, 0)
        if rows.shape[1:] != table.shape[1:] or rows.dtype != table.dtype:
            raise InputError(
                f"the model assigned shape {list(values.shape)} to it, and sessions keep "
                f"{list(kept.shape)}: states of one size",
                f"variable '{shortened(kept.name)}'",
            )
        return rows[:count]

    def write(self, writes: Sequence[Write], rows: Array) -> None:
        """Write values of variables; then `rows` have had a step.

        No signal handler comes between, as Python runs none inside of one function of its own, and
        no fork: all rows are written, or none is.
        """
        targets = [self.tables[number] for number, _, _ in writes]
        places = [where for _, where, _ in writes]
        values = [value for _, _, value in writes]
        now = time.monotonic()
        assign: Any = setitem
        with _writing:
            deque(
                map(
                    assign,
                    (*targets, self.fresh, self.used),
                    (*places, rows, rows),
                    (*values, False, now),
                ),
                maxlen=0,
            )

    def groups(self, rows: Array) -> list[Array]:
        """The positions of rows that may be of one batch: those whose common values agree."""
        common = [
            table.reshape(len(table), -1)
            for kept, table in zip(self.kept, self.tables, strict=True)
            if kept.axis is None
        ]
        if not common or len(rows) < 2:
            return [np.arange(len(rows))]
        own = [
            np.ascontiguousarray(table[rows]).view(np.uint8).reshape(len(rows), -1)
            for table in common
        ]
        keys = np.concatenate([*own, self.fresh[rows][:, None].view(np.uint8)], 1)
        keys[self.fresh[rows], :-1] = 0
        if (keys == keys[0]).all():
            return [np.arange(len(rows))]
        _, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]


def _without(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return shape if axis is None else (*shape[:axis], *shape[axis + 1 :])
