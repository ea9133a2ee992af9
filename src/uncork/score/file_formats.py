"""The formats of table files: what a file says of itself before its rows are read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq


def read_footer(
    filesystem: Any, path: str, kind: str, schema: pa.Schema | None
) -> tuple[pa.Schema, list[int]]:
    """The schema of a file and the numbers of rows of its groups.

    `schema` says how a CSV file's text is to be read.
    """
    if kind == "parquet":
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            metadata = file.metadata
            return file.schema_arrow, [
                metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)
            ]
    if kind == "ipc":
        with filesystem.open_input_file(path) as stream, pa.ipc.open_file(stream) as reader:
            return reader.schema, [
                reader.get_batch(i).num_rows for i in range(reader.num_record_batches)
            ]
    with open_csv(filesystem, path, schema) as reader:
        return reader.schema, [sum(batch.num_rows for batch in reader)]


def open_csv(filesystem: Any, path: str, schema: pa.Schema | None) -> Any:
    """A reader of a CSV file's batches, of the types of `schema` where there is one."""
    stream = filesystem.open_input_stream(path, compression="detect")
    separator = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    # Of a name that several columns have, no type can be given: nobody reads those.
    single = [] if schema is None else [f for f in schema if schema.names.count(f.name) == 1]
    types = {field.name: field.type for field in single}
    convert = pacsv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return pacsv.open_csv(
        stream,
        pacsv.ReadOptions(use_threads=False),
        pacsv.ParseOptions(delimiter=separator),
        convert,
    )
