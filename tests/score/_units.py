"""A unit of rows scored as a whole, in memory, where engines write batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from uncork.score.columns import RowError
from uncork.score.source import Unit
from uncork.score.unit import Counts, Job, UnitScorer


@dataclass(frozen=True)
class UnitResult:
    """The output of a unit, the rows that were rejected with their reasons (`Job.reject_schema`),
    and how many there are of each.
    """

    table: pa.Table
    rejects: pa.Table
    counts: Counts
    faults: tuple[RowError, ...]


def score_unit(job: Job, unit: Unit) -> UnitResult:
    """Score a unit by a scorer of its own."""
    scorer, batches, faults, counts = (
        UnitScorer(job),
        list[pa.RecordBatch](),
        list[RowError](),
        Counts(),
    )
    for scored in scorer.batches(unit):
        batches.append(scored.table)
        faults.extend(scored.faults)
        counts = counts.with_batch(scored)
    rejects = scorer.rejects(unit, faults if job.on_error == "reject" else [])
    counts.check(unit.rows, f"unit {unit.number}")
    return UnitResult(pa.Table.from_batches(batches, job.schema), rejects, counts, tuple(faults))
