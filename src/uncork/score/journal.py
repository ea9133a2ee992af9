"""The journal of a run: JSON, one record a line, each with a checksum, each durable when written.

The first record says what is scored; the others, which unit is finished, or that the output is
about to get its name. One run at a time has a journal. A line that is damaged counts for nothing.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from uncork.errors import InputError, UncorkError
from uncork.score.unit import Counts

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on this system: nobody looks whether there is another run
    fcntl = None

Record = dict[str, Any]
_CHECK = b', "check": "%08x"}\n'
_CHECK_SIZE = len(_CHECK % 0)


def line_of(record: Record) -> bytes:
    """A record as a line, with the checksum of its text."""
    text = json.dumps(record).encode()
    return text[:-1] + _CHECK % zlib.crc32(text)


def record_of(line: bytes) -> Record | None:
    """The record of a line with its end; None when it is damaged."""
    text = line[:-_CHECK_SIZE] + b"}"
    if line != text[:-1] + _CHECK % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


@dataclass(frozen=True)
class Finished:
    """A unit that is done: what the journal keeps of it.

    Sizes are in bytes; `rejects` is 0 when there is no such part.
    """

    unit: int
    counts: Counts
    size: int
    rejects: int

    @staticmethod
    def of(record: Record) -> Finished:
        return Finished(**{**record, "counts": Counts(**record["counts"])})


class Journal:
    """An open journal that no other run has. Close it."""

    def __init__(self, path: Path, mode: str, busy: str) -> None:
        self.path = path
        # Without a buffer: what the disk does not take must not come back when it is closed.
        self._file: IO[bytes] = open(path, mode, buffering=0)  # noqa: SIM115 - closed at the end
        try:
            self._lock(busy)
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def create(path: Path, description: Record, busy: str) -> Journal:
        """A new journal. `busy` is the name in the error when another run has one there."""
        try:
            journal = Journal(path, "xb", busy)
        except FileExistsError:  # another run was faster
            raise InputError("is being written by another run", busy) from None
        try:
            journal.append(description)
        except BaseException:
            journal.close()
            raise
        return journal

    @staticmethod
    def take_up(path: Path, busy: str) -> tuple[Journal, Record | None, list[Record]]:
        """The journal of an interrupted run, its first record and the others.

        There is no first record when the run was interrupted before it had written that. Raises
        InputError when another run has the journal, or when its first line is damaged.
        """
        InputError.when(
            not path.is_file(), f"{path.name} is not an ordinary file: delete {path.parent}", busy
        )
        journal = Journal(path, "r+b", busy)
        try:
            lines = journal._lines()
            if not lines:
                return journal, None, []
            first, *records = map(record_of, lines)
            if first is None:
                raise InputError(
                    "cannot be resumed: the journal of the interrupted run is damaged, so that it "
                    f"is not known what its parts are; delete {path.parent} and score again",
                    busy,
                )
            return journal, first, [record for record in records if record is not None]
        except BaseException:
            journal.close()
            raise

    def _lines(self) -> list[bytes]:
        """The lines that have an end. A last line that was cut short is removed from the file."""
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        self._file.seek(len(whole))
        return [line + b"\n" for line in whole.split(b"\n")[:-1]]

    def _lock(self, busy: str) -> None:
        """Lock the journal for this run alone. Where files cannot be locked, nothing is checked."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("is being written by another run", busy) from None
        except OSError:  # nor on this file system
            return
        # A run that has just ended may have deleted or moved what was opened here.
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            same = False
        InputError.when(not same, "was being written by another run, which has just ended", busy)

    def append(self, record: Record) -> None:
        """Write a record; it is on the disk when this returns."""
        left = memoryview(line_of(record))
        try:
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            reason = error.strerror or error
            where = str(self.path.parent)
            raise UncorkError(f"the journal cannot be written: {reason}", where) from None

    def close(self) -> None:
        """Close the journal, so that another run can have it. May be called twice."""
        self._file.close()
