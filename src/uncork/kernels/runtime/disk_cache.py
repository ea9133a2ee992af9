"""A folder of files that may be lost at any time: a cache that any number of processes share.

Files are written beside their name and renamed, so a reader finds a whole one or none; what is cut
short, changed or under another's name is noticed by a checksum. A folder that cannot be read or
written costs the time to make its contents again, and nothing else. What it holds will be run: one
that others own or can write to is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import time
from pathlib import Path

from msgspec import Struct

from uncork import files
from uncork.errors import warn_once

#: What a folder may hold, in bytes; beyond it, what was used longest ago is deleted.
MAX_BYTES = 64 << 20
#: Bytes that a process writes before it looks again whether the folder has become too large.
_UNWATCHED = 1 << 20
#: Uses are noted to this many seconds, so that reading hardly ever writes.
_GRAIN = 3600.0
_SUFFIX, _UNFINISHED = ".kernel", ".tmp"
_CHECK = 32


def default_folder() -> Path | None:
    """`uncork` in the user's cache directory, by the platform's convention; None for a user without
    a home.
    """
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if not home.is_absolute():
        return None  # it would be another folder in every directory
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "uncork" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "uncork"
    return home / ".cache" / "uncork"


class Entry(Struct, frozen=True):
    """A file of the folder. `used` is when, in seconds since the epoch, to about an hour."""

    path: Path
    bytes: int
    used: float


class Folder:
    """The folder of a cache: see the module. `path` None: nothing is kept."""

    def __init__(self, path: Path | None, most: int = MAX_BYTES) -> None:
        self.path = path
        self.most = most
        self._unwatched = _UNWATCHED  # look at the first write

    def read(self, key: str) -> bytes | None:
        """What was written under a key, or None."""
        if self.path is None or not _trusted(self.path):
            return None
        try:
            with files.opened(self.path / (key + _SUFFIX)) as file:
                status = os.fstat(file.fileno())
                if not _ours(status):
                    return None
                data = file.read()
                if abs(time.time() - status.st_mtime) > _GRAIN:
                    with contextlib.suppress(OSError):
                        os.utime(self.path / (key + _SUFFIX))
        except OSError:
            return None
        content, check = data[:-_CHECK], data[-_CHECK:]
        return content if _checksum(key, content) == check else None

    def write(self, key: str, content: bytes) -> None:
        """Keep something, if that is possible."""
        if self.path is None or not _trusted(self.path):
            return
        import tempfile

        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, scratch = tempfile.mkstemp(dir=self.path, prefix=key, suffix=_UNFINISHED)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content + _checksum(key, content))
                os.replace(scratch, self.path / (key + _SUFFIX))
            except BaseException:  # Ctrl-C, too
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
                raise
        except OSError:
            return  # read-only or full: this process has it, the next one makes it again
        self._unwatched += len(content)
        if self._unwatched >= _UNWATCHED:
            self._unwatched = 0
            self.trim()

    def entries(self) -> list[Entry]:
        """The files, those used last first."""
        return self._listed(_SUFFIX)

    def clear(self) -> list[Entry]:
        """Delete everything; returns the files that were deleted. What processes have loaded stays
        with them.
        """
        for entry in self._listed(_UNFINISHED):
            _deleted(entry)
        return [entry for entry in self.entries() if _deleted(entry)]

    def trim(self) -> None:
        """Delete what was used longest ago until the rest is small enough, and what a process that
        died has left.
        """
        total = 0
        for entry in self.entries():
            total += entry.bytes
            if total > self.most:
                _deleted(entry)
        for entry in self._listed(_UNFINISHED):
            if time.time() - entry.used > _GRAIN:
                _deleted(entry)

    def _listed(self, suffix: str) -> list[Entry]:
        found: list[Entry] = []
        try:
            with os.scandir(self.path or "") as files:
                for file in files:
                    if file.name.endswith(suffix):
                        with contextlib.suppress(OSError):  # another process may be deleting too
                            status = file.stat(follow_symlinks=False)
                            found.append(Entry(Path(file.path), status.st_size, status.st_mtime))
        except OSError:
            return []
        return sorted(found, key=lambda entry: (-entry.used, entry.path.name))


def _checksum(key: str, content: bytes) -> bytes:
    """A digest of a file's content and its key: files cannot be exchanged by giving one the name of
    another.
    """
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def _trusted(path: Path) -> bool:
    """Whether the folder is this user's alone, or not there yet. A warning says so once where it is
    not.
    """
    try:
        status = os.stat(path)
    except OSError:
        return True
    if _ours(status) or not stat.S_ISDIR(status.st_mode):
        return True
    why = (
        f"has the mode {stat.S_IMODE(status.st_mode):o}"
        if status.st_uid in (os.getuid(), 0)
        else f"belongs to user {status.st_uid}"
    )
    warn_once(
        f"folder {path}",
        f"the folder '{path}' {why}, so others could exchange the compiled kernels in it: it is "
        "not used, and every process "
        "compiles its kernels again; delete it, or make it yours alone (mode 700)",
    )
    return False


def _ours(status: os.stat_result) -> bool:
    """Whether nobody else could have written the file, or in the folder."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o022


def _deleted(entry: Entry) -> bool:
    try:
        entry.path.unlink()
    except OSError:
        return False
    return True
