"""The folder of an old output, `.NAME.old`, from when it makes room to when it is deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from uncork.errors import InputError
from uncork.score.target import SUCCESS, finished_note, foreign_folder


class OldOutput:
    """The old output of a target that is a folder, under its second name."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f".{target.name}.old")

    def recover(self, deleting: bool) -> None:
        """Clean up after a run that was killed, and that nobody resumes: put the old output back,
        or delete it when there is a new one.
        """
        is_there = os.path.lexists(self.target)
        if not os.path.lexists(self.path) or (is_there and not deleting):
            return
        if is_there and not foreign_folder(self.target):
            self.delete()
        elif not is_there and self._is_empty():
            self.path.rmdir()
        elif not is_there and not self._foreign() and not lacks_parts(self.path):
            os.rename(self.path, self.target)
        else:
            raise InputError(
                f"{self.path} is in the way, and no whole output of uncork score: move it away",
                str(self.target),
            )

    @contextlib.contextmanager
    def moved_away(self) -> Iterator[None]:
        """Make room at the target for a block that gives it a new folder.

        A failure puts the old one back.
        """
        if os.path.lexists(self.target):
            self.delete()  # of a run that was killed in its last step
        try:
            if os.path.lexists(self.target):
                os.rename(self.target, self.path)
            yield
        except BaseException:
            if not os.path.lexists(self.target) and os.path.lexists(self.path):
                os.rename(self.path, self.target)
            raise

    def delete(self) -> None:
        """Delete the old output, if it is there; what tells that it was an output goes last."""
        if not os.path.lexists(self.path):
            return
        reason = "" if self._is_empty() else self._foreign()
        InputError.when(
            reason, f"{self.path} is in the way, and {reason}: move it away", str(self.target)
        )
        for path in self.path.iterdir():
            if path.name != SUCCESS:
                path.unlink()
        shutil.rmtree(self.path)

    def _is_empty(self) -> bool:
        return self.path.is_dir() and not self.path.is_symlink() and not any(self.path.iterdir())

    def _foreign(self) -> str:
        """Why it is no output of a run; "" when it is one."""
        if self.path.is_symlink() or not self.path.is_dir():
            return "it is not a folder"
        return foreign_folder(self.path)


def lacks_parts(folder: Path) -> bool:
    """Whether a part of a finished output was deleted."""
    note = finished_note(folder) or {}
    wanted = max(1, note.get("parts", 0))
    return bool(len(list(folder.glob("part-*.parquet"))) != wanted)
