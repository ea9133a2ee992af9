"""Readers of rows: footers of files, and batches of one size (but for the last of a unit)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from uncork.errors import UncorkError
from uncork.score.file_formats import open_csv
from uncork.score.source import Source, Span, Unit

#: Bytes that are read from a Parquet file's column at a time: a column chunk need not be in memory
#: as a whole. Over a network every read is a request.
_LOCAL_BUFFER = 1 << 18
_REMOTE_BUFFER = 8 << 20


class SourceError(UncorkError):
    """A file that could be opened cannot be read to its end: damaged, truncated, or gone."""


class Reader:
    """Reads units of a source.

    It keeps its place: a worker that gets pieces of one row group in order decodes it once.
    """

    def __init__(self, source: Source, columns: Sequence[str], batch_size: int) -> None:
        self.source = source
        self.columns = list(columns)
        self.batch_size = batch_size
        self._place: tuple[int, int, int] | None = None  # file, first and last group
        self._at = 0  # rows of these groups that have been taken
        self._open: Iterator[pa.RecordBatch] = iter(())
        self._left: pa.RecordBatch | None = None

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """The rows of a unit, `batch_size` at a time.

        Raises SourceError, with the file, when it cannot be read.
        """
        waiting: list[pa.RecordBatch] = []
        count = 0
        for span in unit.spans:
            for batch in self._span(span):
                while batch.num_rows:
                    part = batch.slice(0, self.batch_size - count)
                    waiting.append(part)
                    count += part.num_rows
                    batch = batch.slice(part.num_rows)
                    if count == self.batch_size:
                        yield _joined(waiting)
                        waiting, count = [], 0
        if waiting:
            yield _joined(waiting)

    def _span(self, span: Span) -> Iterator[pa.RecordBatch]:
        path = self.source.files[span.file].path
        place = (span.file, span.first, span.last)
        taken = 0
        try:
            if self._place != place or self._at > span.skip:
                self._place, self._at, self._left = place, 0, None
                self._check_same(span.file)
                self._open = self._groups(span)
            while taken < span.rows:
                batch = self._left if self._left is not None else next(self._open, None)
                self._left = None
                if batch is None:
                    raise SourceError(
                        f"ends after {self._at} rows of groups {span.first} to "
                        f"{span.last}, where its footer says more",
                        path,
                    )
                before = min(max(0, span.skip - self._at), batch.num_rows)
                part = batch.slice(before, min(batch.num_rows - before, span.rows - taken))
                used = before + part.num_rows
                self._left = batch.slice(used) if used < batch.num_rows else None
                self._at += used
                taken += part.num_rows
                if part.num_rows:
                    yield part
            self._check_same(span.file)  # what was read meanwhile is of the file that it was
        except (OSError, pa.ArrowException) as error:
            self._place = None
            reason = str(error).split("\n")[0].rstrip(". ")
            raise SourceError(
                f"cannot be read, at row {self._at} of groups {span.first} to "
                f"{span.last}: {reason}",
                path,
            ) from None

    def _check_same(self, number: int) -> None:
        """Refuse a file that is not the one whose footer was read: rows of both would be mixed."""
        file = self.source.files[number]
        info = self.source.filesystem.get_file_info(file.path)
        if (info.size or 0, info.mtime_ns or 0) != (file.size, file.changed):
            what = (
                "it is gone"
                if info.type == pafs.FileType.NotFound
                else "it has changed (size or time) while it was scored"
            )
            raise OSError(f"{what}: put back what the run began with and --resume, or score again")

    def _groups(self, span: Span) -> Iterator[pa.RecordBatch]:
        source, path = self.source, self.source.files[span.file].path
        groups = range(span.first, span.last + 1)
        if source.format == "parquet":
            buffer = (
                _LOCAL_BUFFER
                if isinstance(source.filesystem, pafs.LocalFileSystem)
                else _REMOTE_BUFFER
            )
            with pq.ParquetFile(
                path, filesystem=source.filesystem, buffer_size=buffer, pre_buffer=False
            ) as file:
                yield from file.iter_batches(
                    self.batch_size,
                    row_groups=list(groups),
                    columns=self.columns,
                    use_threads=False,
                )
        elif source.format == "ipc":
            with (
                source.filesystem.open_input_file(path) as stream,
                pa.ipc.open_file(stream) as reader,
            ):
                for group in groups:
                    yield reader.get_batch(group).select(self.columns)
        else:
            with open_csv(source.filesystem, path, source.schema) as reader:
                for batch in reader:
                    yield batch.select(self.columns)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return (
        batches[0]
        if len(batches) == 1
        else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )
