"""What somebody would write to score a table with OpenVINO: read a batch, call the model, write the
results.

    python -m benchmarks.scoring_loop JOB.pickle FOLDER fixed|dynamic

Everything but the call is uncork's own: the same reading of Parquet, the same arrays out of Arrow's
columns, the same writing. So what differs between two runs is the model, and what it costs to have
workers.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import openvino
import pyarrow as pa

from uncork.score.columns import arrays_of
from uncork.score.parts import PartWriter, part_path
from uncork.score.read import Reader
from uncork.score.source import Unit
from uncork.score.unit import Job


def compiled(job: Job, fixed: bool) -> openvino.CompiledModel:
    """One thread, f32. `fixed` gives static shapes to the inputs that have a row for each of the
    batch.
    """
    core = openvino.Core()
    model = core.read_model(job.model)
    if fixed:
        shapes: dict[int, list[int]] = {}
        for position, bound in enumerate(job.mapping.inputs):
            expression = bound.expression
            width = (
                [expression.width or -1]
                if expression.function == "padded"
                else [len(expression.columns)]
            )
            per_row = expression.function not in ("values", "segments")
            shapes[position] = [
                job.batch_size if per_row else -1,
                *(width if len(bound.shape) == 2 else []),
            ]
        model.reshape(shapes)
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    return core.compile_model(model, "CPU", options)


def main(stored: str, folder: str, shapes: str) -> None:
    """Score the units of a job, a part for each."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    job: Job
    units: tuple[Unit, ...]
    job, units = pickle.loads(Path(stored).read_bytes())
    model = compiled(job, shapes == "fixed")
    reader = Reader(job.source, job.read_columns, job.batch_size)
    Path(folder).mkdir()
    for unit in units:
        with PartWriter(
            part_path(Path(folder), unit.number), job.schema, job.plain_columns
        ) as writer:
            for batch in reader.batches(unit):
                arrays, faults = arrays_of(job.mapping, batch)
                if faults:
                    raise ValueError(f"{faults[0]}")
                results = model(arrays)
                columns = [batch.column(name) for name in job.keep]
                for column in job.columns:
                    columns.extend(column.arrays(np.asarray(results[column.position])))
                writer.write(pa.RecordBatch.from_arrays(columns, schema=job.schema))


if __name__ == "__main__":
    main(*sys.argv[1:])
