"""The plan of a run, made before a row is read: source, mapping, columns of the output, units."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from msgspec.structs import replace as with_fields

from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.load import load
from uncork.destination import Read, path_of_table
from uncork.errors import InputError
from uncork.score.mapping import bind, list_item
from uncork.score.options import ScoreOptions
from uncork.score.outputs import check_rejectable, output_schema, plan_outputs
from uncork.score.source import Source, Unit, open_source, plan_units
from uncork.score.unit import REJECT_FIELDS, Job
from uncork.types import ElementType

#: Rows of a call, where neither the caller nor the model says: enough that a call costs nothing
#: beside its rows, few enough that what lies between two layers of a sequence model stays in the
#: cache.
BATCH_SIZE = 1024


@dataclass(frozen=True)
class ScoringPlan:
    """A job, its units, and the model as the process that prepared it has loaded it."""

    job: Job
    units: tuple[Unit, ...]
    compiled: CompiledModel

    def describe(self) -> dict[str, Any]:
        """The description of a run, in values of JSON: what must be the same for the run to go on.
        Sizes and times stand for what files hold.
        """
        job = self.job
        model = Path(job.model)
        weights = job.load_options["weights"] or model.with_suffix(".bin")
        tables: dict[str, str] = job.load_options["tables"] or {}
        return {
            "schema": "uncork-score-journal-1",
            "model": hashlib.sha256(model.read_bytes()).hexdigest(),
            "weights": _state(weights),
            "tables": {name: [path, _state(path)] for name, path in tables.items()},
            "load options": {
                name: value
                for name, value in job.load_options.items()
                if name not in ("weights", "tables")
            },
            "source": job.source.to_json(),
            "mapping": job.mapping.to_text(),
            "keep": list(job.keep),
            "outputs": [[column.name, column.position, column.top_k] for column in job.columns],
            "on_error": job.on_error,
            "batch size": job.batch_size,
            "negative ids": job.negative_ids,
            "units": [unit.rows for unit in self.units],
        }

    def reads(self, mapping: str | os.PathLike[str] | None) -> list[Read]:
        """The files that the run reads, as messages call them: they must never be written over."""
        job = self.job
        options = job.load_options
        weights = options["weights"] or Path(job.model).with_suffix(".bin")
        result: list[Read] = [("the model", job.model), ("the weights", weights)]
        tables: dict[str, str] = options["tables"] or {}
        result += [(f"table '{name}'", path_of_table(path)) for name, path in tables.items()]
        if mapping is not None:
            result.append(("the mapping", mapping))
        if isinstance(job.source.filesystem, pafs.LocalFileSystem):
            result += [("the source", file.path) for file in job.source.files]
        return result

    def changed(self, before: dict[str, Any]) -> list[str]:
        """The names of what has changed since `describe` gave `before`: files of the model."""
        try:
            now = self.describe()
        except OSError:
            return ["model"]
        return [name for name in before if before[name] != now[name]]

    def __str__(self) -> str:
        """The plan in words, line by line: `--show-mapping`."""
        job = self.job
        files = f"{len(job.source.files):,} {job.source.format} file(s)"
        lines = [
            f"{job.source.rows:,} rows in {files}, {len(self.units):,} unit(s), "
            f"batches of {job.batch_size:,} rows",
            "inputs of the model:",
        ]
        for bound in job.mapping.inputs:
            types = ", ".join(
                f"{column} {job.source.schema.field(column).type}"
                for column in bound.expression.columns
            )
            lines.append(
                f"  {bound.name} {bound.element_type}{bound.shape} = {bound.expression}"
                + (f"    from {types}; {self._how(bound)}" if types else "")
            )
        lines.append("columns of the output:")
        results = {field.name: column for column in job.columns for field in column.fields}
        for field in job.schema:
            column = results.get(field.name)
            origin = (
                "kept"
                if column is None
                else (f"output {column.position} of the model")
                + (f", best {column.top_k}" if column.top_k else "")
            )
            lines.append(f"  {field.name} {field.type}    {origin}")
        return "\n".join(lines)

    def _how(self, bound: Any) -> str:
        if bound.expression.function in ("offsets", "segments", "length"):
            return "counted"
        inner = self.job.source.schema.field(bound.expression.columns[0]).type
        while (item := list_item(inner)) is not None:
            inner = item
        native = bound.element_type.is_native and inner == pa.from_numpy_dtype(
            bound.element_type.dtype
        )
        if bound.element_type is ElementType.string or native:
            return "as it is"
        return (
            f"to the nearest {bound.element_type}"
            if bound.expression.rounded
            else f"to {bound.element_type} where exact, else a bad row"
        )


def _state(path: str | os.PathLike[str]) -> list[int] | None:
    """The size and the time of a file; `x.safetensors:key` is the file before the key."""
    file = Path(path_of_table(path))
    status = file.stat() if file.is_file() else None
    return None if status is None else [status.st_size, status.st_mtime_ns]


def plan(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Source,
    options: ScoreOptions,
) -> ScoringPlan:
    """Check everything that can be checked without reading rows.

    Raises InputError, or what `uncork.load` raises.
    """
    on_error, batch_size = options.on_error, options.batch_size
    InputError.when(
        on_error not in ("fail", "null", "reject"),
        f"expected fail, null or reject, got {on_error!r}",
        "on_error",
    )
    for name in ("batch_size", "rows_per_part", "top_k", "limit"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise InputError(f"expected a number of at least 1, got {value!r}", name)
    load_options = options.for_load()
    compiled = load(model, **load_options)
    InputError.when(
        compiled.model.sinks,
        "has variables, which carry state from one call to the next: "
        "rows could not be scored in any order",
        str(model),
    )
    opened = source if isinstance(source, Source) else open_source(source, options.format)
    if options.limit is not None:
        opened = opened.first(options.limit)
    told = with_fields(options, outputs=options.outputs or None).with_mapping()
    bound = bind(compiled.inputs, opened.schema, told.inputs or {})
    columns = plan_outputs(compiled.outputs, told.outputs, told.top_k, on_error == "null")
    kept = ("row",) if told.keep is None else tuple(told.keep)
    schema = output_schema(kept, columns, opened.schema)
    if on_error == "reject":
        check_rejectable(opened.schema)
        taken = [field.name for field in REJECT_FIELDS if field.name in opened.schema.names]
        if taken:
            raise InputError(
                f"the source has a column '{taken[0]}', "
                "which is what rejected rows are given: rename it",
                opened.name,
            )
    if bound.batch is not None and batch_size not in (None, bound.batch):
        raise InputError(
            f"the model takes {bound.batch} rows at a time, got {batch_size}", "batch_size"
        )
    size = bound.batch or min(batch_size or BATCH_SIZE, max(1, opened.rows))
    units = plan_units(opened, size, options.rows_per_part)
    # Of small units the largest is the batch: a number of rows that no batch has would cost a
    # kernel for nothing.
    job = Job(
        os.fspath(model),
        {**load_options, "threads": 1},
        opened,
        bound,
        kept,
        columns,
        schema,
        on_error,
        size,
        options.negative_ids,
    )
    described = ScoringPlan(job, tuple(units), compiled).describe()
    return ScoringPlan(replace(job, run=run_of(described)), tuple(units), compiled)


def run_of(description: Mapping[str, Any]) -> str:
    """The identity of a run, in a few letters: runs that score anything else have another one.

    A run that was to fail at a bad row may go on and reject it: both are the same run.
    """
    nulls = description["on_error"] == "null"
    text = json.dumps({**description, "on_error": nulls}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
