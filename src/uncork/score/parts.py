"""A part of an output: a Parquet file that is there when it is whole, and not before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from uncork.errors import UncorkError

#: Rows of a part are written when there are so many bytes of them: this, and not the part, has to fit in memory.
_GROUP_BYTES = 32 << 20


class PartWriter:
    """A Parquet file that is there, whole, after `close`, and not before. Use as a context: what fails leaves nothing."""

    def __init__(self, path: Path, schema: pa.Schema, plain: Sequence[str] = ()) -> None:
        """`plain` are columns that are written as they are: dictionaries, compression and statistics cost time and gain nothing on scores."""
        self.path = path
        self._scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        packed = [leaf for field in schema if field.name not in plain for leaf in _leaves(field.name, field.type)]
        self._file = open(self._scratch, "wb")  # noqa: SIM115 - closed by close or abandon
        self._writer = pq.ParquetWriter(
            self._file, schema, use_dictionary=packed, compression=dict.fromkeys(packed, "snappy"), write_statistics=packed
        )

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises UncorkError, as `close` does, when the disk does not take them."""
        if batch.num_rows:
            self._waiting.append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting, self._bytes = [], 0
            try:
                self._writer.write_table(table, row_group_size=table.num_rows)
            except OSError as error:
                raise self._not_written(error) from None

    def close(self) -> int:
        """Make the file durable and give it its name. Returns its size in bytes."""
        try:
            self._flush()
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
            self._file.close()
            os.replace(self._scratch, self.path)
        except OSError as error:
            self.abandon()
            raise self._not_written(error) from None
        except BaseException:
            self.abandon()
            raise
        return size

    def _not_written(self, error: OSError) -> UncorkError:
        return UncorkError(f"cannot be written: {error.strerror or error}", str(self.path))

    def abandon(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(Exception):  # the disk is full, perhaps: there is nothing to save
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()
        self._scratch.unlink(missing_ok=True)


def _leaves(path: str, found: pa.DataType) -> list[str]:
    """Parquet's names of the columns that a column consists of there."""
    if pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found):
        return _leaves(f"{path}.list.element", found.value_type)
    if pa.types.is_struct(found):
        return [leaf for field in found for leaf in _leaves(f"{path}.{field.name}", field.type)]
    return [path]


def part_path(folder: Path, unit: int) -> Path:
    return folder / f"part-{unit:05d}.parquet"


def rejects_path(folder: Path, unit: int) -> Path:
    return folder / f"_rejects-{unit:05d}.parquet"
