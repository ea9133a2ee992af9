"""The columns of the output: kept ones, then one for each result of the model, or its best items.

A result [rows] or [rows, 1] is a plain column; more dimensions are lists, of fixed size where the
model fixes it. With `top_k` a result [rows, items] becomes two columns: the numbers of its best
items, best first, and their scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from uncork.compiler.arguments import ModelPort, did_you_mean, unique_names
from uncork.concurrency import lazy
from uncork.errors import InputError, UncorkError
from uncork.score.mapping import column_type, name_of
from uncork.types import Array, ElementType

#: The kept column that no file needs to have: the row's number in the whole input.
ROW = "row"


@dataclass(frozen=True)
class OutputColumn:
    """A result of the model, by position, as a column.

    `dims` are those after the first; None where the model leaves them open.
    """

    name: str
    position: int
    element_type: ElementType
    dims: tuple[int | None, ...]
    top_k: int | None = None
    #: A row may have no result. Parquet as most versions of Arrow write it has no null among lists
    #: of fixed size.
    nullable: bool = False

    @lazy
    def fields(self) -> list[pa.Field]:
        kinds = {self.name: self.element_type}
        if self.top_k is not None:
            kinds = {f"{self.name}_items": ElementType.i64, **kinds}
        made: list[pa.Field] = []
        for name, element_type in kinds.items():
            found = _arrow_type(element_type)
            for size in reversed(self._sizes):
                found = pa.list_(found, size) if size else pa.list_(found)
            made.append(pa.field(name, found))
        return made

    @property
    def _sizes(self) -> tuple[int | None, ...]:
        """The sizes of the column's lists, from the outermost; None where they are of any size."""
        sizes = self.dims if self.top_k is None else (self.top_k,)
        return (None, *sizes[1:]) if self.nullable and sizes else sizes

    def arrays(self, result: Array) -> list[pa.Array]:
        """The column or columns of a result whose first dimension is rows."""
        if self.top_k is None:
            return [
                _arrow(
                    result.reshape(len(result), -1) if not self.dims else result,
                    self._sizes,
                    self.element_type,
                )
            ]
        places, scores = best(result, self.top_k)
        return [
            _arrow(places, self._sizes, ElementType.i64),
            _arrow(scores, self._sizes, self.element_type),
        ]


def plan_outputs(
    ports: Sequence[ModelPort],
    wanted: Mapping[str, str | int] | None,
    top_k: int | None,
    nullable: bool,
) -> tuple[OutputColumn, ...]:
    """The columns for `wanted` (column name to result name or position), or for all results under
    their own names.

    `nullable` columns may lack the result of a row. Raises InputError that says which results there
    are.
    """
    names = unique_names(ports)
    listed = ", ".join(
        f"{name} {port.element_type}{port.shape}" for name, port in zip(names, ports, strict=True)
    )
    columns: list[OutputColumn] = []
    for column, said in ({name: name for name in names} if wanted is None else wanted).items():
        result = name_of(said, "output")
        position = next(
            (i for i, port in enumerate(ports) if result in port.names or result == names[i]), None
        )
        if position is None and result.isdecimal() and int(result[:9]) < len(ports):
            position = int(result)
        if position is None:
            known = [name for port in ports for name in port.names]
            raise InputError(
                f"the model has no output '{result}'{did_you_mean(result, known)}; "
                f"outputs: {listed}",
                f"output '{column}'",
            )
        columns.append(
            replace(_planned(column, position, ports[position], top_k), nullable=nullable)
        )
    InputError.when(not columns, f"no output is asked for; the model has {listed}", "outputs")
    return tuple(columns)


def _planned(name: str, position: int, port: ModelPort, top_k: int | None) -> OutputColumn:
    where = f"output '{name}'"
    InputError.when(
        not port.shape.rank,
        f"has shape {port.shape}, and a column needs one value or more for each "
        "row: choose others by output names",
        where,
    )
    dims = tuple(dim.static_size for dim in port.shape[1:])
    dims = () if dims == (1,) else dims
    if top_k is None:
        return OutputColumn(name, position, port.element_type, dims)
    InputError.when(
        len(dims) != 1 or port.element_type.kind not in ("float", "signed", "unsigned"),
        "top_k is for results [rows, items] of numbers, "
        f"and this one is {port.element_type}{port.shape}",
        where,
    )
    if top_k < 1 or (dims[0] is not None and top_k > dims[0]):
        raise InputError(
            "top_k: expected 1 to "
            f"{dims[0] if dims[0] is not None else 'the number of items'}, "
            f"got {top_k}",
            where,
        )
    return OutputColumn(name, position, port.element_type, dims, top_k)


def output_schema(
    keep: Sequence[str], columns: Sequence[OutputColumn], source: pa.Schema
) -> pa.Schema:
    """The schema of the output.

    Raises InputError when two columns have one name or a kept one does not exist.
    """
    fields: list[pa.Field] = []
    for name in keep:
        if name == ROW and ROW not in source.names:
            fields.append(pa.field(ROW, pa.int64()))
        else:
            column_type(source, name)
            fields.append(source.field(name))
            _check_writable(fields[-1], "leave it out of what is kept")
    for column in columns:
        fields.extend(column.fields)
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"two columns of the output would be called '{twice}': give a result another name, "
            f"such as --output {twice}_2={twice}",
            "outputs",
        )
    return pa.schema(fields)


def check_rejectable(source: pa.Schema) -> None:
    """Refuse a source whose rows cannot be written as they are, which rejected rows are."""
    twice = next((name for name in source.names if source.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{source.names.count(twice)} columns are called '{twice}', "
            "and rejected rows are written with all columns: rename one",
            "rejects",
        )
    for field in source:
        _check_writable(field, "and rejected rows are written with all columns: drop it")


def _check_writable(field: pa.Field, otherwise: str) -> None:
    """Refuse a column of a type that Parquet does not have: Arrow says so when it writes one."""
    try:
        # Cut, as batches are: some types can be written as a whole only.
        pq.write_table(
            pa.table({field.name: pa.nulls(3, field.type).slice(1)}), pa.BufferOutputStream()
        )
    except (pa.ArrowException, OSError):
        raise InputError(
            f"column '{field.name}' has {field.type}, which cannot be written to Parquet: "
            f"convert it, or {otherwise}",
            "source",
        ) from None


def best(scores: Array, count: int) -> tuple[Array, Array]:
    """The positions [rows, count] of each row's largest values, largest first, and the values.

    Of equal ones the first; NaN is last.
    """
    rows, items = scores.shape
    UncorkError.when(items < count, f"top_k is {count}, and a result has {items} items")
    if items == count or not rows:
        places = _descending(scores)
        return places, np.take_along_axis(scores, places, 1)
    places = np.argpartition(scores, items - count, axis=1)[:, items - count :]
    found = np.take_along_axis(scores, places, 1)
    # Ascending places first, so that the stable sort by value leaves equal ones in that order.
    order = np.argsort(places, axis=1)
    places, found = np.take_along_axis(places, order, 1), np.take_along_axis(found, order, 1)
    order = _descending(found)
    places, found = np.take_along_axis(places, order, 1), np.take_along_axis(found, order, 1)
    # Which of equal values at the border the partition took is chance, and it counts NaN as large.
    with np.errstate(invalid="ignore"):
        doubtful = np.flatnonzero((scores >= found[:, -1:]).sum(1) != count)
    if len(doubtful):
        exact = _descending(scores[doubtful])[:, :count]
        places[doubtful], found[doubtful] = exact, np.take_along_axis(scores[doubtful], exact, 1)
    return places, found


def _descending(values: Array) -> Array:
    """The positions of each row's values, largest first, equal ones in their order, NaN last."""
    if values.dtype.kind == "f":
        return np.argsort(-values, axis=1, kind="stable")
    # The negative of the smallest integer does not exist: sorted the other way round, and turned.
    last: int = values.shape[1] - 1
    return np.asarray(last - np.argsort(values[:, ::-1], axis=1, kind="stable")[:, ::-1])


def _arrow_type(element_type: ElementType) -> pa.DataType:
    if element_type is ElementType.string:
        return pa.string()
    if element_type.is_float and not element_type.is_native:
        return pa.float32()  # as results show the floats that NumPy lacks
    return pa.from_numpy_dtype(element_type.dtype)


def _arrow(array: Array, dims: Sequence[int | None], element_type: ElementType) -> pa.Array:
    flat: pa.Array = pa.array(np.ascontiguousarray(array).reshape(-1), _arrow_type(element_type))
    for axis in range(len(dims), 0, -1):
        size, count = array.shape[axis], int(np.prod(array.shape[:axis], dtype=np.int64))
        if dims[axis - 1]:
            flat = pa.FixedSizeListArray.from_arrays(flat, size)
        else:
            flat = pa.ListArray.from_arrays(
                pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size)), flat
            )
    return flat


def check_rows(columns: Sequence[OutputColumn], results: Sequence[Any], count: int) -> None:
    """Refuse a result that does not have one entry for each row."""
    for column in columns:
        shape = np.shape(results[column.position])
        UncorkError.when(
            not shape or shape[0] != count,
            f"has shape {list(shape)} for {count} rows: expected one entry for each row",
            f"output '{column.name}'",
        )
