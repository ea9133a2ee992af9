"""`UnitScorer`: the scoring of a unit of rows, which every engine does.

`UnitScorer(job).batches(unit)` gives the output of a unit, its row errors and its counts.

A `Job` is everything that a worker has to know, frozen and picklable: the model's path and load
options, the mapping, the source, the columns of the output. It is the same for all units, so an
engine sends it once and then units, in any order, to any worker; a unit's answer depends on nothing
else. One batch is held in memory, not one unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from uncork.compiler.load import load
from uncork.errors import UncorkError
from uncork.score.batch import BatchScorer, Scored
from uncork.score.columns import RowError, take_rows
from uncork.score.mapping import Mapping
from uncork.score.outputs import ROW, OutputColumn
from uncork.score.read import Reader
from uncork.score.source import Source, Unit

#: Columns that say of a rejected row what is wrong with it; the row's own columns follow.
REJECT_FIELDS = (
    pa.field("reject_row", pa.int64()),
    pa.field("reject_reason", pa.string()),
    pa.field("reject_column", pa.string()),
    pa.field("reject_value", pa.string()),
    pa.field("reject_layer", pa.string()),
)


@dataclass(frozen=True)
class Job:
    """Everything that a worker has to know of a run, the same for all of its units.

    `load_options` are keywords of `uncork.load`; `on_error` is fail, null or reject.

    Without `negative_ids`, ids that would count from the end of their table make bad rows.
    """

    model: str
    load_options: dict[str, Any]
    source: Source
    mapping: Mapping
    keep: tuple[str, ...]
    columns: tuple[OutputColumn, ...]
    schema: pa.Schema
    on_error: str
    batch_size: int
    negative_ids: bool = True
    #: What tells the output of this run from that of another (`plan.run_of`).
    run: str = ""

    def note(self, counts: Counts) -> str:
        """The note that a file of the output keeps of its run, in JSON."""
        return json.dumps({"schema": "uncork-score-1", "run": self.run, "counts": asdict(counts)})

    @property
    def read_columns(self) -> list[str]:
        """The columns that a worker reads: mapped ones, then kept ones."""
        kept = [name for name in self.keep if name != ROW or ROW in self.source.schema.names]
        return list(dict.fromkeys([*self.mapping.columns, *kept]))

    @property
    def plain_columns(self) -> list[str]:
        """The columns of the output that hold scores: compressing them gains next to nothing."""
        return [field.name for column in self.columns for field in column.fields]

    @property
    def reject_schema(self) -> pa.Schema:
        return pa.schema([*REJECT_FIELDS, *self.source.schema])


@dataclass(frozen=True)
class Counts:
    """The counts of rows: every row of a unit is in exactly one of `scored` and `rejected`.

    `negative_ids` of the scored rows were counted from the end of their table.
    """

    rows: int = 0
    scored: int = 0
    rejected: int = 0
    negative_ids: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.scored + other.scored,
            self.rejected + other.rejected,
            self.negative_ids + other.negative_ids,
        )

    def with_batch(self, scored: Scored) -> Counts:
        """The counts so far with those of a batch added."""
        return self + Counts(scored.rows, scored.scored, len(scored.faults), scored.negative_ids)

    def check(self, expected: int, where: str) -> None:
        """Refuse to go on when a row was lost or doubled: `expected` rows were to be scored or
        rejected.
        """
        UncorkError.when(
            not expected == self.rows == self.scored + self.rejected,
            f"{expected} rows were to be read, {self.rows} were, "
            f"{self.scored} were scored and {self.rejected} rejected: "
            "this is a mistake of uncork, please report it",
            where,
        )


class UnitScorer:
    """A worker's part: the loaded model and an open source."""

    def __init__(self, job: Job) -> None:
        self.job = job
        compiled = load(job.model, **job.load_options)
        self._scorer = BatchScorer(
            compiled,
            job.mapping,
            job.keep,
            job.columns,
            job.schema,
            job.on_error,
            job.negative_ids,
        )
        self._reader = Reader(job.source, job.read_columns, job.batch_size)

    def batches(self, unit: Unit) -> Iterator[Scored]:
        """The unit's rows, scored a batch at a time, in order."""
        row = unit.first_row
        for batch in self._reader.batches(unit):
            yield self._scorer.score(batch, row)
            row += batch.num_rows

    def rejects(self, unit: Unit, faults: Sequence[RowError]) -> pa.Table:
        """The rows with faults, whole, as the source has them, with what is wrong.

        Reads the unit once more if there are any.
        """
        if not faults:
            return self.job.reject_schema.empty_table()
        wanted = [fault.row - unit.first_row for fault in faults]
        found: list[pa.RecordBatch] = []
        start = position = 0
        for batch in Reader(
            self.job.source, self.job.source.schema.names, self.job.batch_size
        ).batches(unit):
            until = position
            while until < len(wanted) and wanted[until] < start + batch.num_rows:
                until += 1
            if until > position:
                found.append(take_rows(batch, [row - start for row in wanted[position:until]]))
            start, position = start + batch.num_rows, until
        said = [
            [f.row for f in faults],
            [f.reason for f in faults],
            *([getattr(f, n) or None for f in faults] for n in ("column", "value", "layer")),
        ]
        columns = [
            pa.chunked_array([pa.array(values, f.type)])
            for values, f in zip(said, REJECT_FIELDS, strict=True)
        ]
        rows = pa.Table.from_batches(found)
        return pa.Table.from_arrays([*columns, *rows.columns], schema=self.job.reject_schema)
