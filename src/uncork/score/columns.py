"""Arrow columns to the arrays of one call, exactly as the mapping says.

Values and offsets are views of Arrow's own buffers wherever the types agree: a list column that
holds what the model takes is not copied. What a row cannot give (a null, a number that the input's
type does not have) is a `RowError` of that row, found for all rows at once; the arrays are only
used when there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from uncork.compiler.arguments import unchanged
from uncork.errors import InputError
from uncork.score.expression import Expression
from uncork.score.mapping import BoundInput, Mapping, list_item
from uncork.types import Array, ElementType


@dataclass(frozen=True)
class RowError:
    """The fault of a row: why it cannot be scored.

    `row` counts in the batch until `batch.py` makes it the number in the whole input.
    """

    row: int
    reason: str
    column: str = ""
    value: str = ""
    layer: str = ""

    def __str__(self) -> str:
        place = f", column '{self.column}'" if self.column else ""
        value = f", value {self.value}" if self.value else ""
        return (
            f"row {self.row}{place}{value}: {f'{self.layer}: ' if self.layer else ''}{self.reason}"
        )


@dataclass(frozen=True)
class Lists:
    """A list column: row i has `values[offsets[i]:offsets[i + 1]]`.

    Offsets begin at 0 and end with the number of values.
    """

    values: Array
    offsets: Array

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)


class Columns:
    """The columns of a batch as arrays, each made once.

    Faults are collected while arrays are made.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.count: int = batch.num_rows
        self.faults: dict[int, RowError] = {}
        self._plain: dict[str, pa.Array] = {}
        self._lists: dict[tuple[str, Any, bool], Lists] = {}

    def fault(
        self, rows: Array, column: str, reason: str, values: Callable[[int], Any] | None = None
    ) -> None:
        """Note a fault for each row number in `rows`, unless the row has one.

        `values(i)` is the value of the i-th.
        """
        for position, row in enumerate(rows.tolist()):
            if row not in self.faults:
                self.faults[row] = RowError(
                    row, reason, column, "" if values is None else str(values(position))
                )

    def column(self, name: str) -> pa.Array:
        """A column as one plain array, dictionaries decoded."""
        array = self._plain.get(name)
        if array is None:
            array = self.batch.column(name)
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            self._plain[name] = array
        return array

    def scalars(self, name: str, expression: Expression) -> Array:
        """The column's values [n] in its own type."""
        array = self.column(name)
        if array.null_count:
            if expression.fill is None:
                self.fault(
                    np.flatnonzero(_nulls(array)),
                    name,
                    "is null: give a fill to replace it",
                    lambda _: "null",
                )
                return _numpy(array.fill_null(_zero(array.type)))
            array = array.fill_null(_scalar(expression.fill, array.type, name))
        return _numpy(array)

    def lists(self, name: str, expression: Expression) -> Lists:
        """The list column with its nulls filled; without a fill they are faults."""
        key = (name, expression.fill, expression.fill_empty)
        if key not in self._lists:
            self._lists[key] = self._made_lists(name, expression)
        return self._lists[key]

    def _made_lists(self, name: str, expression: Expression) -> Lists:
        array = self.column(name)
        if list_item(array.type) is None:
            return self._singles(array, name, expression)
        if pa.types.is_fixed_size_list(array.type):
            size = array.type.list_size
            child = array.values.slice(array.offset * size, len(array) * size)
            offsets = (
                np.arange(0, len(child) + 1, size) if size else np.zeros(len(array) + 1, np.int64)
            )
        else:
            offsets = array.offsets.to_numpy()
            child = (
                array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
                if len(array)
                else array.values.slice(0, 0)
            )
            offsets = offsets - offsets[0] if len(offsets) and offsets[0] else offsets
        if not len(offsets):
            offsets = np.zeros(1, np.int64)
        if array.null_count:
            null = _nulls(array)
            if expression.fill is None and not expression.fill_empty:
                self.fault(
                    np.flatnonzero(null),
                    name,
                    "is null: give a fill to replace it",
                    lambda _: "null",
                )
            child, offsets = _without(child, offsets, null)
        if child.null_count:
            if expression.fill is None:
                places = np.flatnonzero(_nulls(child))
                rows = np.searchsorted(offsets, places, "right") - 1
                self.fault(
                    rows,
                    name,
                    "has a null in its list: give a fill to replace it",
                    lambda _: "null",
                )
                child = child.fill_null(_zero(child.type))
            else:
                child = child.fill_null(_scalar(expression.fill, child.type, name))
        return Lists(_numpy(child), offsets)

    def _singles(self, array: pa.Array, name: str, expression: Expression) -> Lists:
        """A column of single values as lists of one; with `fill=empty` a null is an empty list."""
        if array.null_count and expression.fill_empty:
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(~_nulls(array))])
            return Lists(_numpy(array.drop_null()), offsets)
        return Lists(self.scalars(name, expression), np.arange(self.count + 1))

    def exact(
        self, name: str, bound: BoundInput, values: Array, owners: Callable[[Array], Array]
    ) -> Array:
        """The `values` in the input's carrier type.

        Numbers that it does not have are faults of the rows that `owners` names.
        """
        target = bound.element_type
        if not target.is_native or values.dtype == target.dtype or target is ElementType.string:
            return values  # types that NumPy lacks are converted by the call, exactly or not at all
        # NumPy calls 64-bit integers to f64 safe, which they are not.
        safe = np.can_cast(values.dtype, target.dtype, "safe") and not (
            target.is_float and values.dtype.kind in "iu" and values.itemsize == 8
        )
        if safe or bound.expression.rounded:
            return values.astype(target.dtype)
        with np.errstate(all="ignore"):
            cast = values.astype(target.dtype)
            same = unchanged(values, cast)
        if not same.all():
            places = np.flatnonzero(~same)
            hint = "; round=true takes the nearest" if target.is_float else ""
            self.fault(
                owners(places),
                name,
                f"is not a value of {target}{hint}",
                lambda i: values[places[i]],
            )
        return cast


def arrays_of(mapping: Mapping, batch: pa.RecordBatch) -> tuple[list[Array], list[RowError]]:
    """The arrays of a call on the rows of a batch, one for each input, and the faults by row.

    When there are faults the arrays are not to be used: take the rows away and ask again.
    """
    columns = Columns(batch)
    arrays: list[Array] = []
    for bound in mapping.inputs:
        try:
            arrays.append(_array(bound, columns))
        except InputError as error:
            raise error.at(f"input '{bound.name}'") from None
    return arrays, [columns.faults[row] for row in sorted(columns.faults)]


def take_rows(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """The rows of a batch with these numbers. Arrow cannot take rows from columns of every type,
    but it can slice all.
    """
    places = pa.array(rows, pa.int64())
    arrays: list[pa.Array] = []
    for array in batch.columns:
        try:
            arrays.append(array.take(places))
        except pa.ArrowNotImplementedError:
            pieces = [array.slice(start, count) for start, count in _runs(rows)]
            arrays.append(pa.concat_arrays(pieces or [array.slice(0, 0)]))
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of numbers that follow each other, as (first, count)."""
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index] != rows[index - 1] + 1:
            yield rows[start], index - start
            start = index


def _array(bound: BoundInput, columns: Columns) -> Array:
    expression = bound.expression
    function, count = expression.function, columns.count
    if function == "constant":
        return (
            np.ascontiguousarray(np.broadcast_to(bound.value, (count, *bound.value.shape)))
            if bound.per_row
            else np.asarray(bound.value)
        )
    if function == "rows":
        return np.full(
            bound.shape.static if bound.shape.is_static else [1], count, bound.element_type.dtype
        )
    if function in ("column", "stack"):
        return _shaped(bound, _plain(bound, columns))
    (name,) = expression.columns
    lists = columns.lists(name, expression)
    if function == "values":
        return _listed(name, bound, columns, lists)
    if function == "offsets":
        return _whole(bound, lists.offsets[:-1])
    if function == "segments":
        return _whole(
            bound, np.repeat(np.arange(count, dtype=bound.element_type.dtype), lists.lengths)
        )
    lengths = lists.lengths
    if function == "length":
        return _shaped(
            bound,
            _whole(
                bound,
                lengths if expression.width is None else np.minimum(lengths, expression.width),
            ),
        )
    return _padded(bound, Lists(_listed(name, bound, columns, lists), lists.offsets), name)


def _listed(name: str, bound: BoundInput, columns: Columns, lists: Lists) -> Array:
    return columns.exact(
        name,
        bound,
        lists.values,
        lambda places: np.searchsorted(lists.offsets, places, "right") - 1,
    )


def _plain(bound: BoundInput, columns: Columns) -> Array:
    """The array of an input made by `column` or `stack`: [n], [n, k] or, of nested lists of fixed
    sizes, more.
    """
    expression = bound.expression
    if expression.function == "stack":
        return np.stack(
            [
                columns.exact(c, bound, columns.scalars(c, expression), lambda rows: rows)
                for c in expression.columns
            ],
            axis=1,
        )
    (name,) = expression.columns
    array = columns.column(name)
    if list_item(array.type) is None:
        return columns.exact(name, bound, columns.scalars(name, expression), lambda rows: rows)
    inner, sizes = array.type, []
    while (item := list_item(inner)) is not None:
        sizes.append(inner.list_size if pa.types.is_fixed_size_list(inner) else int(bound.shape[1]))
        inner = item
    if len(sizes) > 1:
        return columns.exact(
            name,
            bound,
            _nested(array, name, columns, sizes),
            lambda places: places // int(np.prod(sizes)),
        ).reshape(-1, *sizes)
    lists = columns.lists(name, expression)
    lengths = lists.lengths
    other = np.flatnonzero(lengths != sizes[0])
    if len(other):
        columns.fault(
            other, name, f"expected {sizes[0]} values", lambda i: f"a list of {lengths[other[i]]}"
        )
        return np.zeros((columns.count, sizes[0]), lists.values.dtype)
    return _listed(name, bound, columns, lists).reshape(-1, sizes[0])


def _nested(array: pa.Array, name: str, columns: Columns, sizes: list[int]) -> Array:
    """The numbers of nested lists of fixed sizes, as a flat array.

    A null anywhere is a fault: there is no saying what a fill means.
    """
    flat, size = array, 1
    for inner in sizes:
        if flat.null_count:
            columns.fault(np.flatnonzero(_nulls(flat)) // size, name, "is null", lambda _: "null")
        flat, size = flat.values.slice(flat.offset * inner, len(flat) * inner), size * inner
    if flat.null_count:
        columns.fault(
            np.flatnonzero(_nulls(flat)) // size, name, "has a null in its list", lambda _: "null"
        )
        flat = flat.fill_null(_zero(flat.type))
    return _numpy(flat)


def _padded(bound: BoundInput, lists: Lists, name: str) -> Array:
    """The array [n, width] of `padded`: each row's last (or first) values, at its left or right
    end.
    """
    expression = bound.expression
    width, lengths = expression.width or 0, lists.lengths
    values = lists.values
    if len(lengths) and int(lengths.max()) > width:
        # The place of every value in its own row, counted from the end that is kept.
        if expression.keep == "last":
            place = np.repeat(lists.offsets[1:], lengths) - np.arange(1, len(values) + 1)
        else:
            place = np.arange(len(values)) - np.repeat(lists.offsets[:-1], lengths)
        values, lengths = values[place < width], np.minimum(lengths, width)
    pad = np.asarray(expression.pad, values.dtype)
    InputError.when(pad != expression.pad, f"pad={expression.pad} is not a value of {values.dtype}")
    padded = np.full((len(lengths), width), pad, values.dtype)
    # In row order, which is the order of the values: one pass without a Python step for a row.
    places = np.arange(width)
    padded[
        places < lengths[:, None]
        if expression.side == "right"
        else places >= (width - lengths)[:, None]
    ] = values
    return padded


def _whole(bound: BoundInput, numbers: Array) -> Array:
    """The counts or positions in the input's type.

    They are never negative, so only the largest can be too large.
    """
    target = bound.element_type
    if (
        target.bits < 64
        and len(numbers)
        and int(numbers.max()) >= 1 << (target.bits - (target.kind == "signed"))
    ):
        raise InputError(
            f"{bound.expression} reaches {int(numbers.max())}, "
            f"which is no value of {target}: take a smaller batch"
        )
    return np.ascontiguousarray(numbers, target.dtype)


def _shaped(bound: BoundInput, array: Array) -> Array:
    """The array of one value a row, with shape [n, 1] where the input has rank 2."""
    return array.reshape(-1, 1) if array.ndim == 1 and bound.shape.rank == 2 else array


def _without(child: pa.Array, offsets: Array, null: Array) -> tuple[pa.Array, Array]:
    """The items and offsets of lists with those of null rows made empty: Arrow lets values lie
    under a null.
    """
    lengths = np.diff(offsets)
    if lengths[null].any():
        child = child.filter(pa.array(np.repeat(~null, lengths)))
        lengths = np.where(null, 0, lengths)
        offsets = np.concatenate(
            [np.zeros(1, offsets.dtype), np.cumsum(lengths, dtype=offsets.dtype)]
        )
    return child, offsets


def _nulls(array: pa.Array) -> Array:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _numpy(array: pa.Array) -> Array:
    """The NumPy array of an Arrow array without nulls: a view of its buffer, except for truth
    values (bits there) and text.
    """
    found = array.type
    if pa.types.is_boolean(found) or pa.types.is_string(found) or pa.types.is_large_string(found):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.asarray(array.to_numpy(zero_copy_only=True))


def _zero(found: pa.DataType) -> pa.Scalar:
    return (
        pa.scalar("", found)
        if pa.types.is_string(found) or pa.types.is_large_string(found)
        else pa.scalar(0, pa.int8()).cast(found)
    )


def _scalar(value: Any, found: pa.DataType, name: str) -> pa.Scalar:
    try:
        scalar = pa.scalar(value, found)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        scalar = None
    if scalar is None or (pa.types.is_integer(found) and scalar.as_py() != value):
        raise InputError(f"fill={value} is not a value of column '{name}', which has {found}")
    return scalar
