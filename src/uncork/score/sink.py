"""The output, written whole or not at all, in a way that an interrupted run can go on with.

While a run lasts, everything lies in a folder beside the target, `.NAME.partial`: a part of the output for each finished unit, a
part of rejected rows where there are some, and the journal, which has a first line that says what is being scored and one line
for each finished unit. A part is written under a temporary name, flushed to the disk and renamed before its line is written, so
that what the journal names is there, and what it does not name is scored again. At the end the folder gets `_SUCCESS` and is
renamed to the target; when the target is a file, the parts are joined to one that is.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from uncork.errors import InputError, UncorkError
from uncork.score.parts import PartWriter, part_path, rejects_path
from uncork.score.unit import Counts, Job

JOURNAL = "_journal.jsonl"
SUCCESS = "_SUCCESS"


@dataclass(frozen=True)
class Finished:
    """A unit that is done: what the journal keeps of it. Sizes are in bytes; `rejects` is 0 when there is no such part."""

    unit: int
    counts: Counts
    size: int
    rejects: int

    def to_json(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def read(line: str) -> Finished:
        kept = json.loads(line)
        return Finished(**{**kept, "counts": Counts(**kept["counts"])})


class Sink:
    """The target of a run. `description` says what is being scored: a resumed run must have the same."""

    def __init__(self, target: str, rejects: str | None, description: dict[str, Any], job: Job) -> None:
        self.target = Path(os.path.realpath(target))
        self.is_file = self.target.suffix.lower() in (".parquet", ".pq")
        self.rejects = None if rejects is None else Path(os.path.realpath(rejects))
        self.folder = self.target.with_name(f".{self.target.name}.partial")
        self.description = description
        self.job = job
        self.finished: dict[int, Finished] = {}
        self._journal: IO[bytes] | None = None

    # ---- beginning

    def open(self, resume: bool, overwrite: bool) -> None:
        """Make the folder, or take up the journal of an interrupted run. Raises InputError, before anything is done, when that cannot be."""
        for path in (self.target, self.rejects):
            if path is None:
                continue
            if not path.parent.is_dir():
                raise InputError("cannot be written: there is no such folder", str(path))
            # The rejected rows get their name first: a run that was interrupted then has them.
            if path.exists() and not overwrite and not (resume and path is self.rejects):
                raise InputError("is there already: choose another name, or overwrite it", str(path))
            if path.exists() and path.is_dir() == (self.is_file or path is self.rejects):
                raise InputError(f"cannot be overwritten: it is {'a folder' if path.is_dir() else 'no folder'}", str(path))
        if self.folder.exists() and not resume:
            raise InputError(
                f"has the parts of an interrupted run: resume that (the same command with --resume), or delete it: {self.folder}",
                str(self.target),
            )
        try:
            if not (self.folder / JOURNAL).exists():
                self.folder.mkdir(exist_ok=True)
                self._journal = open(self.folder / JOURNAL, "xb")  # noqa: SIM115 - closed at the end
                self._locked()
                self._append(json.dumps(self.description) + "\n")
            else:
                self._journal = open(self.folder / JOURNAL, "r+b")  # noqa: SIM115 - closed at the end
                self._locked()
                self._take_up()
        except (OSError, UncorkError) as error:
            if self._journal is not None:
                self._journal.close()
            self._journal = None
            if isinstance(error, UncorkError):
                raise
            raise InputError(f"cannot be written: {error.strerror or error}", str(self.folder)) from None

    def _locked(self) -> None:
        """One run at a time has a journal. Where files cannot be locked, nobody looks."""
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        assert self._journal is not None
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("is being written by another run", str(self.target)) from None
        except OSError:  # nor on this file system
            return

    def _take_up(self) -> None:
        assert self._journal is not None
        text = self._journal.read()
        whole = text[: text.rfind(b"\n") + 1]  # a line that was cut short counts for nothing
        lines = whole.decode().splitlines()
        if not lines:  # interrupted before it began
            self._journal.truncate(0)
            self._journal.seek(0)
            self._append(json.dumps(self.description) + "\n")
            return
        self._compare(json.loads(lines[0]))
        for line in lines[1:]:
            kept = Finished.read(line)
            if self._is_there(kept):
                self.finished[kept.unit] = kept
        self._journal.truncate(len(whole))
        self._journal.seek(len(whole))
        named = {part_path(self.folder, u).name for u in self.finished} | {rejects_path(self.folder, u).name for u in self.finished}
        for path in self.folder.iterdir():
            if path.name not in named and path.name not in (JOURNAL, SUCCESS):
                path.unlink()

    def _compare(self, kept: dict[str, Any]) -> None:
        now = json.loads(json.dumps(self.description))
        # Where nothing was rejected so far, bad rows may still be taken out. Nulls would need other columns.
        ignored = {"on_error"} if (kept.get("on_error"), now["on_error"]) == ("fail", "reject") else set()
        different = [name for name in now if name not in ignored and now[name] != kept.get(name)]
        if different:
            raise InputError(
                f"cannot be resumed: {', '.join(different)} not as before; give what the interrupted run had, or delete {self.folder}",
                str(self.target),
            )

    def _is_there(self, kept: Finished) -> bool:
        parts = [(part_path(self.folder, kept.unit), kept.size)]
        if kept.rejects:
            parts.append((rejects_path(self.folder, kept.unit), kept.rejects))
        return all(path.is_file() and path.stat().st_size == size for path, size in parts)

    # ---- during the run

    def done(self, finished: Finished) -> None:
        """Note a unit whose parts are in the folder."""
        if finished.unit in self.finished:
            raise UncorkError(f"unit {finished.unit} was scored twice: this is a mistake of uncork, please report it", str(self.target))
        self.finished[finished.unit] = finished
        self._append(finished.to_json())

    def _append(self, line: str) -> None:
        assert self._journal is not None
        try:
            self._journal.write(line.encode())
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise UncorkError(f"the journal cannot be written: {error.strerror or error}", str(self.folder)) from None

    @property
    def counts(self) -> Counts:
        return sum((f.counts for f in self.finished.values()), Counts())

    def leave(self) -> bool:
        """Stop without an output. Returns whether there is anything to resume; without, nothing stays behind."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
            if not self.finished:
                shutil.rmtree(self.folder, ignore_errors=True)
            for path in self.folder.glob("*.tmp"):
                path.unlink(missing_ok=True)
        return bool(self.finished)

    # ---- the end

    def finish(self, summary: dict[str, Any]) -> None:
        """Give the output its name. Every unit has been noted."""
        assert self._journal is not None
        self._journal.close()
        self._journal = None
        units = sorted(self.finished)
        if self.rejects is not None:
            rejected = [rejects_path(self.folder, unit) for unit in units if self.finished[unit].rejects]
            self._join(rejected, self.rejects, self.job.reject_schema, [])
        if self.is_file:
            self._join([part_path(self.folder, unit) for unit in units], self.target, self.job.schema, self.job.plain_columns)
            shutil.rmtree(self.folder)
        else:
            if not units:
                PartWriter(part_path(self.folder, 0), self.job.schema).close()
            for path in self.folder.glob("_rejects-*"):
                path.unlink()
            self._write(self.folder / SUCCESS, json.dumps(summary, indent=2) + "\n")
            if self.target.exists():
                old = self.folder.with_name(f".{self.target.name}.old")
                os.rename(self.target, old)
                os.rename(self.folder, self.target)
                shutil.rmtree(old)
            else:
                os.rename(self.folder, self.target)
            (self.target / JOURNAL).unlink()
        _sync_folder(self.target.parent)

    def _join(self, parts: Iterable[Path], target: Path, schema: pa.Schema, plain: Sequence[str]) -> None:
        """The rows of the parts, in order, as one file."""
        parts = list(parts)
        if len(parts) == 1 and target == self.target:
            os.replace(parts[0], target)
            return
        scratch = target.with_name(f".{target.name}.joined")
        with PartWriter(scratch, schema, plain) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for batch in file.iter_batches(use_threads=False):
                        writer.write(batch)
        os.replace(scratch, target)

    def _write(self, path: Path, text: str) -> None:
        scratch = path.with_name(f"{path.name}.tmp")
        scratch.write_text(text)
        os.replace(scratch, path)


def _sync_folder(path: Path) -> None:
    """Make a rename durable, where folders can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
