"""One batch: columns to arrays, the call, results to columns, and the rows that are refused.

A batch that the model refuses is narrowed down until the rows that it refuses stand alone; all
others are scored. Rows are assumed not to influence each other, as the rows of a batch should not.
Whatever is scored again is brought to a number of rows that was seen before (a power of two, or the
batch's own) by repeating its last row, because kernels are chosen for each shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from uncork.compiler.compile import CompiledModel
from uncork.errors import InputError
from uncork.score.columns import RowError, arrays_of, take_rows
from uncork.score.mapping import Mapping
from uncork.score.negative_ids import counting_from_end
from uncork.score.outputs import ROW, OutputColumn, check_rows
from uncork.types import Array


class BadRowError(InputError):
    """A row that cannot be scored, where bad rows are errors."""


@dataclass(frozen=True)
class Scored:
    """The result of a batch: its output, and the faults of the rows that have none, by their
    numbers in the whole input.

    `negative_ids` is how many ids of scored rows were counted from the end of their table.
    """

    table: pa.RecordBatch
    rows: int
    scored: int
    faults: tuple[RowError, ...]
    negative_ids: int = 0


class BatchScorer:
    """A loaded model with its mapping and its columns of output.

    `on_error` is fail, null or reject.

    Without `negative_ids`, rows with ids that would count from the end of their table are bad rows.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        mapping: Mapping,
        keep: Sequence[str],
        columns: Sequence[OutputColumn],
        schema: pa.Schema,
        on_error: str,
        negative_ids: bool = True,
    ) -> None:
        self.compiled = compiled
        self.mapping = mapping
        self.keep = list(keep)
        self.columns = list(columns)
        self.schema = schema
        self.on_error = on_error
        self.negative_ids = negative_ids
        self._from_end = counting_from_end(compiled)

    def score(self, batch: pa.RecordBatch, first_row: int) -> Scored:
        """Score the rows of a batch; the first of them is row `first_row`.

        Raises BadRowError when `on_error` is fail.
        """
        count: int = batch.num_rows
        arrays, faults = arrays_of(self.mapping, batch)
        if not faults and (self.mapping.batch is None or self.mapping.batch == count):
            try:
                results = self._results(arrays, count)
                made = self._assemble(batch, first_row, None, [(None, results)], [])
                return replace(made, negative_ids=self._counted_from_end(arrays, count))
            except InputError as error:
                if count == 1:
                    faults = [self._fault(error, arrays, 0)]
                    if self.on_error != "fail":
                        return self._assemble(batch, first_row, np.zeros(0, np.int64), [], faults)
                else:
                    return self._isolate_bad_rows(
                        batch, first_row, np.arange(count), [], (error, arrays)
                    )
        if faults and self.on_error == "fail":
            # the first bad row may be one of those that the model refuses
            before = np.arange(faults[0].row)
            self._isolate_bad_rows(batch, first_row, before, [], None)
            raise BadRowError(str(replace(faults[0], row=first_row + faults[0].row)))
        good = np.setdiff1d(np.arange(count), [fault.row for fault in faults])
        return self._isolate_bad_rows(batch, first_row, good, faults, None)

    def _results(self, arrays: Sequence[Array], count: int) -> list[Array]:
        if not self.negative_ids:
            for position, array in self._owned(arrays):
                if position in self._from_end:
                    self._from_end[position].refuse(array)
        results = list(self.compiled(*arrays))
        check_rows(self.columns, results, count)
        return results

    def _counted_from_end(self, arrays: Sequence[Array], count: int) -> int:
        """How many ids of the first `count` rows were counted from the end of their table."""
        total = 0
        for position, array in self._owned(arrays):
            if position in self._from_end:
                places = self._from_end[position].counted(array)
                rows = self._rows_of(position, arrays, array, places)
                total += int((rows < count).sum())  # those after them are repeated rows
        return total

    def _isolate_bad_rows(
        self,
        batch: pa.RecordBatch,
        first_row: int,
        rows: Array,
        faults: list[RowError],
        known: tuple[InputError, list[Array]] | None,
    ) -> Scored:
        """Score `rows` of a batch in smaller and smaller parts, until bad rows are alone and set
        aside.

        `known` is the error of all of them together.
        """
        waiting = [rows] if len(rows) else []
        done: list[tuple[Array | None, list[Array]]] = []
        negative_ids = 0
        if known is not None:
            waiting = self._bisect(rows, *known)
        while waiting:
            part = waiting.pop(0)
            arrays, size = self._pad(batch, part)
            try:
                done.append((part, [result[: len(part)] for result in self._results(arrays, size)]))
                negative_ids += self._counted_from_end(arrays, len(part))
            except InputError as error:
                if len(part) > 1:
                    waiting[:0] = self._bisect(part, error, arrays)
                    continue
                fault = self._fault(error, arrays, int(part[0]))
                if self.on_error == "fail":
                    text = str(replace(fault, row=first_row + fault.row))
                    raise BadRowError(text, **error.problems[0].known()) from None
                faults.append(fault)
        good = (
            np.sort(np.concatenate([part for part, _ in done if part is not None]))
            if done
            else np.zeros(0, np.int64)
        )
        made = self._assemble(batch, first_row, good, done, sorted(faults, key=lambda f: f.row))
        return replace(made, negative_ids=negative_ids)

    def _pad(self, batch: pa.RecordBatch, part: Array) -> tuple[list[Array], int]:
        """The arrays of some rows, padded with repeats of the last row, and the padded number of
        rows.
        """
        size = self.mapping.batch or min(
            1 << (len(part) - 1).bit_length(), max(batch.num_rows, len(part))
        )
        rows = np.concatenate([part, np.full(size - len(part), part[-1])])
        mapped = batch.select(list(self.mapping.columns))
        # Without columns the number of rows would be lost.
        arrays, _ = arrays_of(
            self.mapping, take_rows(mapped if mapped.num_columns else batch, rows.tolist())
        )
        return arrays, size

    def _bisect(self, part: Array, error: InputError, arrays: Sequence[Array]) -> list[Array]:
        """The parts of `part` to try next: rows with numbers that look like the refused one, each
        alone, else the halves.
        """
        suspects = self._suspects(error, arrays, len(part))
        if self.on_error != "fail" and 0 < len(suspects) < len(part):
            others = np.setdiff1d(np.arange(len(part)), suspects)
            return [part[others], *(part[i : i + 1] for i in suspects)]
        half = 1 << (len(part) - 1).bit_length() - 1
        return [part[:half], part[half:]]

    def _suspects(self, error: InputError, arrays: Sequence[Array], count: int) -> Array:
        """The rows with a number beyond the bounds of the problem.

        A guess: what they are is seen when they are scored.
        """
        problem = error.problems[0]
        value, low, high = problem.value, problem.low, problem.high
        if value is None or low is None or high is None:
            return np.zeros(0, np.int64)
        rows: list[Array] = []
        for position, array in self._owned(arrays):
            if array.dtype.kind in "iu" and (array == value).any():
                places = np.flatnonzero(((array < low) | (array > high)).reshape(-1))
                rows.append(self._rows_of(position, arrays, array, places))
        suspects = np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)
        return suspects[suspects < count]

    def _owned(self, arrays: Sequence[Array]) -> list[tuple[int, Array]]:
        """The arrays that hold values of columns, with the positions of their inputs."""
        functions = ("column", "stack", "padded", "values")
        return [
            (i, a)
            for i, (b, a) in enumerate(zip(self.mapping.inputs, arrays, strict=True))
            if b.expression.function in functions
        ]

    def _rows_of(
        self, position: int, arrays: Sequence[Array], array: Array, places: Array
    ) -> Array:
        expression = self.mapping.inputs[position].expression
        if expression.function != "values":
            return places // max(1, array.size // max(1, len(array)))
        for other, made in zip(self.mapping.inputs, arrays, strict=True):
            if (
                other.expression.columns == expression.columns
                and other.expression.function == "offsets"
            ):
                return np.searchsorted(made, places, "right") - 1
            if (
                other.expression.columns == expression.columns
                and other.expression.function == "segments"
            ):
                return made[places].astype(np.int64)
        return np.zeros(0, np.int64)

    def _fault(self, error: InputError, arrays: Sequence[Array], row: int) -> RowError:
        """The fault of a row that stands alone in `arrays`, by a search of the columns for the
        value that is refused.
        """
        problem = error.problems[0]
        layer = error.where if problem.layer else ""
        reason = error.message if layer else str(error)
        if problem.value is None:
            return RowError(row, reason, layer=layer)
        names: set[str] = set()
        for position, array in self._owned(arrays):
            if array.dtype.kind in "iuf" and (array == problem.value).any():
                names.update(self.mapping.inputs[position].expression.columns)
        advice = [
            self.mapping.advice(bound.expression, problem.value)
            for bound, array in zip(self.mapping.inputs, arrays, strict=True)
            if bound.expression.function == "length" and (array == problem.value).any()
        ]
        reason += next(filter(None, advice), "")
        return RowError(
            row, reason, names.pop() if len(names) == 1 else "", str(problem.value), layer
        )

    def _assemble(
        self,
        batch: pa.RecordBatch,
        first_row: int,
        good: Array | None,
        done: Sequence[tuple[Array | None, list[Array]]],
        faults: Sequence[RowError],
    ) -> Scored:
        """The output of a batch, from the results of its parts.

        `good` are the rows that were scored, None for all; with null, the others are there without
        results.
        """
        count: int = batch.num_rows
        names = batch.schema.names
        arrays: list[pa.Array] = [
            pa.array(np.arange(first_row, first_row + count))
            if n == ROW and n not in names
            else batch.column(n)
            for n in self.keep
        ]
        if good is not None and self.on_error == "reject":
            kept = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
            arrays = take_rows(kept, good.tolist()).columns if arrays else []
        for column in self.columns:
            parts = [column.arrays(results[column.position]) for _, results in done]
            for index, field in enumerate(column.fields):
                arrays.append(
                    self._ordered(
                        [part[index] for part in parts],
                        field,
                        [part for part, _ in done],
                        good,
                        count,
                    )
                )
        absolute = tuple(replace(fault, row=first_row + fault.row) for fault in faults)
        return Scored(
            pa.RecordBatch.from_arrays(arrays, schema=self.schema),
            count,
            count if good is None else len(good),
            absolute,
        )

    def _ordered(
        self,
        parts: list[pa.Array],
        field: pa.Field,
        rows: Sequence[Array | None],
        good: Array | None,
        count: int,
    ) -> pa.Array:
        """A column made of its parts, in the order of the rows."""
        if good is None:
            return parts[0]
        joined: Any = pa.concat_arrays(parts) if parts else pa.nulls(0, field.type)
        place = np.full(count, -1)
        place[
            np.concatenate([r for r in rows if r is not None]) if parts else np.zeros(0, np.int64)
        ] = np.arange(len(joined))
        wanted = place[good] if self.on_error == "reject" else place
        return joined.take(pa.array(wanted, pa.int64(), mask=wanted < 0))
