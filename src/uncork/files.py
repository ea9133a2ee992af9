"""Reading of files that come from strangers: only ordinary (regular) files are opened, and a mapped
one knows whether it was cut.

Opening a named pipe waits for somebody who writes to it, and a device may never end: what is not
an ordinary file is refused before a byte of it is read. A file that is cut while it is mapped ends
the process at the next look at the part that is gone (SIGBUS), so its size can be looked at before.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import mmap
import os
import stat
import weakref
from typing import BinaryIO

import numpy as np

from uncork.errors import ReadError, did_you_mean
from uncork.types import Array

#: Files up to so many bytes are read where larger ones are mapped: what is copied cannot be cut,
#: and to copy 8 MB takes 0.2 ms (64 MB: 50 ms, map either: 0.02 ms).
SMALL = 8 << 20

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """An ordinary file, open for reading. Raises OSError for everything else, without waiting."""
    return open(path, "rb", opener=_open_ordinary)


def why_not(error: OSError, path: str | os.PathLike[str]) -> str:
    """The reason why a file cannot be read; for one that does not exist, also the file beside it
    that has the same ending and nearly its name.
    """
    text = f"cannot be read: {error.strerror or error}"
    if error.errno != errno.ENOENT:
        return text
    folder, name = os.path.split(os.fspath(path))
    try:
        with os.scandir(folder or os.curdir) as entries:
            beside = [entry.name for entry in itertools.islice(entries, 10_000)]
        beside = [other for other in beside if _ending(other) == _ending(name)]
    except OSError:
        return text
    return text + did_you_mean(name, beside)


def _ending(name: str) -> str:
    return os.path.splitext(name)[1]


def _open_ordinary(path: str, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, expected an ordinary file", path)
    return handle


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of an ordinary file. Raises OSError, also when it has more than `most`."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, expected at most {most:,}")
        return file.read()


class MappedFile(mmap.mmap):
    """An ordinary file that is mapped for reading: processes that map it share its memory."""

    path: str | os.PathLike[str]
    #: An open file descriptor of the file.
    handle: int

    @classmethod
    def of(cls, path: str | os.PathLike[str], file: BinaryIO) -> MappedFile:
        """An open file that is not empty, mapped as a whole."""
        mapped = cls(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.path, mapped.handle = path, os.dup(file.fileno())
        weakref.finalize(mapped, os.close, mapped.handle)
        return mapped

    def check(self) -> None:
        """Raise ReadError when the file is shorter than what is mapped of it."""
        size = self.size()
        ReadError.when(
            size < len(self),
            f"has {size:,} bytes now and had {len(self):,} when it was opened, so its values "
            "are gone: load the model "
            "again. A file in use is replaced by renaming the new one, not by writing over "
            "it; or load with mmap=False",
            str(self.path),
        )


def data_of(path: str | os.PathLike[str], mapped: bool) -> memoryview:
    """The bytes of an ordinary file: mapped when it is not small, or else copied. Raises
    OSError.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if mapped and size > SMALL:
            return memoryview(MappedFile.of(path, file))
        return memoryview(file.read())


def mapped_file(array: Array) -> MappedFile | None:
    """The mapped file that an array shows a part of, if it does."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, MappedFile) else None


def let_go(array: Array) -> None:
    """Tell the system that a part of a mapped file is not needed in memory for now.

    It is read from the file again where it is looked at; other arrays are left alone.
    """
    mapped = mapped_file(array)
    if mapped is None or not hasattr(mmap, "MADV_DONTNEED") or not array.flags.c_contiguous:
        return
    start = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    end = start + array.nbytes
    start += -start % mmap.PAGESIZE
    if end - start >= mmap.PAGESIZE:
        mapped.madvise(mmap.MADV_DONTNEED, start, end - start)


@functools.lru_cache(maxsize=1)
def size_function() -> int:
    """The address of the C library's `lseek`, which tells a file's size; 0 where there is none.

    On Windows a file cannot be cut while it is mapped.
    """
    if os.name != "posix":
        return 0
    return ctypes.cast(ctypes.CDLL(None).lseek, ctypes.c_void_p).value or 0
