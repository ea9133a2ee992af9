"""Tables of other libraries (pandas, Polars, Arrow) and lists of dictionaries: in as Arrow tables,
out as what came in.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from uncork.errors import InputError

#: Types of Polars and others that differ from these in how long a column may be, not in what it
#: holds.
_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
if hasattr(pa, "string_view"):
    _NARROW |= {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def is_frame(value: Any) -> bool:
    """Whether a value is a table in memory, not a path of one."""
    return (
        isinstance(value, (pa.Table, pa.RecordBatch, Mapping))
        or _is_pandas(value)
        or _are_records(value)
        or _is_dataset(value)
        or hasattr(value, "__arrow_c_stream__")
    )


def from_frame(rows: Any) -> pa.Table:
    """The rows as an Arrow table. Raises InputError for what is no table."""
    try:
        return _narrow(_arrow(rows))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"cannot be made an Arrow table: {str(error).splitlines()[0]}", type(rows).__name__
        ) from None


def _arrow(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, Mapping):
        return pa.table({name: _column(value) for name, value in rows.items()})
    if _is_pandas(rows):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if _are_records(rows):
        return _of_records(rows)
    if _is_dataset(rows):
        return rows.to_table()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise InputError(
        "expected a pyarrow, pandas or Polars table, or a list of dictionaries, got "
        f"{type(rows).__name__}",
        "rows",
    )


def _of_records(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of a list of dictionaries, all with the same keys: Arrow would pass over others."""
    names = rows[0].keys()
    for number, row in enumerate(rows):
        InputError.when(
            row.keys() != names,
            f"expected the keys of row 0, {', '.join(map(repr, names))}, got "
            f"{', '.join(map(repr, row)) or 'none'}",
            f"row {number}",
        )
    return pa.Table.from_pylist([*rows])


def _column(value: Any) -> Any:
    """A column of a dictionary; an array of more than one dimension, as Ray Data gives it, becomes
    the list of its rows.
    """
    return list(value) if getattr(value, "ndim", 1) > 1 else value


def _narrow(table: pa.Table) -> pa.Table:
    fields = [field.with_type(_narrow_type(field.type)) for field in table.schema]
    schema = pa.schema(fields)
    return table if schema.equals(table.schema) else table.cast(schema)


def _narrow_type(found: pa.DataType) -> pa.DataType:
    if pa.types.is_large_list(found):
        return pa.list_(_narrow_type(found.value_type))
    if pa.types.is_list(found):
        return pa.list_(_narrow_type(found.value_type))
    return _NARROW.get(found, found)


def first_rows(frame: Any, count: int) -> Any:
    """The first rows of a table, as a table of the same kind."""
    if isinstance(frame, Mapping):
        return {name: value[:count] for name, value in frame.items()}
    if _is_dataset(frame):
        return frame.head(count)
    return frame.slice(0, count) if isinstance(frame, (pa.Table, pa.RecordBatch)) else frame[:count]


def to_frame(table: pa.Table, like: Any) -> Any:
    """The Arrow table as a table of the kind of `like`; a pandas frame keeps its index."""
    if isinstance(like, pa.Table):
        return table
    if isinstance(like, pa.RecordBatch):
        whole = table.combine_chunks().to_batches()
        return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=table.schema)
    if isinstance(like, Mapping):
        return {
            name: table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
            for name in table.column_names
        }
    if _are_records(like):
        return table.to_pylist()
    if _is_pandas(like):
        frame = table.to_pandas()
        frame.index = like.index
        return frame
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(like, polars.DataFrame):
        return polars.from_arrow(table)
    return table


def _is_pandas(value: Any) -> bool:
    """Whether a value is a frame of pandas, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _are_records(value: Any) -> bool:
    """Whether a value is a list of rows, each a dictionary."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(row, Mapping) for row in value)
    )


def _is_dataset(value: Any) -> bool:
    """Whether a value is a dataset of pyarrow, which is not imported to tell."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(value, module.Dataset)
