"""The sink of a run: the output is written whole or not at all, so that an interrupted run can go
on.

While a run lasts, everything lies in a folder beside the target, `.NAME.partial`: a part of the
output for each finished unit, a part of rejected rows where there are some, and the journal, which
has a first line that says what is being scored and one line for each finished unit. A part is
written under a temporary name, flushed to the disk and renamed before its line is written, so that
what the journal names is there, and what it does not name is scored again.

The end, step by step; a run that is killed between any two is resumed, or was finished:

1. Rejected rows are joined in the folder; so are the parts, when the target is a file. A target
   that is a folder gets `_SUCCESS`.
2. The journal notes that the output gets its name, and by what the output is known.
3. The rejected rows get their name. A run that was interrupted before has none under it.
4. The output gets its name. An old folder goes to `.NAME.old` first, and comes back on a failure.
5. What is left is deleted, the journal last. `open` does so after a run that was killed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from uncork.destination import Read, check_apart, check_destination, resolved
from uncork.errors import InputError, UncorkError
from uncork.score.durable import replace_file, sync_folder
from uncork.score.journal import Finished, Journal, Record
from uncork.score.old_output import OldOutput, lacks_parts
from uncork.score.parts import PartWriter, part_path, rejects_path
from uncork.score.target import (
    JOINED,
    JOURNAL,
    NOTE,
    REJECTED,
    SUCCESS,
    check_rejects_name,
    finished_note,
    foreign_file,
    foreign_folder,
    foreign_names,
    is_one_file,
)
from uncork.score.unit import Counts, Job


class Sink:
    """The sink of a run: it collects the parts of finished units and makes the output of them.

    `description` says what is being scored: a resumed run must have the same.

    `reads` are files that the run reads, which must never be written over.
    """

    def __init__(
        self,
        target: str,
        rejects: str | None,
        description: dict[str, Any],
        job: Job,
        reads: Sequence[Read] = (),
    ) -> None:
        self.is_file = is_one_file(target)
        self.target = resolved(target)
        if rejects is not None:
            check_rejects_name(rejects)
        self.rejects = None if rejects is None else resolved(rejects)
        self.folder = self.target.with_name(f".{self.target.name}.partial")
        self.description = description
        self.job = job
        self.reads = reads
        self.finished: dict[int, Finished] = {}
        #: The output has its name; what is left of the run may be deleted.
        self.placed = False
        self._old = OldOutput(self.target)
        self._journal: Journal | None = None
        self._endings: list[Record] = []  # of this run, once it was interrupted after step 2
        self._overwrite = False

    # ---- beginning

    def open(self, resume: bool, overwrite: bool) -> Record | None:
        """Make the folder, or take up the journal of an interrupted run.

        Returns what an earlier run says of the whole output, when that run was the same and is
        finished: there is nothing to do. Raises InputError, before anything is lost, when the
        output cannot be written or the interrupted run is another one.
        """
        self._overwrite = overwrite
        self._check_names()
        try:
            note = self._opened(resume, overwrite)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise InputError(f"cannot be written: {reason}", str(self.folder)) from None
            raise
        return note

    def _check_names(self) -> None:
        """Refuse an output that would destroy what is read, and rejects that it would destroy."""
        for path in (self.target, self.rejects, self.folder, self._old.path):
            if path is not None:
                check_apart(str(path), path, self.reads)
        if self.rejects is None:
            return
        taken = (self.target, self.folder, self._old.path)
        InputError.when(
            any(path == self.rejects or path in self.rejects.parents for path in taken),
            f"rejected rows cannot lie in the output, {self.target}: give another name",
            str(self.rejects),
        )

    def _opened(self, resume: bool, overwrite: bool) -> Record | None:
        if resume or overwrite:
            self._tidy_target()
        self._take_up(resume, overwrite)
        if self._journal is None and not self.is_file:
            self._old.recover(resume or overwrite)
        # Of a run that was taken up, an output that is to be replaced may be an older one.
        if resume and (self._journal is None or not overwrite):
            note = self._whole()
            if note is not None:
                self._discard()
                return note
        self._check(overwrite)
        if self._journal is None:
            self._begin()
        return None

    def _check(self, overwrite: bool) -> None:
        """Refuse a target or rejects that are there and may not be replaced."""
        foreign = foreign_file if self.is_file else foreign_folder
        options = {"overwrite": overwrite, "reads": self.reads}
        check_destination(self.target, foreign, folder=not self.is_file, **options)  # type: ignore[arg-type]
        if self.rejects is not None:
            ours = any(self._is_rejects(ending) for ending in self._endings)
            options["overwrite"] = overwrite or ours
            check_destination(self.rejects, foreign_file, **options)  # type: ignore[arg-type]

    def _begin(self) -> None:
        """Make a new folder with a new journal."""
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir()
        path = self.folder / JOURNAL
        self._journal = Journal.create(path, self.description, str(self.target))
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def _take_up(self, resume: bool, overwrite: bool) -> None:
        """Look at what an interrupted run has left, and take up its journal when it is to go on."""
        if not os.path.lexists(self.folder):
            return
        self._check_folder()
        path = self.folder / JOURNAL
        if not path.exists():  # being made, or almost deleted: nothing there is known
            self._keep(())
            return
        self._journal, first, records = Journal.take_up(path, str(self.target))
        if first is None:  # interrupted before it began
            self._keep(())
            self._journal.append(self.description)
            return
        self._endings = [r["ending"] for r in records if isinstance(r.get("ending"), dict)]
        if self._endings and self._is_placed(self._endings[-1]):
            if resume or overwrite:
                self._discard()
            self._close()
            return
        InputError.when(
            not resume,
            "has the parts of an interrupted run: resume that (the same command with "
            f"--resume), or delete it: {self.folder}",
            str(self.target),
        )
        self._compare(first)
        self._keep(records)

    def _check_folder(self) -> None:
        """Refuse a folder in the place of the run's that holds anything else: it would be lost."""
        is_folder = self.folder.is_dir() and not self.folder.is_symlink()
        foreign = foreign_names(self.folder) if is_folder else [self.folder.name]
        if foreign:
            raise InputError(
                f"parts are kept in {self.folder} meanwhile, and there is {foreign[0]!r}, "
                "which uncork score did not write: move it away",
                str(self.target),
            )

    def _keep(self, records: Iterable[Record]) -> None:
        """Take over the units whose parts are there; all others are scored again."""
        for record in records:
            with contextlib.suppress(KeyError, TypeError):  # an ending, or another version's
                kept = Finished.of(record)
                if self._is_there(kept):
                    self.finished[kept.unit] = kept
        named = {part_path(self.folder, unit) for unit in self.finished}
        named |= {rejects_path(self.folder, unit) for unit, f in self.finished.items() if f.rejects}
        for path in self.folder.iterdir():
            if path not in named and path.name != JOURNAL:
                path.unlink(missing_ok=True)

    def _compare(self, kept: Record) -> None:
        """Refuse to go on with a run whose description is another one."""
        now = json.loads(json.dumps(self.description))
        # Where nothing was rejected so far, bad rows may still be taken out. Nulls would need other
        # columns.
        ignored = (
            {"on_error"} if (kept.get("on_error"), now["on_error"]) == ("fail", "reject") else set()
        )
        different = [name for name in now if name not in ignored and now[name] != kept.get(name)]
        InputError.when(
            different,
            f"cannot be resumed: {', '.join(different)} not as before; "
            f"give what the interrupted run had, or delete {self.folder}",
            str(self.target),
        )

    def _is_there(self, kept: Finished) -> bool:
        """Whether the parts of a unit are there, of their sizes and readable by their footers."""
        counts, nulls = kept.counts, self.job.on_error == "null"
        parts = [
            (part_path(self.folder, kept.unit), kept.size, counts.rows if nulls else counts.scored)
        ]
        if kept.rejects:
            parts.append((rejects_path(self.folder, kept.unit), kept.rejects, counts.rejected))
        return all(
            path.is_file() and path.stat().st_size == size and _rows(path) == rows
            for path, size, rows in parts
        )

    # ---- what earlier runs have left

    def _is_placed(self, ending: Record) -> bool:
        """Whether the output was placed before: the file that was to be it is gone from the folder,
        and the target is like it.
        """
        if not self.is_file or (self.folder / str(ending.get("output"))).exists():
            return False
        size = self.target.stat().st_size if self.target.is_file() else None
        note = finished_note(self.target) or {}
        return size == ending.get("size") and note.get("run") == ending.get("run")

    def _is_rejects(self, ending: Record) -> bool:
        """Whether what is there as rejects was put there by the run that is taken up."""
        assert self.rejects is not None
        size = self.rejects.stat().st_size if self.rejects.is_file() else None
        return bool(ending.get("rejects") == [str(self.rejects), size])

    def _tidy_target(self) -> None:
        """Finish the last step of a run that was killed when its folder had become the target."""
        path = self.target / JOURNAL
        if self.is_file or not path.is_file() or foreign_folder(self.target):
            return
        check_apart(str(self.target), self.target, self.reads)
        journal = Journal(path, "r+b", str(self.target))
        try:
            self._tidied(journal)
        finally:
            journal.close()

    def _whole(self) -> Record | None:
        """The note that a finished output keeps of its run; None where that is another run."""
        note = finished_note(self.target)
        counts = {} if note is None else note.get("counts")
        if note is None or note.get("run") != self.job.run or not isinstance(counts, dict):
            return None
        if not self.is_file and lacks_parts(self.target):
            return None
        rejected = counts.get("rejected")
        if rejected and self.rejects is not None and not self.rejects.exists():
            raise InputError(
                f"the output is finished, but its {rejected:,} rejected rows are not here any "
                "more: score again with --overwrite",
                str(self.rejects),
            )
        return note

    # ---- during the run

    def done(self, finished: Finished) -> None:
        """Note a unit whose parts are in the folder."""
        UncorkError.when(
            finished.unit in self.finished,
            f"unit {finished.unit} was scored twice: this is a mistake of uncork, please report it",
            str(self.target),
        )
        assert self._journal is not None
        self._journal.append(asdict(finished))
        self.finished[finished.unit] = finished

    @property
    def counts(self) -> Counts:
        return sum((f.counts for f in self.finished.values()), Counts())

    def leave(self) -> bool:
        """Stop without an output.

        Returns whether there is anything to resume; without, nothing stays behind.
        """
        if self._journal is not None and not self.placed:
            with contextlib.suppress(OSError):  # what cannot be deleted is swept by the next run
                if not self.finished:
                    self._discard()
                for path in self.folder.glob("*.tmp"):
                    path.unlink(missing_ok=True)
        self._close()
        return bool(self.finished)

    def _discard(self) -> None:
        """Delete the folder of the run.

        The journal goes last: what has none holds nothing of worth.
        """
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                if path.name != JOURNAL:
                    path.unlink(missing_ok=True)
            self._close()  # a network file system keeps files that are open
            shutil.rmtree(self.folder)

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    # ---- the end

    def finish(self, summary: dict[str, Any]) -> None:
        """Give the output its name, when every unit has been noted."""
        assert self._journal is not None
        rejected = self._joined_rejects()
        output = self._joined_parts() if self.is_file else self._completed(summary)
        size = output.stat().st_size
        ending: Record = {"run": self.job.run, "output": output.name, "size": size}
        if rejected is not None:
            ending["rejects"] = [str(self.rejects), rejected.stat().st_size]
        self._journal.append({"ending": ending})
        self._check(self._overwrite)  # hours may have gone by
        if rejected is not None and self.rejects is not None:
            replace_file(rejected, self.rejects)
        if self.is_file:
            os.replace(output, self.target)
        else:
            self._place_folder()
        self.placed = True
        sync_folder(self.target.parent)
        self._tidy()

    def _joined_rejects(self) -> Path | None:
        """All rejected rows as one file that waits for its name."""
        if self.rejects is None:
            return None
        parts = [
            rejects_path(self.folder, unit)
            for unit, kept in sorted(self.finished.items())
            if kept.rejects
        ]
        return self._join(parts, REJECTED, self.job.reject_schema, ())

    def _joined_parts(self) -> Path:
        """All scored rows as one file that waits for its name."""
        parts = [part_path(self.folder, unit) for unit in sorted(self.finished)]
        return (
            parts[0]
            if len(parts) == 1
            else self._join(parts, JOINED, self.job.schema, self.job.plain_columns)
        )

    def _completed(self, summary: dict[str, Any]) -> Path:
        """Complete the folder as an output, with a note on its run, and return the note's path."""
        if not self.finished:
            PartWriter(part_path(self.folder, 0), self.job.schema).close()
        path = self.folder / SUCCESS
        note = {**summary, "run": self.job.run, "counts": asdict(self.counts)}
        scratch = path.with_name(f"{path.name}.tmp")
        with open(scratch, "w", encoding="utf-8") as file:
            file.write(json.dumps(note, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
        sync_folder(self.folder)
        return path

    def _join(
        self, parts: Sequence[Path], name: str, schema: pa.Schema, plain: Sequence[str]
    ) -> Path:
        """The rows of the parts, in order, as one file of the folder."""
        if parts:  # Parquet does not have every type of Arrow: it gives back a near one
            schema = pq.read_schema(parts[0]).remove_metadata()
        with PartWriter(self.folder / name, schema, plain) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for batch in file.iter_batches(use_threads=False):
                        writer.write(batch)
            writer.note(NOTE, self.job.note(self.counts))
        return self.folder / name

    def _place_folder(self) -> None:
        """Rename the folder to the target; an old one is put back when that fails."""
        if os.name == "nt":  # where a folder with an open file cannot be renamed
            self._close()
        with self._old.moved_away():
            os.rename(self.folder, self.target)

    def _tidy(self) -> None:
        """Delete what is left, now that the output is there."""
        try:
            if self.is_file:
                self._discard()
            else:
                self._tidied(self._journal)
        except OSError as error:
            left = error.filename or self._old.path
            raise UncorkError(
                f"the output is whole, but {left} cannot be deleted: {error.strerror}",
                str(self.target),
            ) from None

    def _tidied(self, journal: Journal | None) -> None:
        """Remove from the target what was only of the run, and delete the old output."""
        self._old.delete()
        for path in self.target.iterdir():
            if path.name.startswith("_rejects-") or path.name == REJECTED:
                path.unlink(missing_ok=True)
        if journal is not None:
            journal.close()
        (self.target / JOURNAL).unlink(missing_ok=True)
        sync_folder(self.target)


def _rows(path: Path) -> int | None:
    """The number of rows of a part, by its footer; None when it is damaged."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return None
