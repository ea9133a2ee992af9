"""Files that are written whole or not at all, several of them together."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from uncork.errors import UncorkError

#: Seconds after which a name that a writer gave for some steps is one of a writer that was killed.
_LEFT = 3600.0


class Replacement:
    """Files that take their final names when the block ends well, and leave no trace otherwise.

    The file that is opened last is the one that tells of the others, as model.xml of its weights.
    Whenever the process ends, it stands for files that are whole: it is put aside before any other
    is replaced, and comes back after them. What is written has no name until then, where the
    system has such files, so that a kill leaves none of it but between the last steps; what it
    leaves there is deleted by the next who writes the same files, an hour later or more.
    """

    def __init__(self) -> None:
        self._token = secrets.token_hex(6)
        self._finals: list[Path] = []
        self._nameless: dict[Path, int] = {}  # open file descriptors

    def open(self, final: Path) -> BinaryIO:
        """A new file that will become `final`."""
        if final.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(final))
        self._finals.append(final)
        handle = _nameless(final.parent)
        if handle is None:
            return open(self._scratch(final, "new"), "xb")
        self._nameless[final] = handle
        return open(final, "xb", opener=lambda *_: os.dup(handle))

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.ExitStack() as last:  # all of it happens, whatever fails meanwhile
            # Twice: an interrupt may come just before one is deleted.
            for kind_of in ("new", "old") * 2:
                for final in self._finals:
                    last.callback(self._scratch(final, kind_of).unlink, missing_ok=True)
            for handle in self._nameless.values():
                last.callback(os.close, handle)
            if kind is None and self._finals:
                with contextlib.ExitStack() as back:
                    for final in self._finals:
                        back.callback(self._put_back, final, final.exists())
                    self._replace()
                    back.pop_all()

    def _put_back(self, final: Path, was_there: bool) -> None:
        """Put back what was there before; where nothing was, remove the new file."""
        old = self._scratch(final, "old")
        if old.exists():
            os.replace(old, final)
        elif not was_there:
            final.unlink(missing_ok=True)

    def _replace(self) -> None:
        for final in self._finals:
            new = self._scratch(final, "new")
            if final in self._nameless:
                _name(self._nameless[final], new)
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(final, new)
        *others, head = self._finals
        if others:
            # There may be none, and another writer may put it aside at any moment.
            with contextlib.suppress(FileNotFoundError):
                os.replace(head, self._scratch(head, "old"))
        for final in others:
            with contextlib.suppress(FileNotFoundError):
                _keep(final, self._scratch(final, "old"))
            os.replace(self._scratch(final, "new"), final)
        os.replace(self._scratch(head, "new"), head)
        for folder in {final.parent for final in self._finals}:
            _delete_left(folder, [final for final in self._finals if final.parent == folder])

    def _scratch(self, final: Path, kind: str) -> Path:
        return final.with_name(_scratch_name(final, self._token, kind))


def _scratch_name(final: Path, token: str, kind: str) -> str:
    return f".{final.stem[:100]}.{token}{final.suffix[:20]}.{kind}"


def _delete_left(folder: Path, finals: Sequence[Path]) -> None:
    """Delete what killed writers of these files have left beside them."""
    names = [re.escape(_scratch_name(final, "@", "")) for final in finals]
    pattern = re.compile("|".join(names).replace("@", "[0-9a-f]{12}"))
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            stem, _, kind = entry.name.rpartition(".")
            if kind not in ("new", "old") or not pattern.fullmatch(stem + "."):
                continue
            with contextlib.suppress(OSError):  # another may be deleting it too
                # Names change it, contents do not: one that stands aside may be years old.
                if time.time() - entry.stat(follow_symlinks=False).st_ctime > _LEFT:
                    os.unlink(entry.path)


@contextlib.contextmanager
def written_into(*folders: Path) -> Iterator[None]:
    """Folders, each in the one before, that a block writes into: those that were not there are
    made, and go again where the block fails. Raises UncorkError where that or the block cannot
    write.
    """
    new: list[Path] = []
    try:
        try:
            for folder in folders:
                if not folder.is_dir():
                    folder.mkdir()
                    new.append(folder)
            yield
        except BaseException:
            for folder in reversed(new):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise
    except OSError as error:
        where = str(folders[0])
        raise UncorkError(f"cannot be written: {error.strerror or error}", where) from None


def _nameless(folder: Path) -> int | None:
    """A file without a name, which is gone when nobody has it open; None where there are none
    (other systems than Linux).
    """
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except (
        OSError
    ):  # not on every file system; what is really wrong shows when one with a name is made
        return None


def _name(handle: int, name: Path) -> None:
    """Give a nameless file its name. Where that is not allowed, a copy gets it."""
    try:
        # Only with a folder given does Python follow the link to the file itself.
        folder = os.open(name.parent, os.O_RDONLY)
        try:
            os.link(f"/proc/self/fd/{handle}", name.name, dst_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)
    except (OSError, NotImplementedError):
        with contextlib.suppress(FileNotFoundError):
            name.unlink()
        with os.fdopen(os.dup(handle), "rb") as file, open(name, "xb") as copy:
            file.seek(0)
            shutil.copyfileobj(file, copy)


def _keep(path: Path, name: Path) -> None:
    """Give the file a second name; where there are no links, that name replaces its first one."""
    try:
        os.link(path, name, follow_symlinks=False)
    except (OSError, NotImplementedError):
        os.replace(path, name)
