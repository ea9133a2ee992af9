"""`Scorer`: rows in, scores out, for engines that bring the rows (Ray Data, Polars, Spark).

It is made of paths and options, so it pickles small; the model is loaded where it is first called,
once in each process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.load import load
from uncork.compiler.options import asked, taking
from uncork.concurrency import WorkLock
from uncork.errors import InputError
from uncork.score.batch import BatchScorer
from uncork.score.frames import from_frame, to_frame
from uncork.score.mapping import bind
from uncork.score.options import Location, ScorerArguments, ScorerOptions
from uncork.score.outputs import ROW, output_schema, plan_outputs
from uncork.score.plan import BATCH_SIZE

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Models of this process by path, state of the file and options. Scorers of one model share it.
_models: dict[tuple[Any, ...], CompiledModel] = {}
_loading = WorkLock()


class Scorer:
    """A model as a function on rows: it takes a RecordBatch, Table or data frame, and gives one of
    the same kind with a row for each row.

    >>> given = {"items": "padded(items, 20)"}
    >>> scorer = uncork.score.Scorer("model.xml", inputs=given, keep=["session"])  # doctest: +SKIP
    >>> scorer(batch)  # doctest: +SKIP

    `inputs`, `outputs`, `keep`, `top_k`, `strict` and `negative_ids` are those of `uncork.score`;
    `keep` is nothing unless it is given. `on_error` is "fail" or "null". `batch_size` is the most
    rows of a call of the model; `weights`, `tables`, `backend`, `precision`, `decompression` and
    `activations` are those of `uncork.load`.
    `threads` is 1, since engines have as many workers as processors.
    """

    @taking(ScorerArguments, ScorerOptions)
    def __init__(self, model: Location, **options: Unpack[ScorerArguments]) -> None:
        """Loads and checks the model.

        Raises what `uncork.load` raises, and InputError for outputs that are not there.
        """
        told = asked(Scorer, options, ScorerOptions)
        on_error, batch_size, keep = told.on_error, told.batch_size, tuple(told.keep or ())
        InputError.when(
            on_error not in ("fail", "null"),
            f"expected fail or null, got {on_error!r}: "
            "a function on rows has no place for rejected ones",
            "on_error",
        )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise InputError(f"expected a number of at least 1, got {batch_size!r}", "batch_size")
        InputError.when(
            ROW in keep,
            "'row' is the number of a row in a whole source, "
            "which a function on some rows does not know",
            "keep",
        )
        self.model = os.path.abspath(model)
        self.inputs = dict(told.inputs or {})
        self.keep = keep
        self.on_error = on_error
        self.negative_ids = told.negative_ids
        self.batch_size = batch_size
        weights, tables = told.weights, told.tables or {}
        absolute = replace(
            told,
            weights=None if weights is None else os.path.abspath(weights),
            tables={name: os.path.abspath(path) for name, path in tables.items()} or None,
        )
        self._options = {**absolute.for_load(), "threads": told.threads}
        self._schemas: dict[pa.Schema, tuple[BatchScorer, int]] = {}
        compiled = self.compiled
        InputError.when(
            compiled.model.sinks,
            "has variables, which carry state from one call to the next: "
            "rows would depend on each other",
            str(model),
        )
        self.columns = plan_outputs(compiled.outputs, told.outputs, told.top_k, on_error == "null")

    @property
    def compiled(self) -> CompiledModel:
        """The model as this process has loaded it."""
        status = os.stat(self.model) if os.path.exists(self.model) else None
        state = None if status is None else (status.st_size, status.st_mtime_ns)
        key = (self.model, state, repr(self._options))
        with _loading.held():
            if key not in _models:
                made = load(self.model, **self._options)
                return _models.setdefault(key, made)
            return _models[key]

    def schema(self, source: pa.Schema) -> pa.Schema:
        """The columns that come out for rows with these columns; engines ask for them.

        Raises InputError when they do not fit.
        """
        return self._bound(source)[0].schema

    def __call__(self, rows: Any) -> Any:
        """Score rows: a pyarrow RecordBatch or Table, a pandas or Polars data frame, or a
        dictionary of columns.

        Raises InputError when columns do not fit, BadRowError for a row that cannot be scored
        unless `on_error="null"`.
        """
        table = from_frame(rows)
        scorer, size = self._bound(table.schema)
        batches = [scorer.score(batch, first).table for first, batch in _batches(table, size)]
        return to_frame(pa.Table.from_batches(batches, scorer.schema), rows)

    def map_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of an iterator, scored: what Spark's `mapInArrow` takes. Lists are of any
        length here, since Spark knows no others.
        """
        for batch in batches:
            yield _with_plain_lists(self(batch))

    def _bound(self, source: pa.Schema) -> tuple[BatchScorer, int]:
        source = source.remove_metadata()
        result = self._schemas.get(source)
        if result is None:
            compiled = self.compiled
            mapping = bind(compiled.inputs, source, self.inputs)
            if mapping.batch is not None and self.batch_size not in (None, mapping.batch):
                raise InputError(
                    f"the model takes {mapping.batch} rows at a time, got {self.batch_size}",
                    "batch_size",
                )
            schema = output_schema(self.keep, self.columns, source)
            scorer = BatchScorer(
                compiled, mapping, self.keep, self.columns, schema, self.on_error, self.negative_ids
            )
            result = self._schemas[source] = scorer, mapping.batch or self.batch_size or BATCH_SIZE
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schemas": {}}

    def __repr__(self) -> str:
        return f"<Scorer of {self.model}: {', '.join(column.name for column in self.columns)}>"


def _with_plain_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its lists of fixed size as lists of any length."""
    arrays = [
        array.cast(pa.list_(array.type.value_type))
        if pa.types.is_fixed_size_list(array.type)
        else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _batches(table: pa.Table, size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a table, of one size but for the last, each with its first row number."""
    for first in range(0, table.num_rows, size):
        part = table.slice(first, size).combine_chunks()
        yield first, part.to_batches()[0]
