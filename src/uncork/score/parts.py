"""A part of an output: a Parquet file that is there when it is whole, and not before."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from uncork.errors import UncorkError

#: Rows of a part are written when there are so many bytes of them: this, and not the part, has to
#: fit in memory.
_GROUP_BYTES = 32 << 20


#: Numbers of the scratch files of this process.
_numbers = itertools.count()


class PartWriter:
    """A writer of a Parquet file that is there, whole, after `close`, and not before.

    Use as a context: what fails leaves nothing.
    """

    def __init__(self, path: Path, schema: pa.Schema, plain: Sequence[str] = ()) -> None:
        """`plain` are columns that are written as they are: dictionaries, compression and
        statistics cost time and gain nothing on scores.
        """
        self.path = path
        self._scratch = path.with_name(f"{path.name}.{_process(os.getpid())}-{next(_numbers)}.tmp")
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        packed = [
            leaf
            for field in schema
            if field.name not in plain
            for leaf in _leaves(field.name, field.type)
        ]
        # Arrow's own file: one of Python's would have every page copied once more on its way.
        self._file = pa.OSFile(str(self._scratch), "wb")
        try:
            self._writer = pq.ParquetWriter(
                self._file,
                schema,
                use_dictionary=packed,
                compression=dict.fromkeys(packed, "snappy"),
                write_statistics=packed,
            )
        except OSError as error:  # the first bytes are written here
            self._remove()
            raise self._not_written(error) from None

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

    def note(self, key: str, text: str) -> None:
        """Write a text into the file's footer, before `finish`."""
        self._writer.add_key_value_metadata({key: text})

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting, self._bytes = [], 0
            try:
                self._writer.write_table(table, row_group_size=table.num_rows)
            except OSError as error:
                raise self._not_written(error) from None
            except pa.ArrowNotImplementedError as error:
                # Of values that no one of the schema shows
                raise UncorkError(
                    f"cannot be written to Parquet: {error}; "
                    "leave such a column out, or "
                    "convert it",
                    str(self.path),
                ) from None

    def close(self) -> int:
        """Make the file durable and give it its name. Returns its size in bytes."""
        size = self.finish()
        self.commit()
        return size

    def finish(self) -> int:
        """Write what is not written yet: the file then waits for `commit`, which may be called in
        another thread. Returns its size.
        """
        with self._guarded():
            self._flush()
            self._writer.close()
            return int(self._file.tell())

    def commit(self) -> None:
        """Make the finished file durable and give it its name. The disk works here, and nothing is
        computed.
        """
        with self._guarded():
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._scratch, self.path)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A context that removes the unfinished file when something in it fails."""
        try:
            yield
        except OSError as error:
            self.abandon()
            raise self._not_written(error) from None
        except BaseException:
            self.abandon()
            raise

    def _not_written(self, error: OSError) -> UncorkError:
        # Arrow's own text says where in Arrow
        reason = os.strerror(error.errno) if error.errno else str(error)
        return UncorkError(f"cannot be written: {reason}", str(self.path))

    def abandon(self) -> None:
        """Remove the unfinished file."""
        with contextlib.suppress(Exception):  # the disk is full, perhaps: there is nothing to save
            self._writer.close()
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._scratch.unlink(missing_ok=True)


def _leaves(path: str, found: pa.DataType) -> list[str]:
    """The names of the leaves that Parquet stores a column as."""
    if (
        pa.types.is_list(found)
        or pa.types.is_large_list(found)
        or pa.types.is_fixed_size_list(found)
    ):
        return _leaves(f"{path}.list.element", found.value_type)
    if pa.types.is_struct(found):
        return [leaf for field in found for leaf in _leaves(f"{path}.{field.name}", field.type)]
    return [path]


def _process(number: int) -> str:
    """The name of a process, unique among those that write into the same folder, on this host or
    another.
    """
    host = re.sub(r"[^A-Za-z0-9_]", "_", socket.gethostname())[:40]
    return f"{host}-{number}"


def scratch_files(folder: Path, process: int) -> list[Path]:
    """The files that a process of this host, given by its number, has begun in a folder and not
    finished.
    """
    return list(folder.glob(f"*.{_process(process)}-*.tmp"))


def part_path(folder: Path, unit: int) -> Path:
    return folder / f"part-{unit:05d}.parquet"


def rejects_path(folder: Path, unit: int) -> Path:
    return folder / f"_rejects-{unit:05d}.parquet"
