"""Storages of variables that grow: with room for more, with other rows, within the memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.compiler.variable_values import Kept
from uncork.errors import InputError
from uncork.memory import available
from uncork.passes.match_appends import Append, RowSelection
from uncork.types import Array, ElementType, PartialShape

#: Elements that a storage has room for beyond those needed, at least, where they take no more than
#: so many bytes in all.
_MORE, _FEW_BYTES = 256, 1 << 20


def kept(value: Array, axis: int) -> Kept:
    """A value as it is kept, in a storage of its own that has no room yet."""
    # Plans look for the very type that NumPy gives its own arrays; that of a file is equal to it.
    own = np.array(value, np.dtype(value.dtype.char), order="C")
    return own, np.array([value.shape[axis]], np.int64), None


def begun(value: Array, axis: int, spare: Array | None) -> Kept:
    """A first value as it is kept: in a storage that has become free, where that has room."""
    count = value.shape[axis]
    if (
        spare is None
        or spare.dtype != value.dtype
        or spare.shape[axis] < count
        or (*spare.shape[:axis], *spare.shape[axis + 1 :])
        != (*value.shape[:axis], *value.shape[axis + 1 :])
    ):
        return kept(value, axis)
    first_of(spare, axis, count)[...] = value
    return spare, np.array([count], np.int64), None


def first_of(array: Array, axis: int, count: int) -> Array:
    """The first elements along an axis."""
    return np.asarray(array[(slice(None),) * axis + (slice(count),)])


def in_order(picks: Array) -> bool:
    """Whether the picks are 0, 1, 2, ..: every row stays where it is, if there are as many."""
    return type(picks) is np.ndarray and picks.tobytes() == _index_buffer(picks.size, picks.dtype)


@functools.lru_cache(maxsize=64)
def _index_buffer(count: int, dtype: np.dtype[Any]) -> bytes:
    return np.arange(count, dtype=dtype).tobytes()


def selected_rows(
    append: Append, selection: RowSelection, old: Kept, picks: Array, held: int
) -> Kept | None:
    """The rows that are picked, with the old storage for the next time.

    None where only the interpreter knows what comes of the picks. So many bytes are `held` by all
    variables.
    """
    storage, length, spare = old
    count, rows, operation = int(length[0]), storage.shape[selection.axis], selection.node.operation
    if append.shape_is_read and len(picks) != rows:
        return None
    low = -rows if getattr(operation, "counts_from_end", False) else 0
    numbers = picks.tolist()
    outside = any(not low <= row < rows for row in numbers)
    if outside and (count or operation is None or operation.strict):
        return None
    shape = (*storage.shape[: selection.axis], len(numbers), *storage.shape[selection.axis + 1 :])
    fits = spare is not None and spare.shape == shape
    new = spare if fits and spare is not None else _made(append, shape, storage.dtype, held)
    to, of = (
        first_of(array, append.axis, count).swapaxes(0, selection.axis) for array in (new, storage)
    )
    for index, row in enumerate(numbers if count else ()):
        to[index] = of[row]
    return new, length, storage


def grown(append: Append, old: Kept, needed: int, held: int) -> Kept:
    """The value of a variable, moved to a storage of at least so many elements along the axis."""
    (storage, length, _), axis = old, append.axis
    before, after = storage.shape[:axis], storage.shape[axis + 1 :]
    each = math.prod((*before, *after)) * storage.itemsize
    more = max(needed // 2, _MORE if each * _MORE <= _FEW_BYTES else 0)
    if held + (needed + more) * each > available()[0]:
        more = 0
    new = _made(append, (*before, needed + more, *after), storage.dtype, held)
    count = int(length[0])
    first_of(new, axis, count)[...] = first_of(storage, axis, count)
    return new, length, None


def _made(append: Append, shape: Sequence[int], dtype: np.dtype[Any], held: int) -> Array:
    """A new storage. Raises InputError where this process cannot hold it beside the others."""
    needed = math.prod(shape) * dtype.itemsize
    limit, whose = available()
    if held + needed > limit:
        spec = f"{ElementType.of_dtype(dtype) or dtype}{PartialShape(shape)}"
        raise InputError(
            f"variable '{append.variable}' would take {needed:,} bytes as {spec}; with {held:,} "
            "bytes that variables hold that is "
            f"more than {whose} ({limit:,} bytes): call reset_state(), or give fewer at a time",
            append.read.label,
        )
    return np.empty(shape, dtype)
