"""`Landmarks`: whether a worker on another machine sees the files of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from uncork.errors import UncorkError
from uncork.score.target import JOURNAL
from uncork.score.unit import Job


@dataclass(frozen=True)
class Landmarks:
    """The files, with their sizes in bytes, and the journal of a run, by its first line, that a
    worker must see as this process does.
    """

    files: tuple[tuple[str, int], ...]
    journal: str
    description: bytes

    @staticmethod
    def of(job: Job, folder: Path) -> Landmarks:
        model = Path(job.model)
        named = [
            job.model,
            job.load_options["weights"] or str(model.with_suffix(".bin")),
            *(job.load_options["tables"] or {}).values(),
        ]
        # FILE.safetensors:KEY is a place in a file.
        paths = [path if os.path.exists(path) else path.rpartition(":")[0] for path in named]
        if isinstance(job.source.filesystem, pafs.LocalFileSystem):
            paths += [file.path for file in job.source.files]
        with open(folder / JOURNAL, "rb") as journal:
            description = journal.readline()
        return Landmarks(
            tuple((p, os.path.getsize(p)) for p in paths if os.path.isfile(p)),
            str(folder / JOURNAL),
            description,
        )

    def check(self, node: str) -> None:
        """Raise UncorkError with the first landmark that is not the same on this node."""
        for path, size in self.files:
            try:
                found = os.path.getsize(path)
            except OSError as error:
                raise _unseen(node, f"does not see {path} ({error.strerror})") from None
            if found != size:
                raise _unseen(node, f"sees another {path}: {found:,} bytes, expected {size:,}")
        try:
            with open(self.journal, "rb") as journal:
                same = journal.readline() == self.description
        except OSError as error:
            raise _unseen(
                node,
                "does not see the folder of the run, "
                f"{os.path.dirname(self.journal)} ({error.strerror})",
            ) from None
        if not same:
            raise _unseen(node, f"sees another folder at {os.path.dirname(self.journal)}")


def _unseen(node: str, what: str) -> UncorkError:
    return UncorkError(
        f"{what}: every node must have the source and the output on a shared file system, "
        "under the same paths as here, and the model "
        "and its tables under the same paths, shared or copied",
        f"Ray worker on {node}",
    )
